"""Guides, compressed pictures, upscaled latents and decoding while saving, for LTX-Video."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pipegraph.nodes.video.ltx import empty_ltxv_latent_video, ltxv_img_to_video
from pipegraph.nodes.video.ltx_guides import (
    load_latent_upscaler,
    ltxv_add_guide,
    ltxv_crop_guides,
    ltxv_latent_upsampler,
    ltxv_preprocess,
)
from pipegraph.nodes.video.wan import vae_decode_video

from ..context import Context
from .conftest import UNASKED
from .test_ltx import FRAMES, SIZE, TOLERANCE, folder, noise, picture, reference, run, texts
from .test_wan_pictures import as_pipe

__all__ = ["folder"]
Load = Callable[..., Any]


def empty() -> dict[str, Any]:
    return empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], FRAMES)


@pytest.mark.parametrize("first", [False, True])
def test_guides_equal_diffusers(
    load: Load, pipeline: Load, folder: Load, context: Context, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A picture at frame 12, without and with another as the first frame."""
    where = folder("LTXConditionPipeline", "0.9.5")
    model, clip, vae = load(where)
    monkeypatch.setattr(
        "diffusers.models.autoencoders.vae.DiagonalGaussianDistribution.sample",
        lambda self, generator=None: self.mode(),
    )
    pipe = pipeline(where, "LTXConditionPipeline")
    given = [(picture(2), 0)] * first + [(picture(1), 12)]
    options: dict[str, Any] = {"image_cond_noise_scale": 0.0, "timesteps": [1000.0, 700.0, 300.0]}
    options |= {"image": [as_pipe(p) for p, _ in given], "frame_index": [i for _, i in given], "strength": 1.0}
    options |= {"video": [None] * len(given)}
    expected = reference(pipe, generator=torch.Generator().manual_seed(7), **options)
    positive, negative = texts(clip)
    latent = empty()
    if first:
        latent = ltxv_img_to_video(positive, negative, vae, picture(2), context, SIZE[1], SIZE[0], FRAMES).latent
    made = ltxv_add_guide(positive, negative, vae, latent, picture(1), context, 12)
    start = torch.cat([noise(), torch.zeros_like(noise()[:, :, :1])], 2)
    found = {
        **made.latent,
        "samples": run(model, (made.positive, made.negative), start, pipe.scheduler.sigmas, made.latent),
    }
    cropped = ltxv_crop_guides(made.positive, made.negative, found)
    assert cropped.latent["samples"].shape == noise().shape and cropped.latent["noise_mask"].shape[2] == 3
    assert (cropped.latent["samples"] - expected).abs().max() < TOLERANCE
    other = ltxv_add_guide(positive, negative, vae, latent, picture(1), context, 11)
    moved = run(model, (other.positive, other.negative), start, pipe.scheduler.sigmas, other.latent)
    assert (moved[:, :, :-1] - cropped.latent["samples"]).abs().max() > 10 * TOLERANCE
    assert ltxv_crop_guides(cropped.positive, cropped.negative, cropped.latent).latent is cropped.latent


def test_where_guides_stand(load: Load, folder: Load, context: Context) -> None:
    model, clip, vae = load(folder())
    sides = texts(clip)
    clip17 = picture().expand(17, -1, -1, -1)
    latent = empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], 41)
    one = ltxv_add_guide(*sides, vae, latent, clip17[:9], context, -20)
    assert context.warnings == ["a guide of several frames starts at 0 or 8n + 1: frame 21 becomes 17"]
    assert one.positive[0][1]["keyframe_idxs"][0, 0].unique().tolist() == [17, 25]
    two = ltxv_add_guide(one.positive, one.negative, vae, one.latent, clip17, context, 17, 0.75)
    assert two.latent["samples"].shape[2] == 6 + 2 + 2
    assert two.latent["noise_mask"][0, 0, :, 0, 0].tolist() == [1, 1, 1, 1, 1, 0.25, 0, 0, 0.25, 0.25]
    with pytest.raises(ValueError, match="starting at frame 33 exceeds the video's 41 frames"):
        ltxv_add_guide(two.positive, two.negative, vae, two.latent, clip17, context, 33)
    with pytest.raises(ValueError, match="take conditioning and latent from the same LTXVAddGuide"):
        model.prepare(one.positive, latent["samples"][:, :, :1])
    with pytest.raises(ValueError, match="make it with EmptyLTXVLatentVideo"):
        ltxv_add_guide(*sides, vae, {"samples": torch.zeros(1, 16, 3, 2, 2)}, picture(), context)


