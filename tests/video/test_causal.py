"""Clips made chunk by chunk: equal to a block-causal mask over the whole sequence; streamed; refused where wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.models import paths
from pipegraph.models.causal.memory import Memory
from pipegraph.models.causal.rollout import Rollout
from pipegraph.models.causal.stream import RolloutFrames
from pipegraph.models.checkpoints.load import load_model
from pipegraph.models.media.video_read import read_video
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.noise import ItemNoise, Noise
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.nodes.sampling.attention import sliding_tile_attention
from pipegraph.nodes.sampling.custom import random_noise
from pipegraph.nodes.video.causal import ar_video_i2v, sampler_ar_video, stream_ar_video
from pipegraph.nodes.video.files import save_video

from ..context import Context
from . import tiny
from .conftest import saved
from .test_wan import CPU, PROMPT, SIZE, TOLERANCE, Given

SIGMAS = torch.tensor([1.0, 0.9375, 0.8333, 0.625, 0.0])
"""Timesteps 1000, 750, 500 and 250 after a shift of 5."""
SHAPE = (16, SIZE[0] // 8, SIZE[1] // 8)
TOKENS = SHAPE[1] * SHAPE[2] // 4
"""Of a latent frame."""
ROLLOUTS = [Rollout(3), Rollout(2, window=5, sink=1), Rollout(1, window=2)]
SEED = 11


def noise(cells: int) -> Tensor:
    return torch.randn(1, SHAPE[0], cells, *SHAPE[1:], generator=torch.Generator().manual_seed(5))


def text(clip: Any) -> Any:
    return clip.encode(clip.tokenize(PROMPT))


def run(model: Model, positive: Any, rollout: Rollout, start: Tensor, **latent: Any) -> Tensor:
    """VAE latents."""
    given: Any = Given(start)
    given.seed = SEED
    steps = sample(
        Guider(model, positive), given, rollout.sampler(), SIGMAS, {"samples": torch.zeros_like(start), **latent}
    )
    return finish(steps).samples


def recorded(model: Model) -> tuple[Model, list[tuple[Tensor, float, Tensor]]]:
    """The model, and what its network will be asked and answer: state, timestep, output."""
    calls: list[tuple[Tensor, float, Tensor]] = []

    def call(network: Any, x: Tensor, timestep: Tensor, *rest: Any) -> Tensor:
        out = model.family.call(network, x, timestep, *rest)
        calls.append((x.clone(), float(timestep[0]), out.clone()))
        return out

    return replace(model, family=replace(model.family, call=call)), calls


@torch.no_grad()
def dense(network: Any, x: Tensor, times: Tensor, states: Tensor, rollout: Rollout, given: int = 0) -> Tensor:
    """diffusers' network over the whole sequence, each frame at its own time, under a block-causal mask."""
    cells = x.shape[2]
    frames = torch.arange(cells)
    ends = torch.where(frames < given, given, given + ((frames - given) // rollout.chunk + 1) * rollout.chunk)
    seen = frames[None] < ends[:, None]
    if rollout.window:
        recent = frames[None] >= ends[:, None] - (rollout.window - rollout.sink)
        seen &= recent | (frames[None] < rollout.sink)
    mask = seen.repeat_interleave(TOKENS, 0).repeat_interleave(TOKENS, 1)

    def masked(usual: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda attn, hidden, states, _, rotary: usual(attn, hidden, states, mask, rotary)

    usual = [block.attn1.processor for block in network.blocks]
    try:
        for block in network.blocks:
            block.attn1.processor = masked(block.attn1.processor)
        out: Tensor = network(x, times.repeat_interleave(TOKENS)[None], states, return_dict=False)[0]
        return out
    finally:
        for block, processor in zip(network.blocks, usual, strict=True):
            block.attn1.processor = processor


def checked(
    calls: list[tuple[Tensor, float, Tensor]], network: Any, states: Tensor, rollout: Rollout
) -> Iterator[float]:
    """How far each answer is from that of the whole sequence under the mask."""
    finished: list[Tensor] = []
    for x, time, out in calls:
        times = torch.cat([torch.zeros(sum(f.shape[2] for f in finished)), torch.full((x.shape[2],), time)])
        whole = dense(network, torch.cat([*finished, x], 2), times, states, rollout)
        yield float((out - whole[:, :, -x.shape[2] :]).abs().max())
        if time == 0:
            finished.append(x)


@pytest.mark.parametrize("rollout", ROLLOUTS, ids=str)
def test_the_memory_equals_a_mask_over_the_whole_sequence(
    load: Any, pipeline: Any, wan: Path, rollout: Rollout
) -> None:
    model, clip, _ = load(wan)
    model, calls = recorded(model)
    positive, cells = text(clip), 6
    run(model, positive, rollout, noise(cells))
    chunks = cells // rollout.chunk
    assert [round(time, 1) for _, time, _ in calls[: len(SIGMAS)]] == [1000, 937.5, 833.3, 625, 0]
    assert len(calls) == chunks * len(SIGMAS) - 1  # nothing will see the last chunk
    errors = [*checked(calls, pipeline(wan).transformer, positive[0][0], rollout)]
    assert max(errors) < TOLERANCE, errors


def _stale(memory: Memory, frames: int) -> None:
    """The memory of a chunk with noise, not of the finished one."""
    for keys, _ in memory._pictures.values():
        keys.mul_(1.2)


def _late(memory: Memory, frames: int) -> None:
    memory.behind += 1


def _short(memory: Memory, frames: int) -> None:
    memory._cached_frames -= 1


@pytest.mark.parametrize("wrong", [_stale, _late, _short])
def test_a_wrong_memory_is_seen(
    load: Any, pipeline: Any, wan: Path, wrong: Callable[[Memory, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Memory.keep

    def kept(memory: Memory, frames: int) -> None:
        keep(memory, frames)
        wrong(memory, frames)

    monkeypatch.setattr(Memory, "keep", kept)
    model, clip, _ = load(wan)
    model, calls = recorded(model)
    run(model, text(clip), Rollout(3), noise(6))
    errors = [*checked(calls, pipeline(wan).transformer, text(clip)[0][0], Rollout(3))]
    assert max(errors[: len(SIGMAS)]) < TOLERANCE  # the first chunk has no memory yet
    assert min(errors[len(SIGMAS) :]) > 10 * TOLERANCE, errors


@pytest.mark.parametrize("given", [0, 1])
def test_a_clip_equals_one_made_without_a_memory(load: Any, pipeline: Any, wan: Path, given: int) -> None:
    """The whole algorithm, written down again over the whole sequence."""
    model, clip, vae = load(wan)
    rollout, cells, x = Rollout(2), 4 + given, noise(4 + given)
    positive, network = text(clip), pipeline(wan).transformer
    first = vae.encode(torch.rand(1, *SIZE, 3, generator=torch.Generator().manual_seed(1)))
    drawn, done = ItemNoise(SEED, [0]), model.process_in(first) if given else x[:, :, :0]
    for start in range(given, cells, rollout.chunk):
        state = x[:, :, start : start + rollout.chunk]
        for sigma, to in pairwise(SIGMAS):
            times = torch.cat([torch.zeros(start), 1000 * sigma.expand(rollout.chunk)])
            velocity = dense(network, torch.cat([done, state], 2), times, positive[0][0], rollout, given)[:, :, start:]
            clean = state - sigma * velocity
            state = (1 - to) * clean + to * drawn(clean) if to else clean
        done = torch.cat([done, state], 2)
    made = run(replace(model, begins_with=first if given else None), positive, rollout, x)
    assert (made - model.process_out(done)).abs().max() < TOLERANCE
    assert (made - run(model, positive, Rollout(cells), x)).abs().max() > 10 * TOLERANCE


def test_the_network_stays_what_it_was(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    positive, x = text(clip), noise(3)
    euler: Any = Given(x)

    def usual() -> Tensor:
        steps = sample(Guider(model, positive), euler, SAMPLERS["euler"], SIGMAS, {"samples": torch.zeros_like(x)})
        return finish(steps).samples

    before = usual()
    run(model, positive, Rollout(1), x)
    assert torch.equal(usual(), before)


def test_a_batch_equals_its_clips_alone(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    x = torch.cat([noise(2), noise(2).flip(2)])
    both = run(model, text(clip), Rollout(1), x)
    assert (both[1:] - run(model, text(clip), Rollout(1), x[1:], batch_index=[1])).abs().max() < 1e-5


def stream(model: Model, positive: Any, vae: Any, cells: int, rollout: Rollout, **given: Any) -> RolloutFrames:
    latent = given.pop("latent", torch.zeros(1, SHAPE[0], cells, *SHAPE[1:]))
    return RolloutFrames(Guider(model, positive), Noise(SEED), rollout, given.get("sigmas", SIGMAS), latent, vae)


def test_streamed_frames(load: Any, wan: Path, context: Context) -> None:
    model, clip, vae = load(wan)
    positive, rollout = text(clip), Rollout(2, window=4, sink=1)
    frames = stream(model, positive, vae, 6, rollout)
    latent = torch.cat([*frames.latents()], 1)[None]
    whole = vae.decode(latent)
    found = [*frames.chunks()]
    assert [len(f) for f in found] == [1, 4, 4, 4, 4, 4] and frames.count == 21
    assert torch.equal(torch.cat(found), whole) and whole.shape[1:] == (*SIZE, 3)
    # A longer clip begins as a shorter one does.
    longer = stream(model, positive, vae, 8, rollout)
    assert torch.equal(torch.cat([*longer.latents()], 1)[:, :6], latent[0])
    # With one step no noise is drawn between: the noise of the whole is known, and it is what a sampler makes of it.
    one = torch.tensor([1.0, 0.0])
    drawn = ItemNoise(SEED, [0])
    x = torch.cat([drawn(noise(2)) for _ in range(3)], 2)
    steps = sample(Guider(model, positive), _given(x), rollout.sampler(), one, {"samples": torch.zeros_like(x)})
    *_, last = steps
    streamed = torch.cat([*stream(model, positive, vae, 6, rollout, sigmas=one).latents()], 1)
    assert (model.process_out(last.denoised)[0] - streamed).abs().max() < 1e-5


def _given(x: Tensor) -> Any:
    return Given(x)


def test_frames_are_handed_on_before_the_clip_is_made(load: Any, wan: Path) -> None:
    model, clip, vae = load(wan)
    model, calls = recorded(model)
    found = stream(model, text(clip), vae, 4, Rollout(1)).chunks()
    next(found)
    assert len(calls) == len(SIGMAS) - 1
    next(found)
    assert len(calls) == 2 * len(SIGMAS) - 1


def test_the_memory_of_a_window_does_not_grow(load: Any, wan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, clip, vae = load(wan)
    sizes: list[int] = []
    keep = Memory.keep

    def kept(memory: Memory, frames: int) -> None:
        keep(memory, frames)
        sizes.append(memory.bytes)

    monkeypatch.setattr(Memory, "keep", kept)
    one = torch.tensor([1.0, 0.0])
    for cells in (6, 48):
        for _ in stream(model, text(clip), vae, cells, Rollout(3, window=6), sigmas=one).latents():
            pass
    assert len(sizes) == 1 + 15 and len(set(sizes)) == 1
    # keys and values, two layers, 6 frames, 24 channels, 4 bytes
    assert sizes[0] == 2 * 2 * 6 * TOKENS * 24 * 4


@pytest.mark.slow
def test_a_window_streams_in_memory_that_does_not_grow() -> None:
    """Peak memory of making, decoding and saving 129 and 1281 frames, each in a process of its own."""

    def peak(cells: int) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "tests.video.rolling", str(cells)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        return int(done.stdout.split()[-1])

    short, long = peak(33), peak(321)
    assert long < 1.2 * short, (short, long)


def test_clips_longer_than_the_table_of_places(load: Any, wan: Path) -> None:
    """The tiny network's table has 32 places, a clip may have more frames."""
    model, clip, vae = load(wan)
    one = torch.tensor([1.0, 0.0])
    *_, last = stream(model, text(clip), vae, 40, Rollout(4, window=8), sigmas=one).latents()
    assert last.isfinite().all()


def test_what_cannot_be_made_is_refused(load: Any, wan: Path, context: Context) -> None:
    model, clip, vae = load(wan)
    positive = text(clip)
    latent = {"samples": torch.zeros(noise(6).shape)}
    with pytest.raises(ValueError, match=r"21 frames has 6 latent frames.*chunks of 4: make it 13 or 29 long"):
        run(model, positive, Rollout(4), noise(6))
    with pytest.raises(ValueError, match="it must be 4 or more, or 0"):
        run(model, positive, Rollout(3, window=3, sink=1), noise(6))
    with pytest.raises(ValueError, match="noise mask"):
        run(model, positive, Rollout(3), noise(6), noise_mask=torch.ones(1, 6, 4))
    with pytest.raises(ValueError, match="cfg 1"):
        run(model, positive * 2, Rollout(3), noise(6))
    tiled = sliding_tile_attention(model)
    with pytest.raises(ValueError, match="leave out SlidingTileAttention"):
        run(tiled, positive, Rollout(3), noise(6))
    with pytest.raises(ValueError, match="cannot use SlidingTiles"):
        next(stream(tiled, positive, vae, 6, Rollout(3)).latents())
    with pytest.raises(ValueError, match="end at 0"):
        [*sample(Guider(model, positive), _given(noise(6)), Rollout(3).sampler(), SIGMAS[:-1], latent)]
    with pytest.raises(ValueError, match="connect SamplerARVideo"):
        stream_ar_video(Noise(), Guider(model, positive), SAMPLERS["lcm"], SIGMAS, latent, vae)
    with pytest.raises(ValueError, match="batch size 1"):
        stream(model, positive, vae, 3, Rollout(3), latent=torch.zeros(2, *noise(3).shape[1:]))
    begun = ar_video_i2v(model, vae, torch.rand(2, 20, 30, 3), context, SIZE[1], SIZE[0], 9)
    assert context.warnings == ["2 images: the video starts with the first"]
    assert begun.LATENT["samples"].shape == noise(3).shape
    with pytest.raises(ValueError, match="which euler cannot do: use the sampler of SamplerARVideo"):
        [*sample(Guider(begun.MODEL, positive), _given(noise(3)), SAMPLERS["euler"], SIGMAS, begun.LATENT)]
    pictures = load_model(str(paths.EMBEDDED / "flux-tiny"), CPU)
    with pytest.raises(ValueError, match=r"\[batch, channels, height, width\]|causal Wan model"):
        [*sample(Guider(pictures, positive), _given(noise(3)), Rollout(3).sampler(), SIGMAS, begun.LATENT)]


def test_saved_while_it_is_made(load: Any, wan: Path, context: Context) -> None:
    model, clip, vae = load(wan)
    begun = ar_video_i2v(model, vae, torch.rand(1, *SIZE, 3), context, SIZE[1], SIZE[0], 13)
    guider = Guider(begun.MODEL, text(clip))
    video = stream_ar_video(random_noise(3), guider, sampler_ar_video(3), SIGMAS, begun.LATENT, vae, 12.0)
    [path] = saved(save_video(video, context, "clip", "mkv"))
    frames = read_video(path)[0].images()
    assert frames.shape == (13, *SIZE, 3) and (frames - video.images()).abs().max() <= 0.5 / 255 + 1e-6


GRAPH: dict[str, Any] = {  # the nodes of ComfyUI's template video_causal_forcing_i2v
    "1": {"class_type": "UNETLoader",
          "inputs": {"unet_name": "causal_forcing-framewise.safetensors", "weight_dtype": "default"}},
    "2": {"class_type": "CLIPLoader",
          "inputs": {"clip_name": "umt5_xxl_fp8_e4m3fn_scaled.safetensors", "type": "wan", "device": "default"}},
    "3": {"class_type": "VAELoader", "inputs": {"vae_name": "wan_2.1_vae.safetensors"}},
    "4": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["2", 0], "text": PROMPT}},
    "5": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["2", 0], "text": ""}},
    "6": {"class_type": "LoadImage", "inputs": {"image": ""}},
    "7": {"class_type": "ARVideoI2V", "inputs": {
        "model": ["1", 0], "vae": ["3", 0], "start_image": ["6", 0], "width": 32, "height": 48, "length": 13,
        "batch_size": 1}},
    "8": {"class_type": "CFGGuider",
          "inputs": {"model": ["7", 0], "positive": ["4", 0], "negative": ["5", 0], "cfg": 1}},
    "9": {"class_type": "BasicScheduler",
          "inputs": {"model": ["7", 0], "scheduler": "simple", "steps": 4, "denoise": 1}},
    "10": {"class_type": "RandomNoise", "inputs": {"noise_seed": 1}},
    "11": {"class_type": "SamplerARVideo", "inputs": {"num_frame_per_block": 1}},
    "12": {"class_type": "SamplerCustomAdvanced", "inputs": {
        "noise": ["10", 0], "guider": ["8", 0], "sampler": ["11", 0], "sigmas": ["9", 0], "latent_image": ["7", 1]}},
    "13": {"class_type": "VAEDecode", "inputs": {"samples": ["12", 0], "vae": ["3", 0]}},
    "14": {"class_type": "CreateVideo", "inputs": {"images": ["13", 0], "fps": 16}},
    "15": {"class_type": "SaveVideo",
           "inputs": {"video": ["14", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"}},
}  # fmt: skip


def test_comfyuis_template_runs_and_nothing_goes_round_the_layer(
    wan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On files as they are named there; the network with the names of Self Forcing's checkpoints."""
    from PIL import Image

    from pipegraph.kernels.audit import strict

    models = tmp_path / "models"
    network = tiny.to_original(load_file(wan / "transformer/diffusion_pytorch_model.safetensors"))
    weights = {
        "diffusion_models/causal_forcing-framewise": {f"model.{name}": tensor for name, tensor in network.items()},
        "vae/wan_2.1_vae": tiny.to_original_vae(load_file(wan / "vae/diffusion_pytorch_model.safetensors")),
        "text_encoders/umt5_xxl_fp8_e4m3fn_scaled": load_file(wan / "text_encoder/model.safetensors"),
    }
    told = {
        "config": json.dumps(
            {n: json.loads((wan / n / "config.json").read_text()) for n in ("transformer", "text_encoder")}
        )
    }
    for name, tensors in weights.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, models / f"{name}.safetensors", told if "vae" not in name else None)
    (models / "tokenizers").mkdir()
    (models / "tokenizers/umt5xxl").symlink_to(wan / "tokenizer")
    (models / "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.json").write_text((wan / "card.json").read_text())
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    picture = tmp_path / "first.png"
    Image.new("RGB", (32, 48), (200, 40, 40)).save(picture)
    graph = json.loads(json.dumps(GRAPH))
    graph["6"]["inputs"]["image"] = str(picture)
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path, allow=[picture]).run()
    assert seen.attention > 10 and seen.linear > 100
    [path] = result.files
    assert read_video(path)[0].frames.count == 13
    report = result.record["notes"]["12"]["sampling"]
    assert (report["sampler"], report["model_calls"]) == ("ar_video", 1 + 3 * 4 + 2)
