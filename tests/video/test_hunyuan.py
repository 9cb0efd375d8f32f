"""Our HunyuanVideo equals diffusers' pipeline: same weights, prompts, noise and noise levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_model, load_vae
from pipegraph.nodes.text.conditioning import flux_guidance

from . import hunyuan_tiny as tiny
from .test_hunyuan_15 import CPU, TOLERANCE, run, texts

PROMPT, NEGATIVE = "a red apple on the beach", "blue"
SIZE = (48, 32)
GUIDANCE = 4.0


@pytest.fixture(scope="session")
def hunyuan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hunyuan") / "t2v"
    tiny.make_1(folder)
    return folder


def noise(frames: int = 9) -> Tensor:
    shape = (1, 16, (frames - 1) // 4 + 1, SIZE[0] // 8, SIZE[1] // 8)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def test_equals_diffusers(load: Any, pipeline: Any, hunyuan: Path) -> None:
    model, clip, _ = load(hunyuan)
    pipe = pipeline(hunyuan, "HunyuanVideoPipeline")
    expected = (
        pipe(
            prompt=PROMPT,
            negative_prompt=NEGATIVE,
            true_cfg_scale=3.0,
            guidance_scale=GUIDANCE,
            height=SIZE[0],
            width=SIZE[1],
            num_frames=9,
            num_inference_steps=3,
            latents=noise(),
            output_type="latent",
            return_dict=False,
        )[0]
        / pipe.vae.config.scaling_factor
    )
    sigmas = pipe.scheduler.sigmas
    positive, negative = texts(clip, PROMPT, NEGATIVE)
    states, mask = pipe.encode_prompt(PROMPT)[::2]
    assert (positive[0][0][0] - states[0][mask[0].bool()]).abs().max() < 1e-5

    def ours(first: Any = positive, guidance: float = GUIDANCE) -> Tensor:
        return run(model, flux_guidance(first, guidance), flux_guidance(negative, guidance), noise(), sigmas)

    latents = ours()
    assert (latents - expected).abs().max() < TOLERANCE
    other = texts(clip, PROMPT.replace("red", "green"))[0]
    pooled = [[positive[0][0], other[0][1]]]
    for changed in (ours(other), ours(pooled), ours(guidance=GUIDANCE + 1)):
        assert (changed - latents).abs().max() > 10 * TOLERANCE


def test_clips_are_decoded_in_tiles_of_time(load: Any, pipeline: Any, hunyuan: Path) -> None:
    vae, pipe = load(hunyuan)[2], pipeline(hunyuan, "HunyuanVideoPipeline")

    def theirs(z: Tensor) -> Tensor:
        with torch.no_grad():
            pixels: Tensor = pipe.vae.decode(z, return_dict=False)[0]
        return ((pixels + 1) / 2).clamp(0, 1)[0].movedim(0, -1)

    for frames in (1, 17, 29):  # one tile, two, and three, of which the last is short
        z = noise(frames)
        found = vae.decode(z)
        assert found.shape == (frames, *SIZE, 3)
        assert (found - theirs(z)).abs().max() < TOLERANCE
    z = noise(29)
    whole = finish(vae.in_time(64, 8).decode_tiled_steps(z, 64, 8))
    pipe.vae.use_framewise_decoding = False
    try:
        assert (whole - theirs(z)).abs().max() < TOLERANCE
    finally:
        pipe.vae.use_framewise_decoding = True
    assert finish(vae.in_time(16, 8).decode_tiled_steps(z, 4, 2)).shape == whole.shape
    images = torch.rand(9, *SIZE, 3, generator=torch.Generator().manual_seed(3))
    expected = pipe.vae.encode(images.movedim(-1, 0)[None] * 2 - 1).latent_dist.mode()
    assert (vae.encode(images) - expected).abs().max() < TOLERANCE


GRAPH: dict[str, Any] = {  # the nodes of ComfyUI's template hunyuan_video_text_to_video
    "10": {"class_type": "VAELoader", "inputs": {"vae_name": "hunyuan_video_vae_bf16.safetensors"}},
    "11": {"class_type": "DualCLIPLoader",
           "inputs": {"clip_name1": "", "clip_name2": "", "type": "hunyuan_video", "device": "default"}},
    "12": {"class_type": "UNETLoader",
           "inputs": {"unet_name": "hunyuan_video_t2v_720p_bf16.safetensors", "weight_dtype": "default"}},
    "67": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["12", 0], "shift": 7}},
    "44": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["11", 0], "text": PROMPT}},
    "26": {"class_type": "FluxGuidance", "inputs": {"conditioning": ["44", 0], "guidance": 6}},
    "22": {"class_type": "BasicGuider", "inputs": {"model": ["67", 0], "conditioning": ["26", 0]}},
    "16": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
    "17": {"class_type": "BasicScheduler",
           "inputs": {"model": ["12", 0], "scheduler": "simple", "steps": 2, "denoise": 1}},
    "25": {"class_type": "RandomNoise", "inputs": {"noise_seed": 1}},
    "45": {"class_type": "EmptyHunyuanLatentVideo",
           "inputs": {"width": 32, "height": 48, "length": 21, "batch_size": 1}},
    "13": {"class_type": "SamplerCustomAdvanced", "inputs": {
        "noise": ["25", 0], "guider": ["22", 0], "sampler": ["16", 0], "sigmas": ["17", 0], "latent_image": ["45", 0]}},
    "73": {"class_type": "VAEDecodeTiled", "inputs": {
        "samples": ["13", 0], "vae": ["10", 0], "tile_size": 256, "overlap": 64, "temporal_size": 64,
        "temporal_overlap": 8}},
    "78": {"class_type": "CreateVideo", "inputs": {"images": ["73", 0], "fps": 24}},
    "79": {"class_type": "SaveVideo",
           "inputs": {"video": ["78", 0], "filename_prefix": "video/hunyuan", "format": "auto", "codec": "h264"}},
}  # fmt: skip


def test_comfyuis_template_runs_on_files_in_the_original_layout(
    load: Any, hunyuan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing goes round the kernel layer, and the files hold what the folder does."""
    from pipegraph.kernels.audit import strict
    from pipegraph.models.media.video_read import read_video

    model, clip, vae = load(hunyuan)
    models = tmp_path / "models"
    network = tiny.to_original_1(load_file(hunyuan / "transformer/diffusion_pytorch_model.safetensors"))
    weights = {
        "diffusion_models/hunyuan_video_t2v_720p_bf16": network,
        "diffusion_models/comfyui": tiny.comfyui_spelling(network),
        "vae/hunyuan_video_vae_bf16": load_file(hunyuan / "vae/diffusion_pytorch_model.safetensors"),
    }
    for name, tensors in weights.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in tensors.items()}, models / f"{name}.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    positive, negative = texts(clip, PROMPT, NEGATIVE)
    sigmas = torch.tensor([1.0, 0.7, 0.0])
    expected = run(model, positive, negative, noise(), sigmas)
    for name in ("hunyuan_video_t2v_720p_bf16", "comfyui"):
        found = load_model(f"{name}.safetensors", CPU)
        assert (run(found, positive, negative, noise(), sigmas) - expected).abs().max() < 1e-5
    file_vae = load_vae("hunyuan_video_vae_bf16.safetensors", CPU)
    assert file_vae.latent == vae.latent and (file_vae.decode(noise(5)) - vae.decode(noise(5))).abs().max() < 1e-5
    graph = json.loads(json.dumps(GRAPH))
    graph["11"]["inputs"] |= {
        "clip_name1": f"{hunyuan}/text_encoder_2",
        "clip_name2": f"{hunyuan}/text_encoder",
    }
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path, allow=[hunyuan]).run()
    assert seen.attention > 10 and seen.linear > 50
    frames = read_video(result.files[0])[0].frames
    assert (frames.count, frames.width, frames.height) == (21, 32, 48)


