"""Resize images or masks, as ComfyUI's newer node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Linked, Step, Under, node

from ..utils.amounts import pictures
from ..wire import Image, Mask
from .edit import Method, SizeOrAny

if TYPE_CHECKING:
    from torch import Tensor

_KIND = "resize_type"
_MATCH, _MULTIPLE, _PIXELS = "match size", "scale to multiple", "scale total pixels"
_EXACT, _WIDTH, _HEIGHT = "scale dimensions", "scale width", "scale height"
_LONGER, _SHORTER, _FACTOR = "scale longer dimension", "scale shorter dimension", "scale by multiplier"
_USUAL = {_PIXELS: 1, _MULTIPLE: 8}
"""Default of ``multiple``."""

Side = Annotated[int, Ge(1), Le(16384)]


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    if values.get(_KIND) == _MATCH and f"{_KIND}.match" not in linked:
        yield f"{_KIND}.match", f'"{_MATCH}" needs images or a mask of the wanted size'


def _size(values: Mapping[str, Any]) -> int:
    """Bytes of one mask of the requested size."""
    sides = {name: values.get(f"{_KIND}.{name}") for name in ("width", "height")}
    return pictures(channels=1)(sides) if values.get(_KIND) == _EXACT else 0


@node(
    "ResizeImageMaskNode",
    category="image/transform",
    title="Resize Image/Mask",
    output="resized",
    check=_check,
    size=_size,
)
def resize_image_mask(
    input: Image | Mask,
    resize_type: Literal[
        "scale dimensions",
        "scale by multiplier",
        "scale longer dimension",
        "scale shorter dimension",
        "scale width",
        "scale height",
        "scale total pixels",
        "match size",
        "scale to multiple",
    ] = "scale dimensions",
    width: Annotated[SizeOrAny, Under(_KIND, _EXACT, _WIDTH)] = 512,
    height: Annotated[SizeOrAny, Under(_KIND, _EXACT, _HEIGHT)] = 512,
    crop: Annotated[Literal["disabled", "center"], Under(_KIND, _EXACT, _MATCH)] = "center",
    multiplier: Annotated[float, Ge(0.01), Le(8), Step(0.01), Under(_KIND, _FACTOR)] = 1.0,
    longer_size: Annotated[Side, Under(_KIND, _LONGER)] = 512,
    shorter_size: Annotated[Side, Under(_KIND, _SHORTER)] = 512,
    megapixels: Annotated[float, Ge(0.01), Le(16), Step(0.01), Under(_KIND, _PIXELS)] = 1.0,
    multiple: Annotated[Side | None, Under(_KIND, _PIXELS, _MULTIPLE)] = None,
    match: Annotated[Image | Mask | None, Under(_KIND, _MATCH)] = None,
    scale_method: Method = "area",
) -> Image | Mask:
    """Resize images or masks; other sides follow from the aspect ratio.

    Args:
        input: Images or masks to resize.
        resize_type: How the new size is set.
        width: New width in pixels; 0 follows from the height.
        height: New height in pixels; 0 follows from the width; 0 and 0 change nothing.
        crop: center crops to the new aspect ratio, disabled squeezes.
        multiplier: New width divided by old width.
        longer_size: New length of the longer side in pixels.
        shorter_size: New length of the shorter side in pixels.
        megapixels: Pixels to reach, in units of 1024 * 1024.
        multiple: Sides become multiples of it: the nearest (default 1) for `scale total pixels`; the next smaller
            (default 8) for `scale to multiple`, which crops at the centre.
        match: Images or masks of the wanted size.
        scale_method: Interpolation; only area and lanczos antialias when shrinking.
    """
    from pipegraph.models.media.image_ops import resize

    images = input[..., None] if input.ndim == 3 else input
    size = images.shape[2], images.shape[1]
    multiple = multiple or _USUAL.get(resize_type, 1)
    if resize_type == _MATCH:
        assert match is not None
        width, height = match.shape[2], match.shape[1]
    elif resize_type == _MULTIPLE:
        width, height = _whole(size, multiple)
    elif resize_type == _PIXELS:
        factor = math.sqrt(int(megapixels * 1024 * 1024) / (size[0] * size[1]))
        width, height = (max(1, round(side * factor / multiple)) * multiple for side in size)
    elif resize_type in (_FACTOR, _LONGER, _SHORTER):
        ratios = {_FACTOR: (multiplier, 1), _LONGER: (longer_size, max(size)), _SHORTER: (shorter_size, min(size))}
        new, old = ratios[resize_type]
        width, height = (max(1, round(side * new / old)) for side in size)
    elif resize_type in (_WIDTH, _HEIGHT):
        width, height = (width, 0) if resize_type == _WIDTH else (0, height)
    if resize_type not in (_EXACT, _MATCH):
        crop = "disabled"
    if width == height == 0:
        return input
    width = width or max(1, round(size[0] * height / size[1]))
    height = height or max(1, round(size[1] * width / size[0]))
    if resize_type == _MULTIPLE:
        return _covered(images, width, height, scale_method).reshape(len(input), height, width, *input.shape[3:])
    resized = resize(images, width, height, scale_method, crop)
    return resized[..., 0] if input.ndim == 3 else resized


def _whole(size: tuple[int, int], multiple: int) -> tuple[int, int]:
    """The largest multiples that are no larger than the sides."""
    if min(size) < multiple:
        raise ValueError(f"{size[0]}x{size[1]} is smaller than the multiple {multiple}")
    return size[0] // multiple * multiple, size[1] // multiple * multiple


def _covered(images: Tensor, width: int, height: int, method: Method) -> Tensor:
    """Scale images to cover a size and crop them at the centre."""
    from pipegraph.models.media.image_ops import resize

    h, w = images.shape[1:3]
    wide = width * h >= height * w
    w, h = (width, max(height, -(-h * width // w))) if wide else (max(width, -(-w * height // h)), height)
    x, y = (w - width) // 2, (h - height) // 2
    return resize(images, w, h, method)[:, y : y + height, x : x + width]
