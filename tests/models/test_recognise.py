"""Files that no loader reads are named: well-known models, and files that hold no weights."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from diffusers import AutoencoderKL
from safetensors.torch import save_file

from pipegraph.models.checkpoints.load import load_model, load_vae
from pipegraph.models.checkpoints.parts import part, parts
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.place import Place
from pipegraph.models.loading.recognise import recognise

Shapes = dict[str, tuple[int, ...]]


def file_of(path: Path, shapes: Shapes, metadata: dict[str, str] | None = None) -> Path:
    """A sparse file with tensors of these shapes."""
    table: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, shape in shapes.items():
        end = place + 2 * torch.Size(shape).numel()
        table[name], place = {"dtype": "F16", "shape": list(shape), "data_offsets": [place, end]}, end
    header = json.dumps(table).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + place)
    return path


UNET: dict[str, Any] = dict(block_out_channels=(32, 64, 64, 64), attention_head_dim=8)
XL: dict[str, Any] = dict(
    block_out_channels=(32, 64, 64),
    down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=8,
    addition_embed_type="text_time",
    addition_time_embed_dim=8,
    projection_class_embeddings_input_dim=64,
)
ONE: dict[str, Any] = {"num_layers": 1}
TWO: dict[str, Any] = {"num_layers": 1, "num_single_layers": 1}
HIDREAM: dict[str, Any] = {
    "in_channels": 16,
    "patch_size": 2,
    "caption_channels": [64, 64],
    "llama_layers": [0],
    "axes_dims_rope": [32, 16, 16],
}
HUNYUAN: dict[str, Any] = dict(in_channels=4, patch_size=2, activation_fn="gelu", text_len=4, text_len_t5=4)
CASCADE: dict[str, Any] = dict(
    block_out_channels=(64, 64),
    down_num_layers_per_block=(1, 1),
    up_num_layers_per_block=(1, 1),
    down_blocks_repeat_mappers=(1, 1),
    up_blocks_repeat_mappers=(1, 1),
    num_attention_heads=(2, 2),
    clip_text_in_channels=32,
    conditioning_dim=64,
)
CONTROL_XL = {k: v for k, v in XL.items() if k != "up_block_types"} | {"cross_attention_dim": 2048}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "Stable Diffusion 1.5": ("UNet2DConditionModel", UNET | {"cross_attention_dim": 768}),
    "Stable Diffusion 2": ("UNet2DConditionModel", UNET | {"cross_attention_dim": 1024}),
    "Stable Diffusion 3": ("SD3Transformer2DModel", ONE),
    "AuraFlow": ("AuraFlowTransformer2DModel", {"num_mmdit_layers": 1, "num_single_dit_layers": 1}),
    "HunyuanDiT": ("HunyuanDiT2DModel", {"num_layers": 2} | HUNYUAN),
    "PixArt": ("PixArtTransformer2DModel", ONE | {"caption_channels": 32}),
    "Sana": ("SanaTransformer2DModel", ONE),
    "Chroma": ("ChromaTransformer2DModel", TWO),
    "HiDream-I1": ("HiDreamImageTransformer2DModel", TWO | HIDREAM),
    "FLUX.2": ("Flux2Transformer2DModel", TWO),
    "Lumina 2": ("Lumina2Transformer2DModel", ONE),
    "Z-Image": ("ZImageTransformer2DModel", {"n_layers": 1, "n_refiner_layers": 1}),
    "Qwen-Image": ("QwenImageTransformer2DModel", ONE),
    "CogView 4": ("CogView4Transformer2DModel", ONE),
    "CogVideoX": ("CogVideoXTransformer3DModel", ONE),
    "Mochi": ("MochiTransformer3DModel", {"num_layers": 2}),
    "Stable Cascade": ("StableCascadeUNet", CASCADE),
    "ControlNet for SDXL": ("ControlNetModel", CONTROL_XL),
    "ControlNet for Stable Diffusion": ("ControlNetModel", UNET | {"cross_attention_dim": 768}),
    "ControlNet for SD3": ("SD3ControlNetModel", ONE),
    "T2I-Adapter": ("T2IAdapter", {}),
    "AnimateDiff": ("MotionAdapter", {"block_out_channels": (32, 32), "motion_layers_per_block": 1}),
    "TAESD": ("AutoencoderTiny", {}),
    "FLUX.2's VAE": ("AutoencoderKLFlux2", {"block_out_channels": (32, 32, 32, 32)}),
}
"""Networks of diffusers by what they are called: their names are not ours."""


@pytest.mark.filterwarnings("ignore:`FluxPosEmbed` is deprecated")
@pytest.mark.parametrize("title", NETWORKS)
def test_networks_in_diffusers_layout(tmp_path: Path, title: str) -> None:
    name, config = NETWORKS[title]
    with torch.device("meta"):
        network: Any = getattr(diffusers, name)(**config)
    file = file_of(tmp_path / "x.safetensors", {n: tuple(t.shape) for n, t in network.state_dict().items()})
    with pytest.raises(LoadError, match=rf"x\.safetensors is .*{title}.*, which does not run here \(yet\)"):
        parts(file)


def unet(width: int, channels: int = 4) -> Shapes:
    return {
        "input_blocks.0.0.weight": (320, channels, 3, 3),
        "input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight": (320, width),
        "time_embed.0.weight": (1280, 320),
    }


def xl(width: int, label: int, channels: int = 4) -> Shapes:
    return {
        "input_blocks.0.0.weight": (320, channels, 3, 3),
        "label_emb.0.0.weight": (1280, label),
        "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight": (640, width),
    }


VAE: Shapes = {
    "first_stage_model.encoder.conv_in.weight": (128, 3, 3, 3),
    "first_stage_model.decoder.conv_in.weight": (512, 4, 3, 3),
}
ONES = (1, 1)
JOINT, DOUBLE = "joint_blocks.0.context_block.attn.qkv.weight", "double_blocks.0.img_attn.qkv.weight"
REFINER, CAPTION = "context_refiner.0.attention.qkv.weight", "cap_embedder.1.weight"
CLIP = "text_model.encoder.layers.31.mlp.fc1.weight"
FILES: dict[str, Shapes] = {
    "Stable Diffusion 1.5, ": unet(768),
    "Stable Diffusion 1.5 for inpainting": unet(768, 9),
    "InstructPix2Pix": unet(768, 8),
    "Stable Diffusion 2, ": unet(1024),
    "the SDXL refiner": xl(1280, 2560),
    "SDXL for inpainting": xl(2048, 2816, 9),
    "Stable Diffusion 3, ": {JOINT: (4608, 1536)},
    "Stable Diffusion 3.5 large": {JOINT: ONES, "joint_blocks.37.x_block.mlp.fc1.weight": ONES},
    "Chroma": {"distilled_guidance_layer.in_proj.weight": ONES, DOUBLE: ONES, "img_in.weight": (3072, 64)},
    "FLUX.1 Fill": {DOUBLE: ONES, "img_in.weight": (3072, 384)},
    "Z-Image": {CAPTION: (3840, 2560), "cap_pad_token": (1, 3840), REFINER: ONES},
    "Lumina 2": {CAPTION: (2304, 2304), REFINER: ONES},
    "a ControlNet for Stable Diffusion 1 or 2": {
        "control_model.input_hint_block.0.weight": ONES,
        "control_model.input_blocks.0.0.weight": ONES,
    },
    "an upscaler": {"model.0.weight": (64, 3, 3, 3), "model.1.sub.0.RDB1.conv1.0.weight": (32, 64, 3, 3)},
    "a textual inversion": {"emb_params": (4, 768)},
    "a LoRA, which is added to a model by LoraLoader": {"lora_unet_down_blocks_0.lora_down.weight": (4, 320)},
    "an IP-Adapter": {"image_proj.proj.weight": ONES, "ip_adapter.1.to_k_ip.weight": ONES},
    "an AnimateDiff motion module": {"down_blocks.0.motion_modules.0.temporal_transformer.norm.weight": (320,)},
    "CLIP-G": {"text_model.embeddings.token_embedding.weight": (49408, 1280), CLIP: (5120, 1280)},
}


@pytest.mark.parametrize("title", FILES)
@pytest.mark.parametrize("prefix", ["", "model.diffusion_model."])
def test_files_in_their_original_layout(tmp_path: Path, title: str, prefix: str) -> None:
    shapes = {prefix + name: shape for name, shape in FILES[title].items()}
    if "CLIP" in title and prefix:
        return
    with pytest.raises(LoadError, match=rf"x\.safetensors is .*{title}"):
        parts(file_of(tmp_path / "x.safetensors", shapes | (VAE if "Diffusion" in title or "SD" in title else {})))


def test_folders_in_diffusers_layout(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    (tmp_path / "model_index.json").write_text(
        json.dumps({"_class_name": "StableDiffusionXLPipeline", "unet": ["diffusers", "UNet2DConditionModel"]})
    )
    (tmp_path / "unet" / "config.json").write_text('{"_class_name": "UNet2DConditionModel"}')
    with pytest.raises(LoadError, match=r"StableDiffusionXLPipeline does not run here \(yet\)"):
        part(tmp_path, "transformer")
    with pytest.raises(LoadError, match=r"UNet2DConditionModel does not run here \(yet\)"):
        part(tmp_path / "unet", "transformer")


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.safetensors", b"x" * 20)


OTHERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "empty": (r"is empty \(0 bytes\)", lambda p: p.touch()),
    "Git LFS": (
        "is a pointer of Git LFS",
        lambda p: p.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 23802932552\n"),
    ),
    "a page": ("is an HTML page, not the file", lambda p: p.write_text("\n<!DOCTYPE html><html><head>" + "x" * 99)),
    "an answer": ("is a JSON text, perhaps the error", lambda p: p.write_text('{"error": "Invalid credentials"}')),
    "XML": ("is an XML text", lambda p: p.write_text("<?xml version='1.0'?><Error><Code>Denied</Code></Error>")),
    "a ZIP": ("is a ZIP archive", write_zip),
    "gzip": ("is packed by gzip", lambda p: p.write_bytes(gzip.compress(b"x" * 1000))),
    "a picture": ("is a picture", lambda p: p.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))),
    "a cut file": ("is no safetensors file, or it is cut off", lambda p: p.write_bytes(bytes(range(99)))),
}


@pytest.mark.parametrize("suffix", [".safetensors", ".gguf"])
@pytest.mark.parametrize("kind", OTHERS)
def test_files_without_weights(tmp_path: Path, kind: str, suffix: str) -> None:
    says, write = OTHERS[kind]
    file = tmp_path / f"x{suffix}"
    write(file)
    with pytest.raises(LoadError, match=rf"x\{suffix} {says}"):
        read_header(file)


@pytest.mark.parametrize("length", [640, 0x4B50, 35615, 123])
def test_a_header_whose_length_looks_like_another_file(tmp_path: Path, length: int) -> None:
    """The length of the header comes first: 640 is how a pickle begins, 35615 a gzip file."""
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    file = tmp_path / "x.safetensors"
    file.write_bytes(length.to_bytes(8, "little") + header.ljust(length) + bytes(4))
    assert [*read_header(file).tensors] == ["a"]


PLAIN = {"use_quant_conv": False, "use_post_quant_conv": False}


def vae(channels: int, **config: Any) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=channels,
        norm_num_groups=8,
        **config,
    )


@pytest.mark.parametrize(
    ("channels", "config", "scale", "shift"),
    [
        (4, {}, 0.18215, 0.0),  # SD 1.5
        (4, {"scaling_factor": 0.13025}, 0.13025, 0.0),  # SDXL
        (16, {"scaling_factor": 1.5305, "shift_factor": 0.0609} | PLAIN, 1.5305, 0.0609),  # SD3
        (16, {"scaling_factor": 0.3611, "shift_factor": 0.1159} | PLAIN, 0.3611, 0.1159),  # FLUX.1
    ],
)
def test_the_scale_of_latents_is_the_files_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, channels: int, config: dict[str, Any], scale: float, shift: float
) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    network, place = vae(channels, **config), Place(torch.device("cpu"), torch.float32)
    network.save_pretrained(tmp_path / "vae" / "folder")
    tensors = {n: t.contiguous() for n, t in network.state_dict().items()}
    save_file(tensors, tmp_path / "vae" / "plain.safetensors")
    save_file(tensors, tmp_path / "vae" / "told.safetensors", {"config": json.dumps({"vae": dict(network.config)})})
    for name in ("folder", "told.safetensors"):
        latent = load_vae(name, place).latent
        assert (latent.channels, latent.scale, latent.shift, latent.downscale) == (channels, scale, shift, 8)
    if channels == 4:
        latent = load_vae("plain.safetensors", place).latent
        assert latent.scale is None and latent.channels == 4
        with pytest.raises(ValueError, match="nothing says how the latents of this VAE are scaled"):
            latent.process_in(torch.zeros(1, 4, 2, 2))
    else:  # SD3's cannot be told from FLUX.1's
        latent = load_vae("plain.safetensors", place).latent
        assert (latent.scale, latent.shift) == (0.3611, 0.1159)


def test_a_network_alone_knows_the_latents_that_its_file_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bfl: dict[str, torch.Tensor], config: dict[str, str]
) -> None:
    """Sampling with UNETLoader scales latents by the `vae` part of the file's own config."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    (tmp_path / "diffusion_models").mkdir()
    place = Place(torch.device("cpu"), torch.float32)
    save_file(dict(bfl), tmp_path / "diffusion_models" / "x.safetensors", config)
    latent = load_model("x.safetensors", place).latent  # the shipped model's
    assert (latent.scale, latent.shift, latent.channels) == (1.0, 0.0, 16)
    told = json.loads(config["config"])
    told["vae"] |= {"scaling_factor": 1.5305, "shift_factor": 0.0609}
    save_file(dict(bfl), tmp_path / "diffusion_models" / "x.safetensors", {"config": json.dumps(told)})
    latent = load_model("x.safetensors", place).latent
    assert (latent.scale, latent.shift, latent.patch) == (1.5305, 0.0609, 2)
    del told["vae"]
    save_file(dict(bfl), tmp_path / "diffusion_models" / "x.safetensors", {"config": json.dumps(told)})
    latent = load_model("x.safetensors", place).latent  # FLUX.1's
    assert (latent.scale, latent.shift) == (0.3611, 0.1159)


def test_nothing_is_recognised_in_what_is_not_known() -> None:
    assert recognise({"a.weight": (3,), "model.layers.0.self_attn.q_proj.weight": (4, 4)}) == ""
