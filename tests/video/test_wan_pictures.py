"""Clips that begin with pictures, two experts, decoding while saving: against diffusers' pipelines."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.access import Access, granted
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_model
from pipegraph.models.media.video_read import read_video
from pipegraph.nodes.sampling.ksampler import k_sampler_advanced
from pipegraph.nodes.video.files import save_video
from pipegraph.nodes.video.wan import vae_decode_video, wan_first_last_frame_to_video, wan_image_to_video

from ..context import Context
from . import tiny
from .conftest import saved
from .test_wan import CFG, CPU, NEGATIVE, PROMPT, SIZE, TOLERANCE, noise, reference, run, texts


@pytest.fixture(scope="session")
def i2v(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wan") / "i2v"
    tiny.make(folder, "WanImageToVideoPipeline", transformer=tiny.transformer(in_channels=36), image_encoder=None)
    return folder


def picture(seed: int) -> Tensor:
    return torch.rand(1, *SIZE, 3, generator=torch.Generator().manual_seed(seed))


def as_pipe(image: Tensor) -> Tensor:
    """An IMAGE as diffusers' pipelines take it."""
    return image.movedim(-1, 1)


@pytest.mark.parametrize("last", [False, True])
def test_a_clip_from_pictures_equals_diffusers(
    load: Any, pipeline: Any, i2v: Path, context: Context, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It mends broken letters with a package that is not installed.
    monkeypatch.setattr("diffusers.pipelines.wan.pipeline_wan_i2v.prompt_clean", str)
    model, clip, vae = load(i2v)
    start, end = picture(1), picture(2)
    sizes: dict[str, Any] = {"width": SIZE[1], "height": SIZE[0], "length": 9}
    if last:
        made = wan_first_last_frame_to_video(*texts(clip), vae, context, **sizes, start_image=start, end_image=end)
    else:
        made = wan_image_to_video(*texts(clip), vae, context, **sizes, start_image=start)
    assert made.latent["samples"].shape == noise().shape and not context.warnings
    latents = run(model, made.positive, made.negative, noise())
    options: dict[str, Any] = {"image": as_pipe(start)} | ({"last_image": as_pipe(end)} if last else {})
    expected = reference(pipeline(i2v, "WanImageToVideoPipeline"), noise(), 9, **options)
    assert (latents - expected).abs().max() < TOLERANCE
    other = wan_image_to_video(*texts(clip), vae, context, **sizes, start_image=end)
    assert (run(model, other.positive, other.negative, noise()) - latents).abs().max() > 10 * TOLERANCE


def test_pictures_and_networks_that_do_not_fit(load: Any, wan: Path, i2v: Path, context: Context) -> None:
    model, clip, vae = load(i2v)
    made = wan_image_to_video(*texts(clip), vae, context, 16, 16, 5, start_image=picture(1).expand(7, -1, -1, -1))
    assert context.warnings == ["7 images, but the video has 5 frames: the first are used"]
    with pytest.raises(ValueError, match="make both with the same node"):
        model.prepare(made.positive, noise())
    with pytest.raises(ValueError, match="i2v model"):
        load(wan)[0].prepare(made.positive, made.latent["samples"])
    alone = wan_image_to_video(*texts(clip), vae, context, SIZE[1], SIZE[0], 9)  # no picture: nothing is given
    beside = model.prepare(alone.positive, noise())[0].inputs.batched["concat"]
    assert beside.shape == (1, 20, 3, 6, 4) and not beside.any()


def test_two_experts_hand_over_as_in_diffusers(
    load: Any,
    pipeline: Any,
    tmp_path_factory: pytest.TempPathFactory,
    context: Context,
) -> None:
    """Wan 2.2: the first steps by one network, the last by another, through two KSamplerAdvanced."""
    folder = tmp_path_factory.mktemp("wan") / "two"
    torch.manual_seed(5)
    second = tiny.transformer()
    tiny.make(folder, transformer_2=second, boundary_ratio=0.875)
    model, clip, _ = load(folder)
    with granted(Access.to(folder)):
        low = load_model(str(folder / "transformer_2"), CPU).with_sampling(model.sampling)
    positive, negative = texts(clip)
    start: dict[str, Any] = {"samples": torch.zeros_like(noise())}
    whole = {
        "noise_seed": 3,
        "steps": 4,
        "cfg": CFG,
        "sampler_name": "euler",
        "scheduler": "simple",
        "positive": positive,
        "negative": Kept(negative),
    }

    def sampled(network: Any, latent: Any, **rest: Any) -> Any:
        stream = k_sampler_advanced(context, model=network, latent_image=latent, **whole, **rest)
        return finish(stream)

    from pipegraph.models.sampling.noise import initial_noise
    from pipegraph.models.sampling.schedules import sigmas_for

    sigmas = sigmas_for(model.sampling, "simple", 4)
    cut = sum(float(s) >= 0.875 for s in sigmas)
    assert 0 < cut < 4
    half = sampled(model, start, end_at_step=cut, return_with_leftover_noise="enable")
    done = sampled(low, half, add_noise="disable", start_at_step=cut)["samples"]
    expected = experts(pipeline(folder), initial_noise(3, noise().shape, None), sigmas, cut)
    one = sampled(model, start)["samples"]
    assert (done - expected).abs().max() < TOLERANCE
    assert (one - done).abs().max() > 10 * TOLERANCE

    clip = torch.randn(noise().shape, generator=torch.Generator().manual_seed(4))
    mask = torch.zeros(1, 1, 8, 8)
    mask[..., 4:] = 1
    half = sampled(model, {"samples": clip, "noise_mask": mask}, end_at_step=cut, return_with_leftover_noise="enable")
    painted = sampled(low, half, add_noise="disable", start_at_step=cut)["samples"]
    columns = clip.shape[-1] // 2
    assert (painted - clip)[..., :columns].abs().max() < TOLERANCE < (painted - clip)[..., columns:].abs().mean()


class Kept:
    """A lazy input that is there."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self) -> Any:
        return self.value

    def lost_texts(self) -> list[str]:
        return []


@torch.no_grad()
def experts(pipe: Any, x: Tensor, sigmas: Tensor, cut: int) -> Tensor:
    """diffusers' two networks over the sigmas by Euler's method, as VAE latents."""
    positive, negative = pipe.encode_prompt(PROMPT, NEGATIVE, max_sequence_length=tiny.TOKENS)
    for i, (now, then) in enumerate(pairwise(sigmas)):
        network = pipe.transformer if i < cut else pipe.transformer_2
        given = {"hidden_states": x, "timestep": (1000 * now).expand(1), "return_dict": False}
        p, n = (network(encoder_hidden_states=t, **given)[0] for t in (positive, negative))
        x = x + (then - now) * (n + CFG * (p - n))
    mean, std = (torch.tensor(pipe.vae.config[k]).view(1, -1, 1, 1, 1) for k in ("latents_mean", "latents_std"))
    return x * std + mean


def test_decoding_while_saving_gives_the_same_frames(load: Any, wan: Path, context: Context) -> None:
    vae = load(wan)[2]
    latent = {"samples": noise(13, batch=2)}
    video = vae_decode_video(latent, vae, context, 12.5)
    assert (video.frames.count, video.frames.height, video.frames.width, float(video.fps)) == (26, *SIZE, 12.5)
    whole = vae.decode(latent["samples"])
    assert torch.equal(video.images(), whole)
    [path] = saved(save_video(video, context, "clip", "mkv"))
    assert (read_video(path)[0].images() - whole).abs().max() <= 0.5 / 255 + 1e-6
    with pytest.raises(ValueError, match="decodes latents"):
        vae_decode_video({"samples": torch.zeros(1, 4, 2, 2, 2)}, vae, context)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length() -> None:
    """Peak memory of decoding and saving 129 and 1281 frames, each in a process of its own."""
    short, long = (peak(cells) for cells in (33, 321))
    assert long < 1.2 * short, (short, long)


def peak(cells: int) -> int:
    """Peak resident memory in KiB of a process that decodes and saves so many latent frames."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.video.saving", str(cells)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout.split()[-1])
