"""Our LTX-Video equals diffusers' pipelines: same weights, prompts, noise and noise levels."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_checkpoint, load_text_encoders
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.loading.place import Place
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.nodes.video.ltx import (
    empty_ltxv_latent_video,
    ltxv_conditioning,
    ltxv_img_to_video,
    ltxv_img_to_video_inplace,
    ltxv_scheduler,
)

from ..context import Context
from . import ltx_tiny, tiny
from .conftest import UNASKED
from .test_wan import Given
from .test_wan_pictures import as_pipe

TOLERANCE = 1e-4
STEPS, CFG, FRAMES, FPS = 3, 3.0, 17, 12.5
PROMPT, NEGATIVE = "a red apple on the beach", "blue"
SIZE = (96, 64)
"""Height and width in pixels: no square."""
CPU = Place(torch.device("cpu"), torch.float32)
Load = Callable[..., Any]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """A tiny pipeline of a kind and version."""
    made: dict[tuple[str, str], Path] = {}

    def make(pipeline: str = "LTXPipeline", version: str = "0.9.0") -> Path:
        if (pipeline, version) not in made:
            made[pipeline, version] = tmp_path_factory.mktemp("ltx") / f"{pipeline}-{version}"
            ltx_tiny.make(made[pipeline, version], pipeline, version)
        return made[pipeline, version]

    return make


def noise(frames: int = FRAMES) -> Tensor:
    shape = (1, 128, (frames - 1) // 8 + 1, SIZE[0] // 32, SIZE[1] // 32)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def run(
    model: Model, sides: tuple[Any, Any], start: Tensor, sigmas: Tensor, latent: Any = None, cfg: float = CFG
) -> Tensor:
    """Latents of an Euler run."""
    given: Any = Given(start)
    told = ltxv_conditioning(*sides, FPS)
    latent = {"samples": torch.zeros_like(start)} if latent is None else latent
    steps = sample(Guider(model, told.positive, told.negative, cfg), given, SAMPLERS["euler"], sigmas, latent)
    return finish(steps).samples


def packed(x: Tensor) -> Tensor:
    return x.flatten(2).mT


def reference(pipe: Any, output: str = "latent", sides: Any = None, **options: Any) -> Tensor:
    """What a pipeline makes: latents [1, C, T, h, w], or frames [T, H, W, 3]; of the prompts, or of their states."""
    told: dict[str, Any] = {"prompt": PROMPT, "negative_prompt": NEGATIVE}
    if sides is not None:
        told = {}
        for kind, [[states, extras]] in zip(("prompt", "negative_prompt"), sides, strict=True):
            told |= {f"{kind}_embeds": states, f"{kind}_attention_mask": extras["attention_mask"]}
    given: dict[str, Any] = told | dict(
        height=SIZE[0],
        width=SIZE[1],
        num_frames=FRAMES,
        frame_rate=FPS,
        num_inference_steps=STEPS,
        guidance_scale=CFG,
        max_sequence_length=tiny.TOKENS,
        output_type=output,
        return_dict=False,
    )
    result: Tensor = pipe(**(given | options))[0]
    if output != "latent":
        return result[0].movedim(1, -1)
    return result if result.ndim == 5 else result.mT.reshape(noise().shape)


def texts(clip: Any) -> tuple[Any, Any]:
    return clip.encode(clip.tokenize(PROMPT)), clip.encode(clip.tokenize(NEGATIVE))


def picture(seed: int = 1) -> Tensor:
    return torch.rand(1, *SIZE, 3, generator=torch.Generator().manual_seed(seed))


def test_equals_diffusers(load: Load, pipeline: Load, folder: Load) -> None:
    model, clip, _ = load(folder())
    start, sides = noise(), texts(clip)
    sigmas = ltxv_scheduler(STEPS, latent={"samples": start})
    pipe = pipeline(folder(), "LTXPipeline")
    latents = run(model, sides, start, sigmas)
    expected = reference(pipe, sides=sides, latents=packed(start))
    assert (sigmas - pipe.scheduler.sigmas).abs().max() < 1e-6
    assert (latents - expected).abs().max() < TOLERANCE
    for changed in (
        run(model, (sides[1], sides[0]), start, sigmas),
        run(model, sides, start, sigmas, cfg=2.9),
        run(model, sides, start, sigmas * torch.tensor([1.0, 0.95, 1.0, 1.0])),
    ):
        assert (changed - latents).abs().max() > 10 * TOLERANCE


def test_the_padding_is_not_seen_and_time_is_counted(load: Load, folder: Load) -> None:
    model, clip, _ = load(folder())
    [[states, extras]] = texts(clip)[0]
    x, sigma = noise(), torch.tensor([0.6])

    def asked(states: Tensor, **told: Any) -> Tensor:
        return model.predict(x, sigma, model.prepare([[states, {**extras, **told}]], x))[0]  # type: ignore[no-any-return]

    other = states.clone()
    other[:, ~extras["attention_mask"][0]] += 1
    base = asked(states)
    assert 0 < int(extras["attention_mask"].sum()) < tiny.TOKENS
    assert (asked(other) - base).abs().max() < 1e-6
    assert (asked(states, attention_mask=None) - base).abs().max() > 10 * TOLERANCE
    assert (asked(states, frame_rate=25.0) - base).abs().max() == 0
    assert (asked(states, frame_rate=50.0) - base).abs().max() > 10 * TOLERANCE


@pytest.mark.parametrize("version", list(ltx_tiny.VAE))
def test_frames_equal_diffusers(load: Load, pipeline: Load, folder: Load, version: str) -> None:
    """Decoders of all versions: without time, with time and noise, with the later layers."""
    vae = load(folder(version=version))[2]
    pipe = pipeline(folder(version=version), "LTXPipeline")
    start = noise()
    torch.manual_seed(0)  # of what the blocks add
    told = {"decode_timestep": 0.05, "decode_noise_scale": 0.025, "generator": torch.Generator().manual_seed(0)}
    expected = reference(pipe, "pt", latents=packed(start), num_inference_steps=2, guidance_scale=1.0, **told)
    latents = reference(pipe, latents=packed(start), num_inference_steps=2, guidance_scale=1.0)
    frames = vae.decode(latents)
    assert frames.shape == expected.shape == (FRAMES, *SIZE, 3)
    assert (frames - expected).abs().max() < TOLERANCE
    assert (vae.decode(latents * 1.01) - expected).abs().max() > 10 * TOLERANCE
    clip = torch.rand(FRAMES + 3, *SIZE, 3, generator=torch.Generator().manual_seed(3))
    said: list[str] = []
    z = pipe.vae.encode(clip[:FRAMES].movedim(-1, 0)[None] * 2 - 1).latent_dist.mode()
    z = pipe._normalize_latents(z, pipe.vae.latents_mean, pipe.vae.latents_std)
    assert (vae.encode(clip, said.append) - z).abs().max() < TOLERANCE
    assert said == ["20 frames are encoded as 17: a video has 8n + 1"]


def test_a_first_frame_equals_diffusers(
    load: Load, pipeline: Load, folder: Load, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, clip, vae = load(folder())
    sides = texts(clip)
    made = ltxv_img_to_video(*sides, vae, picture(), context, SIZE[1], SIZE[0], FRAMES)
    start, sigmas = noise(), ltxv_scheduler(STEPS, latent=made.latent)
    latents = run(model, (made.positive, made.negative), start, sigmas, made.latent)
    pipe = pipeline(folder(), "LTXImageToVideoPipeline")
    mean = made.latent["samples"][:, :, :1]
    first = torch.cat([mean, start[:, :, 1:]], 2)
    expected = reference(pipe, sides=sides, image=as_pipe(picture()), latents=packed(first))
    assert torch.equal(latents[:, :, :1], mean)
    assert (latents - expected).abs().max() < TOLERANCE
    z = pipe.vae.encode(picture().movedim(-1, 1)[:, :, None] * 2 - 1).latent_dist.mode()
    assert (mean - pipe._normalize_latents(z, pipe.vae.latents_mean, pipe.vae.latents_std)).abs().max() < TOLERANCE
    empty = empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], FRAMES)
    inplace = ltxv_img_to_video_inplace(vae, picture(), empty, context)
    assert torch.equal(inplace["samples"], made.latent["samples"])
    half = ltxv_img_to_video_inplace(vae, picture(), inplace, context, 0.5)
    softer = run(model, sides, start, sigmas, half)
    assert (softer[:, :, :1] - mean).abs().max() > 10 * TOLERANCE
    assert ltxv_img_to_video_inplace(vae, picture(), inplace, context, bypass=True) is inplace


def test_conditions_of_0_9_5_equal_diffusers(
    load: Load, pipeline: Load, folder: Load, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = folder("LTXConditionPipeline", "0.9.5")
    model, clip, vae = load(where)
    assert model.loaded.network.config.causal_temporal_positioning
    monkeypatch.setattr(
        "diffusers.models.autoencoders.vae.DiagonalGaussianDistribution.sample",
        lambda self, generator=None: self.mode(),
    )
    pipe = pipeline(where, "LTXConditionPipeline")
    options: dict[str, Any] = {"image_cond_noise_scale": 0.0, "timesteps": [1000.0, 700.0, 300.0]}
    options |= {"image": as_pipe(picture()), "frame_index": 0, "strength": 1.0}
    expected = reference(pipe, generator=torch.Generator().manual_seed(7), **options)
    made = ltxv_img_to_video(*texts(clip), vae, picture(), context, SIZE[1], SIZE[0], FRAMES)
    latents = run(model, (made.positive, made.negative), noise(), pipe.scheduler.sigmas, made.latent)
    assert (latents - expected).abs().max() < TOLERANCE


@pytest.mark.parametrize("version", list(ltx_tiny.VAE))
def test_names_of_the_original_are_diffusers_converters(folder: Load, version: str) -> None:
    """The names that the tests write down are those that diffusers' own converters read."""
    from diffusers.loaders import single_file_utils as theirs

    where = folder(version=version)
    network = load_file(where / "transformer/diffusion_pytorch_model.safetensors")
    vae = load_file(where / "vae/diffusion_pytorch_model.safetensors")
    told = {f"model.diffusion_model.{n}": t for n, t in ltx_tiny.to_original(network).items()}
    assert theirs.convert_ltx_transformer_checkpoint_to_diffusers(told).keys() == network.keys()
    told = {f"vae.{n}": t for n, t in ltx_tiny.to_original_vae(vae, version).items()}
    if version == "0.9.5":  # which it knows by this width
        told["vae.encoder.conv_out.conv.weight"] = torch.empty(1, 2048, device="meta")
    assert theirs.convert_ltx_vae_checkpoint_to_diffusers(told).keys() == vae.keys()


