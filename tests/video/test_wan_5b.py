"""Wan 2.2's 5B model: its VAE, a noise level for each token, given first frames; against diffusers' pipelines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_vae
from pipegraph.models.families import FAMILIES
from pipegraph.models.families.wan import WAN_5B
from pipegraph.nodes.video.latent import empty_hunyuan_latent_video
from pipegraph.nodes.video.wan_5b import wan22_image_to_video_latent

from ..context import Context
from . import tiny
from .conftest import UNASKED, frames_of
from .test_wan import CPU, NEGATIVE, PROMPT, TOLERANCE, noise, reference, run, texts
from .test_wan_vision import picture, pil

SIZE = (64, 32)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A pipeline for text alone and one that begins with a picture, of the same weights."""
    base = tmp_path_factory.mktemp("wan5b")
    for name in ("WanPipeline", "WanImageToVideoPipeline"):
        torch.manual_seed(8)
        network, vae = tiny.transformer(in_channels=48, out_channels=48), tiny.residual_autoencoder()
        extra = {"image_encoder": None} if name != "WanPipeline" else {}
        tiny.make(base / name, name, vae=vae, transformer=network, expand_timesteps=True, **extra)
    return base / "WanPipeline", base / "WanImageToVideoPipeline"


def start() -> Tensor:
    return noise(9, channels=48, size=SIZE, downscale=16)


def test_text_to_video_equals_diffusers(load: Any, pipeline: Any, folders: tuple[Path, Path]) -> None:
    model, clip, vae = load(folders[0])
    assert (model.family.id, clip.family.id, model.family.token_times) == (WAN_5B.id, WAN_5B.id, True)
    assert vae.latent == model.latent and vae.latent.downscale == 16 and vae.latent.channels == 48
    latents = run(model, *texts(clip), start())
    assert (latents - reference(pipeline(folders[0]), start(), 9, size=SIZE)).abs().max() < TOLERANCE
    expected = reference(pipeline(folders[0]), start(), 9, output="pt", size=SIZE)
    frames = vae.decode(latents)
    assert frames.shape == expected.shape == (9, *SIZE, 3) and (frames - expected).abs().max() < TOLERANCE


