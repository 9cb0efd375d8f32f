"""Operations on IMAGE [B, H, W, C] and MASK [B, H, W] tensors, float32 in 0..1. Never in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from torch import Tensor

Method = Literal["nearest-exact", "bilinear", "area", "bicubic", "lanczos"]
Crop = Literal["disabled", "center"]
Operation = Literal["multiply", "add", "subtract", "and", "or", "xor"]

_LUMA: Final = (0.299, 0.587, 0.114)
"""BT.601 luma weights of R, G, B."""
_FAINT: Final = 1 / 255
"""Lowest alpha that is not transparent."""
_FINE: Final = 2.0**20
"""Quantisation levels of the gradient magnitude."""
_AROUND: Final = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))
"""(down, right) offsets of the eight neighbours; entry k lies at k * 45 degrees."""


def resize(image: Tensor, width: int, height: int, method: Method, crop: Crop = "disabled") -> Tensor:
    """Scale images [B, H, W, C] to ``height`` x ``width`` pixels.

    Only ``area`` and ``lanczos`` antialias when shrinking. Overshoot of bicubic and Lanczos is clipped;
    Lanczos works on 8 bits a channel (RGBA: on float32). The colours of RGBA pictures count by their alpha (except for
    nearest-exact), so that what is hidden below transparent parts does not bleed into the rest.

    Args:
        image: Pictures; any number of channels.
        width: New width in pixels, at least 1.
        height: New height in pixels, at least 1.
        method: Interpolation.
        crop: ``center`` first cuts the middle part of the new aspect ratio, so that nothing is squeezed.
    """
    if crop == "center":
        image = _cut_to_aspect(image, width / height)
    if image.shape[1:3] == (height, width):
        return image
    if image.shape[-1] == 4 and method != "nearest-exact":
        return _by_alpha(image, width, height, method)
    scaled = (
        _eight_bit_lanczos(image, width, height) if method == "lanczos" else _filtered(image, width, height, method)
    )
    return scaled.clamp(0, 1) if method == "bicubic" else scaled


def _by_alpha(image: Tensor, width: int, height: int, method: Method) -> Tensor:
    """Scale RGBA images with colours weighted by alpha; transparent pixels keep their hidden colours."""
    colours, alpha = image[..., :3], image[..., 3:]
    both = _filtered(torch.cat([colours, colours * alpha, alpha], -1), width, height, method)
    hidden, shown, alpha = both.split([3, 3, 1], -1)
    colours = torch.where(alpha < _FAINT, hidden, shown / alpha.clamp_min(_FAINT))
    return torch.cat([colours, alpha], -1).clamp(0, 1)


def resize_mask(mask: Tensor, width: int, height: int, method: Method = "bilinear") -> Tensor:
    """Scale masks [B, H, W] like :func:`resize` scales images."""
    return resize(mask.unsqueeze(-1), width, height, method).squeeze(-1)


def _cut_to_aspect(image: Tensor, aspect: float) -> Tensor:
    """The largest centre crop whose width is ``aspect`` times its height, in whole pixels."""
    h, w = image.shape[1:3]
    if w / h > aspect:
        x = min(round((w - h * aspect) / 2), (w - 1) // 2)
        return image[:, :, x : w - x]
    y = min(round((h - w / aspect) / 2), (h - 1) // 2)
    return image[:, y : h - y]


def _filtered(image: Tensor, width: int, height: int, method: Method) -> Tensor:
    """Resample each channel on its own; overshoot is not clipped."""
    if method == "lanczos":
        return _lanczos(image.detach().cpu().float(), width, height).to(image)
    return F.interpolate(image.movedim(-1, 1), size=(height, width), mode=method).movedim(1, -1)


def _eight_bit_lanczos(image: Tensor, width: int, height: int) -> Tensor:
    """Lanczos on 8 bits a channel, as ComfyUI does it."""
    eight_bit = (image.detach().cpu().float().clamp(0, 1) * 255 + 0.5).to(torch.uint8)
    return _lanczos(eight_bit, width, height).to(image) / 255


def _lanczos(image: Tensor, width: int, height: int) -> Tensor:
    """Pillow's antialiased Lanczos filter on uint8 (rounded and clipped) or float32 images."""
    from PIL import Image

    planes = image.movedim(-1, 1).flatten(0, 1).numpy()
    scaled = [Image.fromarray(p).resize((width, height), Image.Resampling.LANCZOS) for p in planes]
    stack = torch.from_numpy(np.stack([np.asarray(p) for p in scaled]))
    return stack.reshape(image.shape[0], image.shape[-1], height, width).movedim(1, -1)


