"""Nodes on pictures, against Pillow, torch and formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from pipegraph.models.media.image_ops import canny as edges_of
from pipegraph.models.media.image_ops import repeat_to
from pipegraph.nodes.image import edit as nodes
from pipegraph.runtime.node import NodeSpec

METHODS = ("nearest-exact", "bilinear", "area", "bicubic", "lanczos")
EXACT: dict[str, Any] = {"rtol": 0, "atol": 0}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def ports(fn: Any) -> tuple[list[str], list[tuple[str, str]]]:
    spec: NodeSpec = fn.node_spec
    return list(spec.inputs), [(name, p.type) for name, p in spec.outputs.items()]


IMAGE = [("IMAGE", "IMAGE")]
PORTS = {
    "empty_image": (["width", "height", "batch_size", "color"], IMAGE),
    "image_scale": (["image", "upscale_method", "width", "height", "crop"], IMAGE),
    "image_scale_by": (["image", "upscale_method", "scale_by"], IMAGE),
    "image_scale_to_total_pixels": (["image", "upscale_method", "megapixels", "resolution_steps"], IMAGE),
    "image_scale_to_max_dimension": (["image", "upscale_method", "largest_size"], IMAGE),
    "image_crop": (["image", "width", "height", "x", "y"], IMAGE),
    "image_pad_for_outpaint": (["image", "left", "top", "right", "bottom", "feathering"], [*IMAGE, ("MASK", "MASK")]),
    "image_invert": (["image"], IMAGE),
    "image_batch": (["image1", "image2"], IMAGE),
    "image_from_batch": (["image", "batch_index", "length"], IMAGE),
    "repeat_image_batch": (["image", "amount"], IMAGE),
    "image_composite_masked": (["destination", "source", "x", "y", "resize_source", "mask"], IMAGE),
    "image_blur": (["image", "blur_radius", "sigma"], IMAGE),
    "canny": (["image", "low_threshold", "high_threshold"], IMAGE),
    "get_image_size": (["image"], [("width", "INT"), ("height", "INT"), ("batch_size", "INT")]),
}


@pytest.mark.parametrize("name", PORTS)
def test_ports_are_those_of_comfyui(name: str) -> None:
    assert ports(getattr(nodes, name)) == PORTS[name]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("width", "height"), [(7, 5), (40, 31), (1, 1)])
def test_scale_against_torch_and_pillow(method: Any, width: int, height: int) -> None:
    picture = noise(2, 17, 23, 3)
    scaled = nodes.image_scale(picture, method, width, height)
    assert scaled.shape == (2, height, width, 3) and scaled.min() >= 0 and scaled.max() <= 1
    if method == "lanczos":
        eight_bit = (picture[1] * 255).round().to(torch.uint8).numpy()
        wanted = Image.fromarray(eight_bit).resize((width, height), Image.Resampling.LANCZOS)
        assert np.abs(scaled[1].numpy() * 255 - np.asarray(wanted)).max() < 1e-4
    else:
        tensor = F.interpolate(picture.movedim(-1, 1), size=(height, width), mode=method).movedim(1, -1)
        torch.testing.assert_close(scaled, tensor.clamp(0, 1), **EXACT)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [9, 31])
def test_colours_below_transparent_parts_do_not_bleed(method: Any, size: int) -> None:
    picture = torch.tensor([0.9, 0.5, 0.3, 1]).expand(1, 16, 16, 4).clone()
    picture[:, 5:11, 5:11] = 0
    scaled = nodes.image_scale(picture, method, size, size)
    seen, clear = scaled[scaled[..., 3] > 1 / 255], scaled[scaled[..., 3] == 0]
    torch.testing.assert_close(seen[:, :3], picture[0, 0, :1, :3].expand(len(seen), 3), rtol=0, atol=1e-4)
    assert len(clear) and (clear[:, 0] < 0.5).any()
    opaque = noise(1, 16, 16, 4) * 0.4 + 0.3
    opaque[..., 3] = 1
    plain = nodes.image_scale(opaque[..., :3], method, size, size)
    level = 2 / 255 if method == "lanczos" else 1e-5
    torch.testing.assert_close(nodes.image_scale(opaque, method, size, size)[..., :3], plain, rtol=0, atol=level)


def test_center_crop_keeps_the_aspect() -> None:
    wide = torch.zeros(1, 4, 10, 1)
    wide[:, :, 3:7] = 1
    assert (nodes.image_scale(wide, "nearest-exact", 4, 4, "center") == 1).all()
    assert (nodes.image_scale(wide, "nearest-exact", 4, 4, "disabled") != 1).any()
    assert (nodes.image_scale(wide.movedim(1, 2), "nearest-exact", 4, 4, "center") == 1).all()
    assert nodes.image_scale(torch.zeros(1, 1, 100, 3), "area", 3, 90, "center").shape == (1, 90, 3, 3)


def test_a_side_of_0_follows_from_the_other() -> None:
    picture = noise(1, 10, 20, 3)
    assert nodes.image_scale(picture, "area", 0, 5).shape == (1, 5, 10, 3)
    assert nodes.image_scale(picture, "area", 7, 0).shape == (1, 4, 7, 3)
    assert nodes.image_scale(torch.zeros(1, 1, 300, 3), "area", 3, 0).shape == (1, 1, 3, 3)
    torch.testing.assert_close(nodes.image_scale(picture, "area", 0, 0), picture, **EXACT)


def test_scale_by_and_to_total_pixels() -> None:
    picture = noise(1, 33, 47, 3)
    assert nodes.image_scale_by(picture, "bilinear", 1.5).shape == (1, 50, 70, 3)
    assert nodes.image_scale_by(picture, "bilinear", 0.01).shape == (1, 1, 1, 3)
    scaled = nodes.image_scale_to_total_pixels(picture, "area", 0.01, 1)
    assert scaled.shape == (1, 86, 122, 3)  # 47 and 33 times sqrt(10485.76 / 1551)
    assert nodes.image_scale_to_total_pixels(picture, "area", 0.01, 16).shape == (1, 80, 128, 3)
    assert nodes.image_scale_to_max_dimension(picture, "area", 94).shape == (1, 66, 94, 3)
    assert nodes.image_scale_to_max_dimension(picture.movedim(1, 2), "area", 94).shape == (1, 94, 66, 3)


def test_invert_leaves_alpha() -> None:
    picture = torch.tensor([0.25, 1, 0, 0.75]).reshape(1, 1, 1, 4)
    assert nodes.image_invert(picture).flatten().tolist() == [0.75, 0, 1, 0.75]
    assert nodes.image_invert(picture[..., :3]).flatten().tolist() == [0.75, 0, 1]


def test_batch_fits_the_second_to_the_first() -> None:
    first, second = noise(2, 6, 6, 3), noise(1, 12, 24, 4, seed=1)
    second[..., 3] = 0.5
    both = nodes.image_batch(first, second)
    assert both.shape == (3, 6, 6, 4) and (both[:2, ..., 3] == 1).all()
    torch.testing.assert_close(both[:2, ..., :3], first, **EXACT)
    middle = F.interpolate(second[:, :, 6:18].movedim(-1, 1), size=(6, 6), mode="bilinear").movedim(1, -1)
    torch.testing.assert_close(both[2:], middle)
    gray = nodes.image_batch(first, second[..., :1])
    assert gray.shape == (3, 6, 6, 3) and (gray[2, ..., 0] == gray[2, ..., 2]).all()


def test_parts_of_a_batch() -> None:
    batch = noise(4, 2, 2, 3)
    torch.testing.assert_close(nodes.image_from_batch(batch, 1, 2), batch[1:3], **EXACT)
    torch.testing.assert_close(nodes.image_from_batch(batch, 9, 5), batch[3:], **EXACT)
    torch.testing.assert_close(nodes.repeat_image_batch(batch, 2), torch.cat([batch, batch]), **EXACT)
    assert repeat_to(torch.arange(3), 7).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert repeat_to(torch.arange(3), 2).tolist() == [0, 1]


def test_empty_image() -> None:
    red = nodes.empty_image(3, 2, 2, 0xFF8000)
    assert red.shape == (2, 2, 3, 3) and red.dtype == torch.float32
    assert red[1, 1, 2].tolist() == [1, torch.tensor(128 / 255).item(), 0]


def test_crop_and_its_edges() -> None:
    picture = noise(1, 5, 7, 3)
    torch.testing.assert_close(nodes.image_crop(picture, 3, 2, 1, 2), picture[:, 2:4, 1:4], **EXACT)
    assert nodes.image_crop(picture, 3, 2, 100, 100).shape == (1, 1, 1, 3)
    assert nodes.image_crop(picture, 300, 200, 0, 0).shape == picture.shape


def test_composite_with_a_mask() -> None:
    below, above = noise(2, 5, 6, 3), noise(1, 2, 3, 3, seed=1)
    kept = below.clone()
    opacity = noise(1, 2, 3, seed=2)
    made = nodes.image_composite_masked(below, above, 2, 1, False, opacity)
    wanted = below.clone()
    wanted[:, 1:3, 2:5] = above * opacity[..., None] + below[:, 1:3, 2:5] * (1 - opacity[..., None])
    torch.testing.assert_close(made, wanted)
    torch.testing.assert_close(below, kept, **EXACT)  # what came in is as it was


def test_composite_cuts_what_sticks_out() -> None:
    below, above = torch.zeros(1, 4, 4, 3), torch.ones(1, 3, 3, 3)
    made = nodes.image_composite_masked(below, above, 3, 2)
    assert made.sum() == 2 * 3 and (made[0, 2:, 3] == 1).all()
    torch.testing.assert_close(nodes.image_composite_masked(below, above, 9, 9), below, **EXACT)
    assert nodes.image_composite_masked(below, above, 0, 0, True).min() == 1
    left_over = nodes.image_composite_masked(below, above, 1, 1, True)
    assert left_over.sum() == 3 * 9 and not left_over[0, 0].any()


def test_composite_of_unequal_batches_channels_and_masks() -> None:
    below, above = noise(3, 4, 4, 3), noise(2, 4, 4, 4, seed=1)
    made = nodes.image_composite_masked(below, above)
    torch.testing.assert_close(made, above[[0, 1, 0], ..., :3], **EXACT)
    fewer = nodes.image_composite_masked(below[:1], above)
    torch.testing.assert_close(fewer, above[:1, ..., :3], **EXACT)
    transparent = noise(1, 4, 4, 4)
    made = nodes.image_composite_masked(transparent, above[:1, ..., :3], mask=torch.ones(1, 8, 8))
    assert (made[..., 3] == 1).all()


def test_pad_for_outpaint() -> None:
    picture = noise(1, 20, 30, 3)
    padded = nodes.image_pad_for_outpaint(picture, 4, 0, 2, 0, 8)
    assert padded.IMAGE.shape == (1, 20, 36, 3) and padded.MASK.shape == (1, 20, 36)
    torch.testing.assert_close(padded.IMAGE[:, :, 4:34], picture, **EXACT)
    assert (padded.IMAGE[:, :, :4] == 0.5).all() and (padded.MASK[:, :, :4] == 1).all()
    fall = [((8 - d) / 8) ** 2 for d in range(8)]
    assert padded.MASK[0, 10, 4:12].tolist() == pytest.approx(fall)
    assert padded.MASK[0, 0, 33].item() == pytest.approx((7 / 8) ** 2)  # one pixel from the right edge
    assert padded.MASK[0, 0, 12:26].max() == 0  # no padding above, so no fall from there
    hard = nodes.image_pad_for_outpaint(picture, 4, 0, 0, 0, 10)  # 2 * 10 is not less than 20
    assert set(hard.MASK.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(("radius", "sigma"), [(1, 1.0), (3, 0.5)])
def test_blur_against_a_loop(radius: int, sigma: float) -> None:
    picture = noise(1, 9, 11, 3)
    at = np.linspace(-1, 1, 2 * radius + 1)
    kernel = np.exp(-(at[:, None] ** 2 + at[None] ** 2) / (2 * sigma**2))
    kernel /= kernel.sum()
    padded = np.pad(picture[0].numpy(), ((radius, radius), (radius, radius), (0, 0)), mode="reflect")
    wanted = np.zeros((9, 11, 3))
    for dy in range(2 * radius + 1):
        for dx in range(2 * radius + 1):
            wanted += kernel[dy, dx] * padded[dy : dy + 9, dx : dx + 11]
    blurred = nodes.image_blur(picture, radius, sigma)
    torch.testing.assert_close(blurred[0], torch.from_numpy(wanted).float(), rtol=0, atol=1e-6)
    flat = torch.full((1, 2, 2, 3), 0.5)
    torch.testing.assert_close(nodes.image_blur(flat, radius, sigma), flat)


def canny_by_hand(gray: np.ndarray[Any, Any], low: float, high: float) -> np.ndarray[Any, Any]:
    """Canny's steps pixel by pixel."""
    height, width = gray.shape
    bell = np.exp(-(np.arange(-2, 3) ** 2) / 2.0)
    kernel = np.outer(bell, bell) / bell.sum() ** 2
    padded = np.pad(gray, 2, mode="reflect")
    smooth = sum(kernel[a, b] * padded[a : a + height, b : b + width] for a in range(5) for b in range(5))
    p = np.pad(smooth, 1, mode="edge")
    sobel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    across = sum(sobel[a, b] * p[a : a + height, b : b + width] for a in range(3) for b in range(3))
    down = sum(sobel.T[a, b] * p[a : a + height, b : b + width] for a in range(3) for b in range(3))
    length = np.pad(np.hypot(across, down).round(6), 1)
    steps = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    thin = np.zeros_like(gray)
    for y in range(height):
        for x in range(width):
            k = round(np.arctan2(down[y, x], across[y, x]) / (np.pi / 4)) % 8
            here = length[y + 1, x + 1]
            ahead, behind = (length[y + 1 + dy, x + 1 + dx] for dy, dx in (steps[k], steps[(k + 4) % 8]))
            thin[y, x] = here if here > ahead and here >= behind else 0
    found = np.zeros_like(gray)
    todo = [(y, x) for y in range(height) for x in range(width) if thin[y, x] > high]
    while todo:
        y, x = todo.pop()
        if found[y, x]:
            continue
        found[y, x] = 1
        todo += [
            (y + dy, x + dx)
            for dy, dx in steps
            if 0 <= y + dy < height and 0 <= x + dx < width and thin[y + dy, x + dx] > low
        ]
    return found


