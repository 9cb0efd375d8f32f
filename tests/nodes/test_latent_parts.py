"""Latents of certain sizes, cut, joined and changed in part."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.nodes.image.latent_parts import (
    latent_concat,
    latent_cut,
    latent_cut_to_batch,
    normalize_video_latent_start,
    replace_video_latent_frames,
)
from pipegraph.nodes.image.latent_sizes import (
    empty_ace_step_15_latent_audio,
    empty_ace_step_latent_audio,
    empty_chroma_radiance_latent_image,
    empty_flux2_latent_image,
    empty_latent_audio,
    empty_qwen_image_layered_latent_image,
)

from .conftest import STRICT, Strict


def latent(*shape: int, seed: int = 0) -> dict[str, Any]:
    return {"samples": torch.randn(*shape, generator=torch.Generator().manual_seed(seed))}


def samples(value: dict[str, Any]) -> Tensor:
    tensor: Tensor = value["samples"]
    return tensor


def test_sizes_of_empty_latents(context: Strict, monkeypatch: pytest.MonkeyPatch) -> None:
    made = empty_flux2_latent_image(STRICT, 1248, 832, 2)
    assert samples(made).shape == (2, 128, 52, 78) and made["downscale_ratio_spatial"] == 16
    assert samples(empty_chroma_radiance_latent_image(STRICT, 64, 32)).shape == (1, 3, 32, 64)
    assert samples(empty_qwen_image_layered_latent_image(STRICT, 640, 320, 2)).shape == (1, 16, 3, 40, 80)
    assert samples(empty_latent_audio(47.6)).shape == (1, 64, 1024)  # diffusers' Stable Audio: 1024 for 47.55 s
    assert samples(empty_ace_step_latent_audio(120.0)).shape == (1, 8, 16, 1291)
    assert samples(empty_ace_step_15_latent_audio(120.0, 3)).shape == (3, 64, 3000)
    told: list[str] = []
    monkeypatch.setattr(context, "warn", told.append)
    assert samples(empty_flux2_latent_image(context, 100, 64)).shape == (1, 128, 4, 6)
    assert told == ["width 100 becomes 96: it has to be a multiple of 16"]


def test_joined_along_each_axis() -> None:
    one, two = latent(2, 4, 3, 5, 6), latent(1, 4, 3, 5, 6, seed=1)
    twice = samples(two).expand(2, -1, -1, -1, -1)
    assert torch.equal(samples(latent_concat(one, two, "x")), torch.cat([samples(one), twice], 4))
    assert torch.equal(samples(latent_concat(one, two, "-y")), torch.cat([twice, samples(one)], 3))
    assert torch.equal(samples(latent_concat(one, two, "t")), torch.cat([samples(one), twice], 2))
    with pytest.raises(ValueError, match="cannot be concatenated along y"):
        latent_concat(one, latent(2, 4, 3, 5, 7), "y")


def test_cut() -> None:
    one = latent(1, 4, 3, 5, 6) | {"original": {}}
    cut = latent_cut(one, "t", 1, 16384)
    assert torch.equal(samples(cut), samples(one)[:, :, 1:]) and "original" not in cut
    assert torch.equal(samples(latent_cut(one, "x", -2, 1)), samples(one)[..., 4:5])
    assert torch.equal(samples(latent_cut(one, "y", 99, 3)), samples(one)[..., 4:, :])
    assert torch.equal(samples(latent_cut(one, "y", -99, 2)), samples(one)[..., :2, :])
    with pytest.raises(ValueError, match="has no axis t"):
        latent_cut(latent(1, 64, 100), "t")


def test_slices_become_a_batch() -> None:
    one = latent(2, 4, 5, 3, 3) | {"batch_index": [0, 1]}
    made = latent_cut_to_batch(one, "t", 2)
    whole = samples(one)
    wanted = torch.stack([whole[b, :, t : t + 2] for b in (0, 1) for t in (0, 2)])
    assert torch.equal(samples(made), wanted) and "batch_index" not in made
    assert samples(latent_cut_to_batch(one, "x", 99)).shape == whole.shape
    picture = latent(1, 4, 5, 6)
    assert latent_cut_to_batch(picture, "t") is picture, "a picture has no time"


def test_frames_are_replaced() -> None:
    one, two = latent(1, 4, 6, 2, 2), latent(1, 4, 2, 2, 2, seed=1)
    made = samples(replace_video_latent_frames(one, two, -2))
    assert torch.equal(made[:, :, :4], samples(one)[:, :, :4]) and torch.equal(made[:, :, 4:], samples(two))
    assert replace_video_latent_frames(one) is one
    for index in (5, -7):
        with pytest.raises(ValueError, match="do not fit a latent of 6 frames"):
            replace_video_latent_frames(one, two, index)


def test_the_start_is_brought_near_to_what_follows() -> None:
    one = latent(1, 16, 8, 16, 16)
    one["samples"][:, :, :2] = one["samples"][:, :, :2] * 1.1
    made = samples(normalize_video_latent_start(one, 2, 4))
    after = samples(one)[:, :, 2:6]
    assert torch.equal(made[:, :, 2:], samples(one)[:, :, 2:])
    for frame in (0, 1):
        assert float(made[:, :, frame].mean()) == pytest.approx(float(after.mean()), abs=1e-5)
        assert float(made[:, :, frame].std()) == pytest.approx(float(after.std()), abs=1e-5)
    one["samples"][:, :, 0] += 3
    far = samples(normalize_video_latent_start(one, 1, 4))
    assert float(far[:, :, 0].mean()) == pytest.approx(float(one["samples"][:, :, 0].mean()) - 0.3, abs=1e-5)
    single = latent(1, 4, 1, 2, 2)
    assert normalize_video_latent_start(single) is single