def repeat_to(batch: Tensor, count: int) -> Tensor:
    """Repeat or cut ``batch`` to ``count`` items."""
    return batch if batch.shape[0] == count else batch[torch.arange(count) % batch.shape[0]]


def match_channels(image: Tensor, like: Tensor) -> Tensor:
    """``image`` with the channels of ``like``: surplus channels are cut, gray is repeated, a missing alpha is 1."""
    have, want = image.shape[-1], like.shape[-1]
    if have == 1 and want >= 3:
        image = image.expand(*image.shape[:-1], 3)
    if image.shape[-1] < want:
        return F.pad(image, (0, want - image.shape[-1]), value=1.0)
    return image[..., :want]


def composite(destination: Tensor, source: Tensor, x: int, y: int, mask: Tensor | None) -> Tensor:
    """Paste ``source`` onto ``destination`` with its top left corner at (x, y), clipped at the edges.

    Args:
        destination: Pictures [B, H, W, C].
        source: Pictures [b, h, w, c]; repeated or cut to B, channels matched.
        x: Column of the source's left edge; may be negative.
        y: Row of the source's top edge; may be negative.
        mask: Opacity of the source [m, any, any], scaled to its size; opaque if None.
    """
    count, high, wide, _ = destination.shape
    source = match_channels(repeat_to(source, count), destination).to(destination)
    h, w = source.shape[1:3]
    top, left, bottom, right = max(y, 0), max(x, 0), min(y + h, high), min(x + w, wide)
    if top >= bottom or left >= right:
        return destination
    part = source[:, top - y : bottom - y, left - x : right - x]
    out = destination.clone()
    if mask is not None:
        opacity = repeat_to(resize_mask(mask, w, h), count).to(destination)
        opacity = opacity[:, top - y : bottom - y, left - x : right - x, None]
        part = part * opacity + out[:, top:bottom, left:right] * (1 - opacity)
    out[:, top:bottom, left:right] = part
    return out


def combine_masks(destination: Tensor, source: Tensor, x: int, y: int, operation: Operation) -> Tensor:
    """Combine ``source`` at (x, y) with masks [B, H, W]; and, or, xor round values to 0 or 1. Clipped to 0..1."""
    count, high, wide = destination.shape
    source = repeat_to(source, count).to(destination)
    top, left = max(y, 0), max(x, 0)
    bottom, right = min(y + source.shape[1], high), min(x + source.shape[2], wide)
    if top >= bottom or left >= right:
        return destination
    a = destination[:, top:bottom, left:right]
    b = source[:, top - y : bottom - y, left - x : right - x]
    match operation:
        case "multiply":
            mixed = a * b
        case "add":
            mixed = a + b
        case "subtract":
            mixed = a - b
        case "and":
            mixed = (a.round().bool() & b.round().bool()).to(a)
        case "or":
            mixed = (a.round().bool() | b.round().bool()).to(a)
        case "xor":
            mixed = (a.round().bool() ^ b.round().bool()).to(a)
    out = destination.clone()
    out[:, top:bottom, left:right] = mixed.clamp(0, 1)
    return out


def grow_mask(mask: Tensor, pixels: int, tapered: bool) -> Tensor:
    """Dilate (or with a negative number erode) masks [B, H, W] by pixels; ``tapered`` uses a diamond."""
    sign = 1 if pixels >= 0 else -1
    out = mask.unsqueeze(1) * sign
    for _ in range(abs(pixels)):
        if tapered:
            out = torch.maximum(F.max_pool2d(out, (3, 1), 1, (1, 0)), F.max_pool2d(out, (1, 3), 1, (0, 1)))
        else:
            out = F.max_pool2d(out, 3, 1, 1)
    return out.squeeze(1) * sign