def test_canny_against_a_version_by_hand() -> None:
    y, x = np.mgrid[:37, :45]
    gray = np.where((y - 18) ** 2 + (x - 20) ** 2 < 140, 0.8, 0.15) + 0.25 * np.sin(x / 5) * np.cos(y / 7)
    picture = torch.from_numpy(gray).float().clamp(0, 1)[None, ..., None]
    for low, high in ((0.4, 0.8), (0.1, 0.6), (0.05, 0.05)):
        wanted = canny_by_hand(picture[0, ..., 0].double().numpy(), low, high)
        found = edges_of(picture.expand(1, 37, 45, 3), low, high)
        assert wanted.sum() > 20
        assert (found[0].numpy() == wanted).all()


def test_canny_of_a_step_is_one_straight_line_in_any_batch() -> None:
    pictures = torch.zeros(3, 16, 17, 3)
    pictures[0, :, 8:] = 1
    pictures[1, 5:] = 0.7
    edges = nodes.canny(pictures)
    assert edges.shape == (3, 16, 17, 3) and set(edges.flatten().tolist()) == {0.0, 1.0}
    assert (edges[0].sum(1) == 1).all() and edges[0, :, 8].all()
    assert (edges[1].sum(0) == 1).all() and edges[1, 5].all()
    assert not edges[2].any()
    torch.testing.assert_close(nodes.canny(pictures[:1]), edges[:1], **EXACT)
    assert not nodes.canny(torch.ones(1, 1, 1, 3)).any()


def test_canny_weights_the_colours_as_gray_does() -> None:
    green, blue = torch.zeros(1, 16, 16, 3), torch.zeros(1, 16, 16, 3)
    green[:, 8:, :9, 1] = blue[:, 8:, :9, 2] = 1  # lengths 2.6 * 0.587 and 2.6 * 0.114
    assert nodes.canny(green, 0.4, 0.8).any() and not nodes.canny(blue, 0.4, 0.8).any()


def test_canny_refuses_thresholds_the_wrong_way_round() -> None:
    with pytest.raises(ValueError, match=r"0\.9 is above high_threshold 0\.1"):
        nodes.canny(torch.zeros(1, 8, 8, 3), 0.9, 0.1)


def test_size() -> None:
    size = nodes.get_image_size(torch.zeros(2, 3, 5, 3))
    assert (size.width, size.height, size.batch_size) == (5, 3, 2)