def test_compressed_pictures(context: Context) -> None:
    image = torch.rand(2, 17, 32, 3, generator=torch.Generator().manual_seed(1))
    assert ltxv_preprocess(image, context, 0) is image
    soft, hard = (ltxv_preprocess(image, context, crf) for crf in (10, 45))
    assert context.warnings == ["32x17 cut to 32x16: frames of h264 have even sides"] * 2
    assert soft.shape == (2, 16, 32, 3)
    lost = [float((x - image[:, :16]).abs().mean()) for x in (soft, hard)]
    assert 0 < lost[0] < lost[1] < 0.3
    assert torch.equal(ltxv_preprocess(image, context, 45), hard)
    assert torch.equal(ltxv_preprocess(image, context, 100), ltxv_preprocess(image, context, 51))


KINDS: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "space": ({"use_rational_resampler": False}, (3, 6, 4)),
    "time": ({"use_rational_resampler": False, "spatial_upsample": False, "temporal_upsample": True}, (5, 3, 2)),
    "half again": ({"use_rational_resampler": True, "rational_spatial_scale": 1.5}, (3, 5, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_upscaled_latents(
    load: Load, folder: Load, context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As LTXLatentUpsamplePipeline does: the network on the VAE's own latents."""
    from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

    vae = load(folder())[2]
    changes, size = KINDS[kind]
    torch.manual_seed(0)
    network = LTX2LatentUpsamplerModel(mid_channels=32, num_blocks_per_stage=1, **changes).eval()
    told = {"_class_name": "LatentUpsampler", "dims": 3}
    (tmp_path / "latent_upscale_models").mkdir()
    path = tmp_path / "latent_upscale_models" / "ltx-2-spatial-upscaler-x2-1.0.safetensors"
    save_file(network.state_dict(), path, {"config": json.dumps(told)})
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    upscaler = load_latent_upscaler(path.name, context)
    latent = {"samples": noise(), "noise_mask": torch.ones(1, 1, 3, 1, 1)}
    found = ltxv_latent_upsampler(latent, upscaler, vae)
    assert found.keys() == {"samples"} and found["samples"].shape == (1, 128, *size)
    own = vae.loaded.network
    mean, std = (v.view(1, -1, 1, 1, 1) for v in (own.latents_mean, own.latents_std))
    with torch.no_grad():
        expected = (network(noise() * std + mean) - mean) / std
    assert (found["samples"] - expected).abs().max() < TOLERANCE
    with pytest.raises(ValueError, match="connect the VAE of an LTX-Video model"):
        upscaler.upscale(noise(), None)


def test_decoding_while_saving_gives_the_same_frames(load: Load, folder: Load, context: Context) -> None:
    vae = load(folder(version="0.9.1"))[2]
    latent = {"samples": torch.cat([noise(33), noise(33).flip(1)])}
    video = vae_decode_video(latent, vae, context, 12.5)
    assert (video.frames.count, video.frames.height, video.frames.width) == (66, *SIZE)
    sizes: list[int] = [len(part) for part in video.frames.chunks()]
    assert sizes == [1, 8, 8, 8, 8] * 2
    whole: Tensor = vae.decode(latent["samples"])
    assert torch.equal(video.images(), whole)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length() -> None:
    """Peak memory of decoding and saving 129 and 1353 frames, each in a process of its own."""
    short, long = (peak(cells) for cells in (17, 170))
    assert long < 1.2 * short, (short, long)


def peak(cells: int) -> int:
    """Peak resident memory in KiB of a process that decodes and saves so many latent frames."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.video.ltx_saving", str(cells)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout.split()[-1])
