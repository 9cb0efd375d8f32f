"""Nodes on masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage

from pipegraph.nodes.image import mask as nodes
from pipegraph.runtime.node import NodeSpec

from .conftest import STRICT

EXACT: dict[str, Any] = {"rtol": 0, "atol": 0}


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


PORTS = {
    "solid_mask": (["value", "width", "height"], ["MASK"]),
    "invert_mask": (["mask"], ["MASK"]),
    "mask_to_image": (["mask"], ["IMAGE"]),
    "image_to_mask": (["image", "channel"], ["MASK"]),
    "join_image_with_alpha": (["image", "alpha"], ["IMAGE"]),
    "split_image_with_alpha": (["image"], ["IMAGE", "MASK"]),
    "grow_mask": (["mask", "expand", "tapered_corners"], ["MASK"]),
    "mask_composite": (["destination", "source", "x", "y", "operation"], ["MASK"]),
    "mask_preview": (["mask"], ["mask"]),
}


@pytest.mark.parametrize("name", PORTS)
def test_ports_are_those_of_comfyui(name: str) -> None:
    spec: NodeSpec = getattr(nodes, name).node_spec
    assert (list(spec.inputs), list(spec.outputs)) == PORTS[name]


def test_mask_to_image_and_back() -> None:
    mask = noise(2, 3, 5)
    picture = nodes.mask_to_image(mask)
    assert picture.shape == (2, 3, 5, 3)
    for channel in ("red", "green", "blue"):
        torch.testing.assert_close(nodes.image_to_mask(picture, channel), mask, **EXACT)
    with pytest.raises(ValueError, match="no alpha channel"):
        nodes.image_to_mask(picture, "alpha")
    torch.testing.assert_close(nodes.invert_mask(nodes.invert_mask(mask)), mask)
    assert nodes.solid_mask(0.25, 5, 3).tolist() == [[[0.25] * 5] * 3]


def test_alpha_is_the_other_way_round_than_the_mask() -> None:
    picture, clear = noise(2, 4, 4, 3), torch.zeros(1, 4, 4)
    clear[0, 0, 0] = 1
    joined = nodes.join_image_with_alpha(picture, clear)
    assert joined.shape == (2, 4, 4, 4) and (joined[:, 0, 0, 3] == 0).all() and joined[1, 1, 1, 3] == 1
    apart = nodes.split_image_with_alpha(joined)
    torch.testing.assert_close(apart.IMAGE, picture, **EXACT)
    torch.testing.assert_close(apart.MASK, clear.expand(2, 4, 4), **EXACT)
    torch.testing.assert_close(nodes.image_to_mask(joined, "alpha"), 1 - apart.MASK, **EXACT)
    assert not nodes.split_image_with_alpha(picture).MASK.any()
    assert nodes.join_image_with_alpha(picture, torch.zeros(1, 8, 2)).shape == (2, 4, 4, 4)


def test_joining_batches_of_unequal_size() -> None:
    """The longer one counts, as in newer versions of ComfyUI."""
    pictures, masks = torch.rand(2, 4, 4, 3), torch.rand(3, 4, 4)
    joined = nodes.join_image_with_alpha(pictures, masks)
    assert torch.equal(joined[..., :3], pictures[[0, 1, 0]]) and torch.equal(joined[..., 3], 1 - masks)
    assert torch.equal(nodes.join_image_with_alpha(pictures[:1], masks)[..., :3], pictures[[0, 0, 0]])


@pytest.mark.parametrize("tapered", [True, False])
@pytest.mark.parametrize("pixels", [0, 1, 3, -1, -2])
def test_grow_against_scipy(pixels: int, tapered: bool) -> None:
    mask = (noise(2, 12, 15) > 0.9).float() if pixels > 0 else (noise(2, 12, 15) > 0.1).float()
    corner = 0 if tapered else 1
    footprint = np.array([[corner, 1, corner], [1, 1, 1], [corner, 1, corner]])
    step = ndimage.grey_dilation if pixels > 0 else ndimage.grey_erosion
    wanted = mask.numpy()
    for _ in range(abs(pixels)):
        wanted = np.stack([step(m, footprint=footprint) for m in wanted])
    torch.testing.assert_close(nodes.grow_mask(mask, pixels, tapered), torch.from_numpy(wanted), **EXACT)


@pytest.mark.parametrize(
    ("operation", "wanted"),
    [
        ("multiply", [0, 0, 0.3, 0.6]),
        ("add", [0, 0.6, 1, 1]),
        ("subtract", [0, 0, 0, 0.4]),
        ("and", [0, 0, 0, 1]),
        ("or", [0, 1, 1, 1]),
        ("xor", [0, 1, 1, 0]),
    ],
)
def test_combinations(operation: Any, wanted: list[float]) -> None:
    a, b = torch.tensor([[[0.0, 0.0, 0.5, 1.0]]]), torch.tensor([[[0.0, 0.6, 0.6, 0.6]]])
    assert nodes.mask_composite(a, b, 0, 0, operation).flatten().tolist() == pytest.approx(wanted)


def test_combination_at_a_place() -> None:
    below = torch.zeros(2, 4, 4)
    made = nodes.mask_composite(below, torch.ones(1, 3, 3), 2, 3, "add")
    assert made.sum() == 2 * 2 and not below.any()
    assert not nodes.mask_composite(below, torch.ones(1, 3, 3), 9, 9, "add").any()


def test_preview(context: Any, drain: Callable[[Any], Any]) -> None:
    events, _ = drain(nodes.mask_preview(noise(2, 3, 5), context))
    assert [e.path.parent for e in events] == [context.temp_dir] * 2


def test_masks_of_pictures_with_and_without_alpha_go_together(inputs: Any) -> None:
    from PIL import Image

    from pipegraph.nodes.image.files import load_image

    Image.new("RGBA", (8, 8), (1, 2, 3, 0)).save(inputs / "a.png")
    Image.new("RGB", (8, 8)).save(inputs / "b.png")
    a, b = load_image("a.png", STRICT), load_image("b.png", STRICT)
    assert torch.cat([a.MASK, b.MASK]).mean() == 0.5
    torch.testing.assert_close(nodes.mask_composite(a.MASK, b.MASK, 0, 0, "or"), a.MASK, **EXACT)
    assert a.IMAGE.shape == b.IMAGE.shape == (1, 8, 8, 3)