@pytest.mark.parametrize("version", list(ltx_tiny.VAE))
def test_single_files_in_the_original_layout(
    load: Load, folder: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    model, clip, vae = load(folder(version=version))
    ltx_tiny.write_files(folder(version=version), tmp_path, version)
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    file_model, no_clip, file_vae = load_checkpoint(checkpoint("ltx-video-2b-v0.9.safetensors"), CPU)
    assert no_clip.remarks(no_clip.tokenize(PROMPT)) == []
    with pytest.raises(ValueError, match="LTX-Video needs the text encoders t5xxl too"):
        no_clip.encode(no_clip.tokenize(PROMPT))
    file_clip = load_text_encoders("ltxv", ["t5xxl_fp16.safetensors"], CPU)
    assert file_vae.latent == vae.latent and file_model.latent == model.latent
    sigmas, start = ltxv_scheduler(STEPS), noise()
    latents = run(file_model, texts(file_clip), start, sigmas)
    assert torch.equal(latents, run(model, texts(clip), start, sigmas))
    assert (file_vae.decode(latents) - vae.decode(latents)).abs().max() < 1e-5


def test_tiles_are_put_where_they_belong(load: Load, folder: Load) -> None:
    """A decoder that sees no neighbours gives the same in tiles, its noise included."""
    vae = load(folder(version="0.9.1"))[2]
    blind = replace(vae, loaded=vae.loaded.with_network(copy.deepcopy(vae.loaded.network)))
    for name, p in blind.loaded.network.decoder.named_parameters():
        if name.endswith("conv.weight") and p.ndim == 5:
            middle = p[..., 1:2, 1:2].clone()
            p.zero_()[..., 1:2, 1:2] = middle
    z = torch.randn(1, 128, 2, 5, 7, generator=torch.Generator().manual_seed(1))
    whole = blind.decode(z)
    assert (finish(blind.decode_tiled_steps(z, 3, 1)) - whole).abs().max() < 1e-5
    assert torch.equal(finish(vae.decode_tiled_steps(z, 64, 8)), vae.decode(z))


TEXT_TO_VIDEO: dict[str, Any] = {  # the nodes of ComfyUI's template ltxv_text_to_video
    "44": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "ltx-video-2b-v0.9.safetensors"}},
    "38": {"class_type": "CLIPLoader",
           "inputs": {"clip_name": "t5xxl_fp16.safetensors", "type": "ltxv", "device": "default"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": NEGATIVE}},
    "69": {"class_type": "LTXVConditioning",
           "inputs": {"positive": ["6", 0], "negative": ["7", 0], "frame_rate": 25}},
    "70": {"class_type": "EmptyLTXVLatentVideo",
           "inputs": {"width": 64, "height": 96, "length": 17, "batch_size": 1}},
    "71": {"class_type": "LTXVScheduler", "inputs": {
        "latent": ["70", 0], "steps": 3, "max_shift": 2.05, "base_shift": 0.95, "stretch": True, "terminal": 0.1}},
    "73": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
    "72": {"class_type": "SamplerCustom", "inputs": {
        "model": ["44", 0], "positive": ["69", 0], "negative": ["69", 1], "sampler": ["73", 0], "sigmas": ["71", 0],
        "latent_image": ["70", 0], "add_noise": True, "noise_seed": 1, "cfg": 3}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["72", 0], "vae": ["44", 2]}},
    "75": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 25}},
    "76": {"class_type": "SaveVideo",
           "inputs": {"video": ["75", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"}},
}  # fmt: skip


def from_image() -> dict[str, Any]:
    """The nodes of ComfyUI's template ltxv_image_to_video."""
    graph: dict[str, Any] = json.loads(json.dumps(TEXT_TO_VIDEO))
    del graph["70"]
    graph["78"] = {"class_type": "LoadImage", "inputs": {"image": "island.png"}}
    graph["77"] = {
        "class_type": "LTXVImgToVideo",
        "inputs": {
            "positive": ["6", 0],
            "negative": ["7", 0],
            "vae": ["44", 2],
            "image": ["78", 0],
            "width": 64,
            "height": 96,
            "length": 17,
            "batch_size": 1,
            "strength": 1,
        },
    }
    graph["69"]["inputs"] |= {"positive": ["77", 0], "negative": ["77", 1]}
    graph["71"]["inputs"]["latent"] = graph["72"]["inputs"]["latent_image"] = ["77", 2]
    return graph


@pytest.fixture
def files(folder: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ComfyUI's model folders with LTX-Video's files, and an input folder with a picture."""
    from PIL import Image

    ltx_tiny.write_files(folder(), tmp_path / "models")
    (tmp_path / "input").mkdir()
    pixels = (picture()[0] * 255).round().to(torch.uint8).numpy()
    Image.fromarray(pixels).save(tmp_path / "input" / "island.png")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path / "input"))
    return tmp_path


@pytest.mark.parametrize("graph", [TEXT_TO_VIDEO, from_image()], ids=["text", "image"])
def test_comfyuis_templates_run_and_nothing_goes_round_the_layer(graph: Any, files: Path) -> None:
    from pipegraph.kernels.audit import strict
    from pipegraph.models.media.video_read import read_video

    with strict(1 << 10) as seen:
        result = pg.load(graph, out=files).run()
    assert seen.attention > 10 and seen.linear > 50
    [path] = result.files
    frames = read_video(path)[0].frames
    assert (path.suffix, frames.count, frames.width, frames.height) == (".mp4", 17, 64, 96)


def test_sizes_of_empty_clips_are_cut_aloud(files: Path, context: Context) -> None:
    graph = json.loads(json.dumps(TEXT_TO_VIDEO))
    graph["70"]["inputs"] |= {"width": 80, "length": 20}
    pg.load(graph, out=files).check()
    latent = empty_ltxv_latent_video(context, 80, 64, 20)["samples"]
    assert latent.shape[2:] == (3, 2, 2)
    assert context.warnings == [
        "width 80 becomes 64: it has to be a multiple of 32",
        "length 20 becomes 17: it has to be 1 plus a multiple of 8",
    ]
