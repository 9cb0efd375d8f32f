"""Latent nodes: sizes, batches whose items keep their noise, resizing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

import pipegraph as pg
from pipegraph.models.families.minimax.networks import CELL
from pipegraph.models.sampling.latents import resize
from pipegraph.nodes.image.latent import (
    empty_latent_image,
    empty_sd3_latent_image,
    latent_from_batch,
    latent_upscale,
    repeat_latent_batch,
    set_latent_noise_mask,
)
from pipegraph.nodes.video.causal import empty_ar_video_latent
from pipegraph.nodes.video.hunyuan import empty_hunyuan_video_15_latent
from pipegraph.nodes.video.latent import empty_hunyuan_latent_video
from pipegraph.nodes.video.ltx import empty_ltxv_latent_video

from ..context import Context


def batch(count: int, **extras: Any) -> dict[str, Any]:
    return {"samples": torch.arange(count * 4 * 8 * 8, dtype=torch.float32).reshape(count, 4, 8, 8), **extras}


def test_empty_latents(tmp_path: Path) -> None:
    context = Context(tmp_path, tmp_path)
    assert empty_latent_image(context, 512, 768, 3)["samples"].shape == (3, 4, 96, 64)
    assert empty_sd3_latent_image(context, 1920, 1080, 2)["samples"].shape == (2, 16, 135, 240)
    assert not empty_latent_image(context)["samples"].any() and not context.warnings
    assert empty_latent_image(context, 850, 23)["samples"].shape == (1, 4, 2, 106)
    assert context.warnings == [
        "width 850 becomes 848: it has to be a multiple of 8",
        "height 23 becomes 16: it has to be a multiple of 8",
    ]


CLIPS: dict[Any, tuple[int, ...]] = {
    empty_hunyuan_latent_video: (1, 16, 7, 60, 106),
    empty_ar_video_latent: (1, 16, 7, 60, 106),
    empty_hunyuan_video_15_latent: (1, 32, 7, 30, 53),
    empty_ltxv_latent_video: (1, 128, 4, 15, 26),
}


@pytest.mark.parametrize("make", CLIPS, ids=lambda make: make.__name__)
def test_empty_clips_are_cut_as_comfyui_does(tmp_path: Path, make: Any) -> None:
    context = Context(tmp_path, tmp_path)
    assert make(context, 850, 490, 27)["samples"].shape == CLIPS[make]
    width = CLIPS[make][-1] * (8 if CLIPS[make][1] == 16 else 16 if CLIPS[make][1] == 32 else 32)
    assert any(f"width 850 becomes {width}" in w for w in context.warnings) and len(context.warnings) == 3
    assert make(context, 16 * 4, 64, 1)["samples"].shape[2] == 1 and len(context.warnings) == 3


def test_comfyuis_form_is_not_refused(tmp_path: Path) -> None:
    nodes = {
        "1": {
            "class_type": "EmptyHunyuanLatentVideo",
            "inputs": {"width": 850, "height": 480, "length": 26, "batch_size": 1},
        },
        "2": {"class_type": "EmptyMiniMaxH3LatentAV", "inputs": {"width": 70, "height": 64, "length": 125}},
        "3": {"class_type": "EmptyLatentImage", "inputs": {"width": 515, "height": 512, "batch_size": 1}},
        "4": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 515, "height": 512, "batch_size": 1}},
        "5": {
            "class_type": "EmptyLTXVLatentVideo",
            "inputs": {"width": 515, "height": 512, "length": 98, "batch_size": 1},
        },
    }
    outputs = {f"x{id}": [id, 0] for id in nodes}
    result = pg.load({"pipegraph": 1, "nodes": nodes, "outputs": outputs}, out=tmp_path).run()
    assert [result[name]["samples"].shape[-1] for name in ("x1", "x3", "x4", "x5")] == [106, 64, 64, 16]
    assert [tuple(shape)[-2:] for shape in result["x2"]["shapes"][:1]] == [(64 // CELL, 64 // CELL)]


def test_items_of_a_batch_keep_their_numbers() -> None:
    whole = batch(5, noise_mask=torch.arange(2.0).reshape(2, 1, 1, 1), other="kept")
    some = latent_from_batch(whole, 3, 7)
    assert torch.equal(some["samples"], whole["samples"][3:]) and some["batch_index"] == [3, 4]
    assert some["noise_mask"].flatten().tolist() == [1, 0] and some["other"] == "kept"
    assert latent_from_batch(some, 1)["batch_index"] == [4]
    assert latent_from_batch(whole, 99)["batch_index"] == [4]
    assert "batch_index" not in whole


def test_repeats_get_numbers_of_their_own() -> None:
    twice = repeat_latent_batch(batch(2, batch_index=[3, 5], noise_mask=torch.zeros(2, 1, 8, 8)), 2)
    assert twice["batch_index"] == [3, 5, 6, 8] and len(twice["noise_mask"]) == 4
    assert torch.equal(twice["samples"][2:], twice["samples"][:2])
    plain = repeat_latent_batch(batch(2), 3)
    assert len(plain["samples"]) == 6 and "batch_index" not in plain


def test_a_mask_of_fewer_items_covers_each_repeat() -> None:
    first, second = torch.zeros(1, 1, 8, 8), torch.ones(1, 1, 8, 8)
    twice = repeat_latent_batch(batch(3, noise_mask=torch.cat([first, second])), 2)
    assert twice["noise_mask"].mean((1, 2, 3)).tolist() == [0, 1, 0, 0, 1, 0]


def test_a_noise_mask_is_put_beside_the_samples() -> None:
    latent = batch(1)
    masked = set_latent_noise_mask(latent, torch.ones(2, 64, 64))
    assert masked["noise_mask"].shape == (2, 1, 64, 64) and "noise_mask" not in latent


@pytest.mark.parametrize("method", ["nearest-exact", "bilinear", "area", "bicubic", "bislerp"])
def test_resizing(method: Any) -> None:
    flat = {"samples": torch.ones(2, 4, 8, 16) * torch.tensor([1.0, -2.0, 3.0, 0.5]).reshape(1, 4, 1, 1)}
    bigger = latent_upscale(flat, method, 256, 96)["samples"]
    assert bigger.shape == (2, 4, 12, 32)
    assert torch.allclose(bigger, flat["samples"][..., :1, :1].expand_as(bigger), atol=1e-5)
    video = {"samples": torch.randn(1, 4, 3, 8, 8)}
    frames = latent_upscale(video, method, 128, 128)["samples"]
    one = latent_upscale({"samples": video["samples"][:, :, 1]}, method, 128, 128)["samples"]
    assert frames.shape == (1, 4, 3, 16, 16) and torch.allclose(frames[:, :, 1], one)


def test_a_side_of_0_keeps_the_shape_and_center_cuts() -> None:
    wide = {"samples": torch.randn(1, 4, 8, 16)}
    assert latent_upscale(wide, "bilinear", 0, 0) is wide
    assert latent_upscale(wide, "bilinear", 256, 0)["samples"].shape == (1, 4, 16, 32)
    assert latent_upscale(wide, "bilinear", 0, 256)["samples"].shape == (1, 4, 32, 64)
    assert torch.equal(latent_upscale(wide, "area", 64, 64, "center")["samples"], wide["samples"][..., 4:12])
    tall = {"samples": wide["samples"].mT}
    assert torch.equal(latent_upscale(tall, "area", 64, 64, "center")["samples"], tall["samples"][..., 4:12, :])


def test_bislerp_turns_and_keeps_length() -> None:
    # Two orthogonal unit vectors: half way between them a straight blend would have length 0.71.
    samples = torch.zeros(1, 2, 8, 16)
    samples[:, 0, :, :8] = samples[:, 1, :, 8:] = 1
    bigger = latent_upscale({"samples": samples}, "bislerp", 256, 64)["samples"]
    assert torch.allclose(bigger.norm(dim=1), torch.ones(1, 8, 32), atol=1e-5)
    blend = latent_upscale({"samples": samples}, "bilinear", 256, 64)["samples"]
    assert float(blend.norm(dim=1).min()) < 0.8


def test_bislerp_turns_evenly_between_neighbours() -> None:
    """From (2, 0) to 4 (cos 60, sin 60): at a quarter of the way 15 degrees and length 2.5; 0.1 apart at the ends."""
    a, b = torch.tensor([2.0, 0.0]), 4 * torch.tensor([math.cos(math.pi / 3), math.sin(math.pi / 3)])
    pair = torch.stack([a, b], -1)[None, :, None]  # [1, 2 channels, 1, 2]
    wider = resize(pair, 1, 4, "bislerp")[0, :, 0]
    for place, share in enumerate((0, 0.25, 0.75, 1)):
        length, angle = 2 + 2 * share, share * math.pi / 3
        wanted = length * torch.tensor([math.cos(angle), math.sin(angle)])
        assert torch.allclose(wider[:, place], wanted, atol=1e-5), place
    opposite = torch.stack([a, -2 * a], -1)[None, :, None]  # no plane to turn in: straight
    assert torch.allclose(resize(opposite, 1, 4, "bislerp")[0, 0, 0], torch.tensor([2, 0.5, -2.5, -4]), atol=1e-5)
    same = torch.stack([a, 2 * a], -1)[None, :, None]
    assert torch.allclose(resize(same, 1, 4, "bislerp")[0, 0, 0], torch.tensor([2, 2.5, 3.5, 4]), atol=1e-5)
