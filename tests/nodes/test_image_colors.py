"""Blended and matched colors, sizes that models want, edges of masks: by formulas and against other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops

from pipegraph.models.media.color_match import from_lab, matched, to_lab
from pipegraph.nodes.image.colors import color_to_rgb_int, color_transfer, image_blend
from pipegraph.nodes.image.fit import KONTEXT_SIZES, flux_kontext_image_scale, resize_and_pad_image
from pipegraph.nodes.image.mask_edges import feather_mask, threshold_mask


def levels(seed: int, count: int = 1, height: int = 12, width: int = 16) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, height, width, 3), generator=generator) / 255


@pytest.mark.parametrize(
    ("mode", "pillow"),
    [
        ("multiply", ImageChops.multiply),
        ("screen", ImageChops.screen),
        ("overlay", ImageChops.overlay),
        ("difference", ImageChops.subtract),
    ],
)
def test_blends_are_pillows(mode: Any, pillow: Any) -> None:
    one, two = levels(1), levels(2)
    images = [Image.fromarray((x[0] * 255).round().byte().numpy()) for x in (one, two)]
    wanted = torch.from_numpy(np.asarray(pillow(*images)).copy()) / 255
    assert (image_blend(one, two, 1.0, mode)[0] - wanted).abs().max() < 1.5 / 255


def test_blends_by_hand_and_sizes() -> None:
    one, two = levels(1), levels(2, 2, 24, 40)
    assert image_blend(one, two).shape == (2, 12, 16, 3)
    assert torch.equal(image_blend(one, two, 0.0)[1], one[0])
    a, b = torch.full((1, 1, 1, 3), 0.2), torch.full((1, 1, 1, 3), 0.75)
    curve = ((16 * 0.2 - 12) * 0.2 + 4) * 0.2  # W3C Compositing and Blending, 10.1.9
    assert float(image_blend(a, b, 1.0, "soft_light")[0, 0, 0, 0]) == pytest.approx(0.2 + 0.5 * (curve - 0.2))
    assert float(image_blend(b, a, 1.0, "soft_light")[0, 0, 0, 0]) == pytest.approx(0.75 - 0.6 * 0.75 * 0.25)
    assert float(image_blend(a, b, 0.5)[0, 0, 0, 0]) == pytest.approx(0.475)
    assert image_blend(torch.ones(1, 2, 2, 4), b).shape == (1, 2, 2, 4)


def test_lab_is_cies() -> None:
    known = {
        (1.0, 1.0, 1.0): (100, 0, 0),
        (1.0, 0, 0): (53.2408, 80.0925, 67.2032),
        (0, 0, 1.0): (32.297, 79.1875, -107.8602),
    }
    for rgb, lab in known.items():
        assert to_lab(torch.tensor(rgb, dtype=torch.float64)).tolist() == pytest.approx(lab, abs=0.01)
    colors = levels(3).double()
    assert torch.allclose(from_lab(to_lab(colors)), colors, atol=1e-9)


def test_moments_become_those_of_the_reference() -> None:
    own, reference = 0.35 + 0.2 * levels(4).double(), (0.45 + 0.1 * levels(5).double())[..., [2, 0, 1]]
    own[..., 1] = 0.5 * own[..., 0] + 0.3 * own[..., 2]
    wanted = to_lab(reference).reshape(-1, 3)
    for method in ("reinhard_lab", "mkl_lab"):
        made = to_lab(matched(own, reference, method, None, 1.0)).reshape(-1, 3)
        assert torch.allclose(made.mean(0), wanted.mean(0), atol=1e-6), method
        assert torch.allclose(made.std(0), wanted.std(0), atol=1e-5), method
    assert torch.allclose(torch.cov(made.mT), torch.cov(wanted.mT), atol=1e-4)
    half = to_lab(matched(own, reference, "reinhard_lab", None, 0.5)).reshape(-1, 3)
    assert torch.allclose(half.mean(0), (to_lab(own).reshape(-1, 3).mean(0) + wanted.mean(0)) / 2, atol=1e-6)


def test_histograms_become_those_of_the_reference() -> None:
    own, reference = levels(6, 1, 64, 64), levels(7, 1, 64, 64) * 0.5 + 0.25
    made = color_transfer(own, reference, "histogram")
    assert torch.allclose(made.flatten(0, 2).sort(0)[0], reference.flatten(0, 2).sort(0)[0], atol=0.02)
    order = own[..., 0].flatten().argsort()
    assert (made[..., 0].flatten()[order].diff() >= 0).all(), "brighter stays brighter"


def test_which_statistics_count() -> None:
    frames = torch.cat([levels(8) * 0.5, levels(9) * 0.3 + 0.5])
    reference = torch.cat([levels(10) * 0.2, levels(11) * 0.2 + 0.6])
    alone = color_transfer(frames, reference)
    for i in (0, 1):
        assert torch.allclose(alone[i : i + 1], color_transfer(frames[i : i + 1], reference[i : i + 1]))
    one = color_transfer(frames, reference[:1], source_stats="target_frame", target_index=1)
    assert torch.allclose(one[1:], color_transfer(frames[1:], reference[:1]), atol=1e-5)
    assert not torch.allclose(one[:1], color_transfer(frames[:1], reference[:1]), atol=1e-2)
    both = color_transfer(frames, reference[:1], "mkl_lab", "uniform")
    assert not torch.allclose(both, alone, atol=1e-2)
    assert color_transfer(frames) is frames and color_transfer(frames, reference, strength=0.0) is frames
    clear = torch.cat([frames, torch.full((2, 12, 16, 1), 0.3)], -1)
    assert color_transfer(clear, reference)[..., 3].eq(0.3).all()
    with pytest.raises(ValueError, match="gray images have no colors"):
        color_transfer(frames[..., :1], reference)


def test_kontext_sizes_are_diffusers() -> None:
    from diffusers.pipelines.flux.pipeline_flux_kontext import PREFERRED_KONTEXT_RESOLUTIONS

    assert list(KONTEXT_SIZES) == PREFERRED_KONTEXT_RESOLUTIONS
    assert flux_kontext_image_scale(levels(1, 1, 100, 100)).shape == (1, 1024, 1024, 3)
    assert flux_kontext_image_scale(levels(1, 1, 90, 160)).shape == (1, 752, 1392, 3)
    assert flux_kontext_image_scale(levels(1, 1, 500, 20)).shape == (1, 1568, 672, 3)


def test_fitted_and_padded() -> None:
    image = torch.full((1, 10, 40, 3), 0.5)
    made = resize_and_pad_image(image, 20, 15, "black", "bilinear")
    assert made.shape == (1, 15, 20, 3)
    assert made[:, 5:10].eq(0.5).all() and made[:, :5].eq(0).all() and made[:, 10:].eq(0).all()
    tall = resize_and_pad_image(image.mT.reshape(1, 40, 10, 3), 15, 21)
    assert tall[:, :, 5:10].eq(0.5).all() and tall[:, :, :5].eq(1).all()
    assert resize_and_pad_image(torch.zeros(1, 1, 500, 3), 10, 10).shape == (1, 10, 10, 3)


def test_masks() -> None:
    mask = torch.ones(1, 6, 8)
    made = feather_mask(mask, left=4, right=2, top=3)
    assert made[0, 5].tolist() == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1, 0.5])
    assert made[0, :, 4].tolist() == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1])
    assert torch.equal(feather_mask(mask), mask) and feather_mask(mask, 99)[0, 0, 0] == 1 / 8
    assert threshold_mask(torch.tensor([[[0.4, 0.41, 0.42]]]), 0.41).tolist() == [[[0, 0, 1]]]


def test_colors_as_numbers() -> None:
    picked = color_to_rgb_int("#0a9299")
    assert (picked.rgb_int, picked.hex, picked.alpha) == (0x0A9299, "#0a9299", 1.0)
    assert color_to_rgb_int("#0000ff80").alpha == pytest.approx(128 / 255)
    with pytest.raises(ValueError, match="got 'red'"):
        color_to_rgb_int("red")
