"""Our Wan equals diffusers' pipelines: same weights, prompts, noise and noise levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_model, load_text_encoders, load_vae
from pipegraph.models.loading.place import Place
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS

from . import tiny

TOLERANCE = 1e-4
STEPS, CFG = 3, 3.0
CPU = Place(torch.device("cpu"), torch.float32)
PROMPT, NEGATIVE = "a red apple on the beach", "blue"
SIZE = (48, 32)
"""Height and width in pixels: no square."""


class Given:
    """A NOISE of given values."""

    seed, silent = 0, False

    def __init__(self, noise: Tensor) -> None:
        self.noise = noise

    def generate_noise(self, latent: Any) -> Tensor:
        return self.noise


def noise(
    frames: int = 9, batch: int = 1, channels: int = 16, size: tuple[int, int] = SIZE, downscale: int = 8
) -> Tensor:
    shape = (batch, channels, (frames - 1) // 4 + 1, size[0] // downscale, size[1] // downscale)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def run(model: Model, positive: Any, negative: Any, start: Tensor, cfg: float = CFG, **latent: Any) -> Tensor:
    """VAE latents of an Euler run over the sigmas of diffusers' flow scheduler."""
    # diffusers' scheduler shifts its lowest level too before it spreads them.
    lowest = float(model.sampling.sigma(torch.tensor(1.0)))
    times = torch.linspace(1000, 1000 * lowest, STEPS, dtype=torch.float64)
    sigmas = torch.cat([model.sampling.sigma(times), torch.zeros(1, dtype=torch.float64)]).float()
    guider = Guider(model, positive, negative, cfg)
    given: Any = Given(start)
    steps = sample(guider, given, SAMPLERS["euler"], sigmas, {"samples": torch.zeros_like(start), **latent})
    return finish(steps).samples


def reference(
    pipe: Any,
    start: Tensor,
    frames: int,
    output: str = "latent",
    tokens: int = tiny.TOKENS,
    size: tuple[int, int] = SIZE,
    **options: Any,
) -> Tensor:
    """VAE latents, or frames [T, H, W, 3]."""
    result: Tensor = pipe(
        prompt=PROMPT,
        negative_prompt=NEGATIVE,
        height=size[0],
        width=size[1],
        num_frames=frames,
        num_inference_steps=STEPS,
        guidance_scale=CFG,
        max_sequence_length=tokens,
        latents=start,
        output_type=output,
        return_dict=False,
        **options,
    )[0]
    if output != "latent":
        return result[0].movedim(1, -1)
    mean, std = (torch.tensor(pipe.vae.config[k]).view(1, -1, 1, 1, 1) for k in ("latents_mean", "latents_std"))
    return result * std + mean


def texts(clip: Any) -> tuple[Any, Any]:
    return clip.encode(clip.tokenize(PROMPT)), clip.encode(clip.tokenize(NEGATIVE))


def test_equals_diffusers(load: Any, pipeline: Any, wan: Path) -> None:
    model, clip, vae = load(wan)
    start = noise()
    latents = run(model, *texts(clip), start)
    assert (latents - reference(pipeline(wan), start, 9)).abs().max() < TOLERANCE
    frames = vae.decode(latents)
    expected = reference(pipeline(wan), start, 9, output="pt")
    assert frames.shape == expected.shape == (9, *SIZE, 3)
    assert (frames - expected).abs().max() < TOLERANCE


