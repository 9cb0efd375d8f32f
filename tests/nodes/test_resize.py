"""ResizeImageMaskNode: the size that each of its ways gives, and the pixels of those that cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.models.media.image_ops import resize
from pipegraph.nodes.image.resize import resize_image_mask
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check

WAYS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({"resize_type": "scale dimensions", "width": 8, "height": 20}, (8, 20)),
    ({"resize_type": "scale dimensions", "width": 0, "height": 12}, (16, 12)),
    ({"resize_type": "scale dimensions", "width": 12, "height": 0}, (12, 9)),
    ({"resize_type": "scale dimensions", "width": 0, "height": 0}, (40, 30)),
    ({"resize_type": "scale by multiplier", "multiplier": 0.5}, (20, 15)),
    ({"resize_type": "scale longer dimension", "longer_size": 20}, (20, 15)),
    ({"resize_type": "scale shorter dimension", "shorter_size": 60}, (80, 60)),
    ({"resize_type": "scale width", "width": 10}, (10, 8)),
    ({"resize_type": "scale height", "height": 15}, (20, 15)),
    ({"resize_type": "scale total pixels", "megapixels": 0.01}, (118, 89)),
    ({"resize_type": "scale total pixels", "megapixels": 0.01, "multiple": 32}, (128, 96)),
    ({"resize_type": "match size", "match": torch.zeros(1, 7, 9)}, (9, 7)),
    ({"resize_type": "scale to multiple"}, (40, 24)),
    ({"resize_type": "scale to multiple", "multiple": 16}, (32, 16)),
]


@pytest.mark.parametrize(("way", "size"), WAYS, ids=[f"{w['resize_type']} {s}" for w, s in WAYS])
def test_sizes(way: dict[str, Any], size: tuple[int, int]) -> None:
    picture = torch.rand(2, 30, 40, 3, generator=torch.Generator().manual_seed(1))
    made = resize_image_mask(picture, **way)
    assert made.shape == (2, size[1], size[0], 3)
    mask = resize_image_mask(picture[..., 0], **way)
    assert torch.allclose(mask, made[..., 0], atol=1e-6)


def test_what_is_cut() -> None:
    """The middle stays: of an exact size with the right aspect ratio, of multiples after covering them."""
    picture = torch.rand(1, 30, 40, 3, generator=torch.Generator().manual_seed(1))
    cut = resize_image_mask(picture, "scale dimensions", 15, 15)
    assert torch.equal(cut, resize(picture[:, :, 5:35], 15, 15, "area"))
    squeezed = resize_image_mask(picture, "scale dimensions", 15, 15, "disabled")
    assert torch.equal(squeezed, resize(picture, 15, 15, "area"))
    whole = resize_image_mask(picture, "scale to multiple", multiple=16)
    assert torch.equal(whole, resize(picture, 32, 24, "area")[:, 4:20])
    tall = resize_image_mask(picture.transpose(1, 2), "scale to multiple", multiple=16)
    assert torch.allclose(tall, whole.transpose(1, 2), atol=1e-6)
    with pytest.raises(ValueError, match="40x30 is smaller than the multiple 32"):
        resize_image_mask(picture, "scale to multiple", multiple=32)


def test_a_megapixel_is_1024_times_1024() -> None:
    made = resize_image_mask(torch.zeros(1, 256, 4096), "scale total pixels", megapixels=1.0)
    assert made.shape == (1, 256, 4096)


def problems(**inputs: Any) -> list[str]:
    nodes = {
        "1": {"class_type": "EmptyImage", "inputs": {}},
        "2": {"class_type": "ResizeImageMaskNode", "inputs": {"input": ["1", 0], **inputs}},
        "3": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
    }
    try:
        check(load({"pipegraph": 1, "nodes": nodes}), Catalog.load())
    except GraphError as e:
        return [str(problem) for problem in e.problems]
    return []


def test_a_graph_says_what_counts() -> None:
    way = "resize_type"
    assert not problems(**{way: "scale longer dimension", f"{way}.longer_size": 1536, "scale_method": "lanczos"})
    assert not problems(**{way: "match size", f"{way}.match": ["1", 0], f"{way}.crop": "center"})
    [why] = problems(**{way: "match size"})
    assert "needs images or a mask" in why
    [why] = problems(**{way: "scale width", f"{way}.width": 5, f"{way}.height": 5})
    assert 'is used only if "resize_type" is "scale dimensions" or "scale height"' in why
    [why] = problems(**{way: "scale longer", f"{way}.longer_size": 5})
    assert "scale longer dimension" in why
    [why] = problems(**{way: "scale longer dimension", f"{way}.longer_size": 0})
    assert "out of range" in why
