"""Batches put into one, pictures put side by side."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.nodes.image.join import batch_images, image_stitch


def picture(height: int, width: int, count: int = 1, channels: int = 3, value: float | None = None) -> Tensor:
    shape = (count, height, width, channels)
    if value is not None:
        return torch.full(shape, value)
    return torch.rand(shape, generator=torch.Generator().manual_seed(height * width + count))


def test_batches_go_by_number_and_have_the_size_of_the_first() -> None:
    many: dict[str, Any] = {f"image{i}": picture(4, 6, value=i / 20) for i in (10, 0, 2)}
    many["image1"] = picture(8, 8, 2, value=0.05)
    made = batch_images(images=many)
    assert made.shape == (5, 4, 6, 3)
    assert made[:, 0, 0, 0].tolist() == pytest.approx([0, 0.05, 0.05, 0.1, 0.5])
    with_alpha = batch_images(images={"image0": picture(4, 6), "image1": picture(4, 6, channels=4, value=0.5)})
    assert with_alpha[0, ..., 3].eq(1).all() and with_alpha[1, ..., 3].eq(0.5).all()
    with pytest.raises(ValueError, match=r"connect images\.image0"):
        batch_images(images={})


def test_side_by_side() -> None:
    one, two = picture(4, 6), picture(4, 8, 2)
    made = image_stitch(one, image2=two)
    assert torch.equal(made, torch.cat([one.expand(2, -1, -1, -1), two], 2))
    assert torch.equal(image_stitch(one, "left", image2=two), torch.cat([two, one.expand(2, -1, -1, -1)], 2))
    assert torch.equal(image_stitch(one), one)
    scaled = image_stitch(one, "down", image2=picture(5, 12))  # 12 wide becomes 6, 5 high becomes 2
    assert scaled.shape == (1, 6, 6, 3) and torch.equal(scaled[:, :4], one)


def test_sizes_kept_with_a_coloured_gap() -> None:
    one, two = picture(4, 6, value=0.5), picture(7, 3, channels=4, value=0.25)
    made = image_stitch(one, "right", False, 3, "red", two)
    assert made.shape == (1, 7, 6 + 4 + 3, 4)  # an odd gap is made even
    red = torch.tensor([1.0, 0, 0, 1])
    assert torch.equal(made[0, :, 6:10], red.expand(7, 4, 4))
    assert torch.equal(made[0, 0, :6], red.expand(6, 4)) and torch.equal(made[0, 5:, :6], red.expand(2, 6, 4))
    assert made[0, 1:5, :6, :3].eq(0.5).all() and made[0, 1:5, :6, 3].eq(1).all()
    assert made[0, :, 10:].eq(0.25).all()
    above = image_stitch(one, "up", False, 0, "black", two)
    assert above.shape == (1, 11, 6, 4) and above[0, 7:, :, :3].eq(0.5).all()
    assert above[0, :7, 0, :3].eq(0).all() and above[0, :7, 1:4].eq(0.25).all()