def test_a_given_first_frame_equals_diffusers(
    load: Any, pipeline: Any, folders: tuple[Path, Path], context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It mends broken letters with a package that is not installed.
    monkeypatch.setattr("diffusers.pipelines.wan.pipeline_wan_i2v.prompt_clean", str)
    model, clip, vae = load(folders[1])
    image = picture(1, *SIZE)
    latent = wan22_image_to_video_latent(vae, context, SIZE[1], SIZE[0], 9, 1, image)
    found = run(model, *texts(clip), start(), **latent)
    pipe = pipeline(folders[1], "WanImageToVideoPipeline")
    expected = reference(pipe, start(), 9, size=SIZE, image=image.movedim(-1, 1))
    assert (found - expected).abs().max() < TOLERANCE
    assert (found[:, :, :1] - vae.encode(image)).abs().max() < 1e-5  # kept as it was given
    plain = run(model, *texts(clip), start())
    assert (found - plain)[:, :, 1:].abs().max() > 10 * TOLERANCE
    untold = replace(model, family=replace(model.family, token_times=False))
    assert (run(untold, *texts(clip), start(), **latent) - found).abs().max() > 10 * TOLERANCE


def test_latents_of_given_pictures(load: Any, folders: tuple[Path, Path], context: Context) -> None:
    vae = load(folders[0])[2]
    empty = wan22_image_to_video_latent(vae, context, 64, 32, 13, 2)
    assert empty["samples"].shape == (2, 48, 4, 2, 4) and not empty["samples"].any() and "noise_mask" not in empty
    images = torch.rand(6, 40, 70, 3, generator=torch.Generator().manual_seed(1))
    begun = wan22_image_to_video_latent(vae, context, 64, 32, 13, 2, images)
    assert context.warnings == ["6 frames are encoded as 5: a video has 4n + 1"]
    assert begun["noise_mask"].flatten(3)[0, 0, :, 0].tolist() == [0, 0, 1, 1]
    assert torch.equal(begun["samples"][0], begun["samples"][1])
    assert vae.latent.process_in(begun["samples"])[:, :, 2:].abs().max() < 1e-6
    with pytest.raises(ValueError, match=r"load wan2\.2_vae"):
        wan22_image_to_video_latent(replace(vae, latent=replace(vae.latent, frames=8)), context, 64, 32, 13)


def test_an_empty_latent_for_other_cells_keeps_its_pixels(load: Any, folders: tuple[Path, Path]) -> None:
    model, clip, _ = load(folders[0])
    empty = empty_hunyuan_latent_video(UNASKED, SIZE[1], SIZE[0], 9)
    assert empty["samples"].shape == (1, 16, 3, 8, 4)
    found = run(model, *texts(clip), start(), **empty)
    assert torch.equal(found, run(model, *texts(clip), start()))
    with pytest.raises(ValueError, match="multiples of 32 pixels, the latent is of 48 x 64"):
        run(model, *texts(clip), start(), **empty_hunyuan_latent_video(UNASKED, 48, 64, 9))


def test_the_vae_in_the_original_layout(folders: tuple[Path, Path], tmp_path: Path, load: Any) -> None:
    vae = load(folders[0])[2]
    original = tiny.to_original_vae(load_file(folders[0] / "vae" / tiny.WEIGHTS))
    assert "decoder.upsamples.0.upsamples.2.time_conv.weight" in original
    assert "encoder.downsamples.1.downsamples.0.residual.2.weight" in original
    save_file(original, tmp_path / "wan2.2_vae.safetensors")
    with granted(Access.to(tmp_path)):
        found = load_vae(str(tmp_path / "wan2.2_vae.safetensors"), CPU)
    assert found.latent == vae.latent
    z = start()
    assert torch.equal(found.decode(z), vae.decode(z))


GRAPH: dict[str, Any] = {  # the nodes and files of ComfyUI's template video_wan2_2_5B_ti2v
    "37": {
        "class_type": "UNETLoader",
        "inputs": {"unet_name": "wan2.2_ti2v_5B_fp16.safetensors", "weight_dtype": "default"},
    },
    "38": {
        "class_type": "CLIPLoader",
        "inputs": {"clip_name": "umt5_xxl_fp8_e4m3fn_scaled.safetensors", "type": "wan", "device": "default"},
    },
    "39": {"class_type": "VAELoader", "inputs": {"vae_name": "wan2.2_vae.safetensors"}},
    "48": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["37", 0], "shift": 8}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": NEGATIVE}},
    "55": {
        "class_type": "Wan22ImageToVideoLatent",
        "inputs": {"vae": ["39", 0], "width": 32, "height": 64, "length": 5, "batch_size": 1},
    },
    "3": {
        "class_type": "KSampler",
        "inputs": {
            "model": ["48", 0],
            "positive": ["6", 0],
            "negative": ["7", 0],
            "latent_image": ["55", 0],
            "seed": 1,
            "steps": 2,
            "cfg": 5,
            "sampler_name": "uni_pc",
            "scheduler": "simple",
            "denoise": 1,
        },
    },
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["39", 0]}},
    "57": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 24}},
    "58": {
        "class_type": "SaveVideo",
        "inputs": {"video": ["57", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"},
    },
}


@pytest.mark.parametrize("begins", [False, True])
def test_comfyuis_template_runs_and_nothing_goes_round_the_layer(
    folders: tuple[Path, Path], tmp_path: Path, begins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipegraph.kernels.audit import strict

    tiny.comfyui_files(folders[0], tmp_path / "models", "wan2.2_ti2v_5B_fp16.safetensors", vae="wan2.2_vae.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    graph = json.loads(json.dumps(GRAPH))
    if begins:
        pil(picture(2, 50, 70)).save(tmp_path / "start.png")
        graph["56"] = {"class_type": "LoadImage", "inputs": {"image": "start.png"}}
        graph["55"]["inputs"]["start_image"] = ["56", 0]
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path / "out").run()
    assert seen.attention > 10 and seen.linear > 40
    assert frames_of(result.files).shape == (5, 64, 32, 3)
    graph["55"]["inputs"] |= {"width": 48}
    with pytest.raises(pg.GraphError, match=r"a multiple of 32, e\.g\. 32 or 64"):
        pg.load(graph, out=tmp_path / "out").check()


def test_variants_share_the_text_encoders_of_wan() -> None:
    assert WAN_5B.encoders == FAMILIES["wan"].encoders and WAN_5B.id not in FAMILIES