def test_time_text_and_cfg_matter(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    start = noise()
    positive, negative = texts(clip)
    base = run(model, positive, negative, start)
    from pipegraph.models.sampling.model_sampling import Flow

    for changed in (
        run(model, negative, positive, start),
        run(model, positive, negative, start, cfg=2.9),
        run(model.with_sampling(Flow(3.0, multiplier=900)), positive, negative, start),
    ):
        assert (changed - base).abs().max() > 10 * TOLERANCE


def test_a_batch_equals_its_clips_alone(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    start = noise(batch=2)
    both = run(model, *texts(clip), start)
    for i in range(2):
        assert (both[i] - run(model, *texts(clip), start[i : i + 1])[0]).abs().max() < 1e-5


def test_single_files_in_the_original_layout(
    load: Any, wan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, clip, vae = load(wan)
    models = tmp_path / "models"
    weights = {
        "diffusion_models/wan2.1_t2v_1.3B_fp16": tiny.to_original(
            load_file(wan / "transformer/diffusion_pytorch_model.safetensors")
        ),
        "vae/wan_2.1_vae": tiny.to_original_vae(load_file(wan / "vae/diffusion_pytorch_model.safetensors")),
        "text_encoders/umt5_xxl_fp16": load_file(wan / "text_encoder/model.safetensors"),
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
    (models / "text_encoders/umt5_xxl_fp16.json").write_text((wan / "card.json").read_text())
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    file_model = load_model("wan2.1_t2v_1.3B_fp16.safetensors", CPU).with_sampling(model.sampling)
    file_clip = load_text_encoders("wan", ["umt5_xxl_fp16.safetensors"], CPU)
    file_vae = load_vae("wan_2.1_vae.safetensors", CPU)
    assert file_vae.latent == vae.latent
    latents = run(file_model, *texts(file_clip), noise())
    assert torch.equal(latents, run(model, *texts(clip), noise()))
    assert torch.equal(file_vae.decode(latents), vae.decode(latents))


GRAPH: dict[str, Any] = {  # the nodes of ComfyUI's template text_to_video_wan
    "37": {"class_type": "UNETLoader", "inputs": {"unet_name": "", "weight_dtype": "default"}},
    "38": {"class_type": "CLIPLoader", "inputs": {"clip_name": "", "type": "wan", "device": "default"}},
    "39": {"class_type": "VAELoader", "inputs": {"vae_name": ""}},
    "48": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["37", 0], "shift": 8}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": NEGATIVE}},
    "40": {
        "class_type": "EmptyHunyuanLatentVideo",
        "inputs": {"width": 32, "height": 48, "length": 9, "batch_size": 1},
    },
    "3": {
        "class_type": "KSampler",
        "inputs": {
            "model": ["48", 0],
            "positive": ["6", 0],
            "negative": ["7", 0],
            "latent_image": ["40", 0],
            "seed": 1,
            "steps": 3,
            "cfg": 6,
            "sampler_name": "uni_pc",
            "scheduler": "simple",
            "denoise": 1,
        },
    },
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["39", 0]}},
    "49": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 16}},
    "50": {
        "class_type": "SaveVideo",
        "inputs": {"video": ["49", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"},
    },
}


def graph_for(folder: Path, **inputs: Any) -> dict[str, Any]:
    graph = json.loads(json.dumps(GRAPH))
    for node, name in (("37", "unet_name"), ("38", "clip_name"), ("39", "vae_name")):
        graph[node]["inputs"][name] = str(folder)
    graph["40"]["inputs"] |= inputs
    return graph  # type: ignore[no-any-return]


def test_comfyuis_template_runs_and_nothing_goes_round_the_layer(
    wan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipegraph.kernels.audit import strict
    from pipegraph.models.media.video_read import read_video

    with strict(1 << 10) as seen:
        result = pg.load(graph_for(wan), out=tmp_path, allow=[wan]).run()
    assert seen.attention > 10 and seen.linear > 100
    [path] = result.files
    video, _ = read_video(path)
    frames = video.frames
    assert (path.suffix, frames.count, frames.width, frames.height, float(video.fps)) == (".mp4", 9, 32, 48, 16)
    again = pg.load(path, out=tmp_path / "again", allow=[wan]).run()
    assert torch.equal(read_video(again.files[0])[0].images(), video.images())


def test_sizes_that_no_clip_has_are_cut(wan: Path, tmp_path: Path) -> None:
    from pipegraph.models.media.video_read import read_video

    [path] = pg.load(graph_for(wan, width=40, length=10), out=tmp_path, allow=[wan]).run().files
    frames = read_video(path)[0].frames
    assert (frames.count, frames.width) == (9, 32)


def test_latents_of_pictures_are_told_apart(load: Any, wan: Path) -> None:
    model, clip, vae = load(wan)
    one = run(model, *texts(clip), noise(1), samples=torch.zeros(1, 4, 6, 4))  # a picture is a clip of one frame
    assert one.shape == noise(1).shape and len(vae.decode(one)) == 1
    with pytest.raises(ValueError, match=r"\[batch, channels, time, height, width\]"):
        run(model, *texts(clip), torch.zeros(1, 16, 1, 1, 4, 4))


def test_clips_become_latents_and_come_back(load: Any, pipeline: Any, wan: Path) -> None:
    vae = load(wan)[2]
    images = torch.rand(10, *SIZE, 3, generator=torch.Generator().manual_seed(3))
    said: list[str] = []
    z = vae.encode(images, said.append)
    expected = pipeline(wan).vae.encode(images[:9].movedim(-1, 0)[None] * 2 - 1).latent_dist.mode()
    assert said == ["10 frames are encoded as 9: a video has 4n + 1"]
    assert z.shape == (1, 16, 3, 6, 4) and (z - expected).abs().max() < TOLERANCE