def test_loras_name_every_linear_layer_as_the_original_does() -> None:
    """Rows of an original weight that a LoRA would change are those of the layers in diffusers; of both versions."""
    from pipegraph.models.adapters.lora_targets import targets
    from pipegraph.models.families import FAMILIES

    for network, rename, family in (
        (tiny.transformer_1(), tiny.to_original_1, FAMILIES["hunyuan_video"]),
        (tiny.transformer_15(), tiny.to_original_15, FAMILIES["hunyuan_video_15"]),
    ):
        known, layers = targets(network, family), {n: m for n, m in network.named_modules() if isinstance(m, nn.Linear)}
        original = rename({f"{n}.weight": m.weight.detach() for n, m in layers.items()})
        for spelled in (original, tiny.comfyui_spelling(original)):
            reached = set()
            for name, weight in spelled.items():
                for layer, rows in known[name.removesuffix(".weight").replace(".", "_")]:
                    assert torch.equal(torch.cat([weight[r] for r in rows]), layers[layer].weight)
                    reached.add(layer)
            assert reached == layers.keys()


def test_what_does_not_fit_is_said(load: Any, hunyuan: Path) -> None:
    model, clip, _ = load(hunyuan)
    (states, extras), *_ = texts(clip)[0]
    with pytest.raises(ValueError, match="use DualCLIPLoader"):
        model.prepare([[states, {}]], noise())
    with pytest.raises(ValueError, match="the pooled vector has 8 numbers, this network reads 64"):
        model.prepare([[states, {"pooled_output": torch.zeros(1, 8)}]], noise())
    with pytest.raises(ValueError, match="HunyuanVideo image to video"):
        model.prepare([[states, extras]], torch.zeros(1, 33, 1, 4, 4))