def pad_for_outpaint(
    image: Tensor, left: int, top: int, right: int, bottom: int, feathering: int
) -> tuple[Tensor, Tensor]:
    """Pad images with gray 0.5; the mask [1, H, W] is 1 on the padding and fades out inside the image.

    The fall is ((f - d) / f) squared at d < f pixels from the nearest padded edge. Pictures that are not more than
    twice as wide and high as ``feathering`` get no fall.
    """
    h, w = image.shape[1:3]
    padded = F.pad(image, (0, 0, left, right, top, bottom), value=0.5)
    inside = torch.zeros(h, w)
    if 0 < feathering * 2 < min(h, w):
        rows, columns = torch.arange(h).float()[:, None], torch.arange(w).float()[None]
        edges = [(top, rows), (bottom, h - rows), (left, columns), (right, w - columns)]
        near = torch.full((h, w), float(max(h, w)))
        for padding, distance in edges:
            near = torch.minimum(near, distance.expand(h, w)) if padding else near
        inside = ((feathering - near) / feathering).clamp(min=0) ** 2
    return padded, F.pad(inside, (left, right, top, bottom), value=1.0)[None]


def _windowed(image: Tensor, kernel: Tensor) -> Tensor:
    """Filter each channel of [B, C, H, W] with a kernel [k, k]; borders are mirrored, or replicated if too small."""
    r, c = kernel.shape[-1] // 2, image.shape[1]
    mirrored = min(image.shape[-2:]) > r
    padded = F.pad(image, (r, r, r, r), mode="reflect" if mirrored else "replicate")
    return F.conv2d(padded, kernel.to(image).expand(c, 1, *kernel.shape), groups=c)


def gaussian_blur(image: Tensor, radius: int, sigma: float) -> Tensor:
    """Blur images [B, H, W, C] with a kernel of ``2 * radius + 1`` pixels; ``sigma`` is in units of the radius."""
    at = torch.linspace(-1, 1, 2 * radius + 1)
    bell = torch.exp(-(at**2) / (2 * sigma**2))
    kernel = bell[:, None] * bell[None]
    return _windowed(image.movedim(-1, 1), kernel / kernel.sum()).movedim(1, -1)


def canny(image: Tensor, low: float, high: float) -> Tensor:
    """Canny edges of images [B, H, W, C]: 0 or 1 in [B, H, W].

    J. Canny, A Computational Approach to Edge Detection, 1986: gray, Gaussian 5x5 of sigma 1, Sobel, thinning along
    the gradient in eight directions, then from every pixel above ``high`` along pixels above ``low``. Thresholds are
    for the length of the plain Sobel gradient (weights 1 2 1) after the blur: a step from black to white has 2.6.
    """
    if low > high:
        raise ValueError(f"low_threshold {low} is above high_threshold {high}")
    exact = image.double()
    gray = (
        exact[..., :1]
        if image.shape[-1] < 3
        else exact[..., :3] @ torch.tensor(_LUMA, dtype=torch.float64).to(exact)[:, None]
    )
    at = torch.arange(-2.0, 3.0, dtype=torch.float64)
    bell = torch.exp(-(at**2) / 2)
    bell = bell / bell.sum()
    smooth = _windowed(gray.movedim(-1, 1), bell[:, None] * bell[None])
    sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).to(exact)
    gradient = F.conv2d(F.pad(smooth, (1, 1, 1, 1), mode="replicate"), torch.stack([sobel, sobel.T])[:, None])
    across, down = gradient[:, 0], gradient[:, 1]
    # The two sides of a straight step are equally steep. Rounding makes that a true tie, whatever the device or the
    # batch, and ">=" on one side then keeps one of them.
    length = ((across**2 + down**2).sqrt() * _FINE).round() / _FINE
    direction = (torch.atan2(down, across) * (4 / torch.pi)).round().long() % 8
    neighbours = _neighbours(length)
    ahead = neighbours.gather(0, direction[None])[0]
    behind = neighbours.gather(0, (direction[None] + 4) % 8)[0]
    thin = length * ((length > ahead) & (length >= behind))
    return _grow_strong(thin > high, thin > low).to(image)


def _neighbours(x: Tensor) -> Tensor:
    """The eight neighbours of each pixel of [B, H, W] as [8, B, H, W], by direction; 0 outside."""
    h, w = x.shape[-2:]
    padded = F.pad(x, (1, 1, 1, 1))
    return torch.stack([padded[:, 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w] for dy, dx in _AROUND])


def _grow_strong(strong: Tensor, weak: Tensor) -> Tensor:
    """Strong pixels, and weak pixels [B, H, W] connected to them."""
    while True:
        grown = (F.max_pool2d(strong.float()[:, None], 3, 1, 1)[:, 0] > 0) & weak
        if torch.equal(grown, strong):
            return strong
        strong = grown
