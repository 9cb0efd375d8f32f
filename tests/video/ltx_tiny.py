"""Tiny LTX-Video pipelines of random weights, as folders and as the original's single files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipegraph.models import paths

from .tiny import TOKENS

VAE: dict[str, dict[str, Any]] = {
    "0.9.0": {"block_out_channels": (4, 8, 16, 16), "decoder_block_out_channels": (4, 8, 16, 16)},
    "0.9.1": {
        "block_out_channels": (4, 8, 16, 16),
        "decoder_block_out_channels": (8, 16, 32),
        "decoder_layers_per_block": (1, 2, 1, 2),
        "decoder_spatio_temporal_scaling": (True, True, True),
        "decoder_inject_noise": (True, True, True, False),
        "upsample_residual": (True, True, True),
        "upsample_factor": (2, 2, 2),
        "timestep_conditioning": True,
    },
    "0.9.5": {
        "block_out_channels": (4, 8, 16, 16, 16),
        "decoder_block_out_channels": (8, 16, 32),
        "down_block_types": ("LTXVideo095DownBlock3D",) * 4,
        "layers_per_block": (1, 1, 1, 1, 1),
        "spatio_temporal_scaling": (True,) * 4,
        "downsample_type": ("spatial", "temporal", "spatiotemporal", "spatiotemporal"),
        "decoder_layers_per_block": (1, 1, 1, 2),
        "decoder_spatio_temporal_scaling": (True, True, True),
        "decoder_inject_noise": (False,) * 4,
        "upsample_residual": (True, True, True),
        "upsample_factor": (2, 2, 2),
        "timestep_conditioning": True,
        "spatial_compression_ratio": 32,
        "temporal_compression_ratio": 8,
    },
}
"""Kinds of autoencoders by version, in small."""


def transformer(**changes: Any) -> nn.Module:
    from diffusers import LTXVideoTransformer3DModel

    config: dict[str, Any] = dict(
        num_attention_heads=2,
        attention_head_dim=18,
        cross_attention_dim=36,
        num_layers=2,
        caption_channels=32,
    )
    return LTXVideoTransformer3DModel(**(config | changes))  # type: ignore[no-any-return]


def autoencoder(version: str = "0.9.0") -> nn.Module:
    from diffusers import AutoencoderKLLTXVideo

    config: dict[str, Any] = dict(layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(2, 1, 1, 1, 1))
    made: nn.Module = AutoencoderKLLTXVideo(**(config | VAE[version]))
    with torch.no_grad():
        made.latents_mean.normal_(std=0.3)  # type: ignore[operator]
        made.latents_std.uniform_(0.5, 1.5)  # type: ignore[operator]
        for name, p in made.named_parameters():
            if "per_channel_scale" in name:
                p.normal_(std=0.3)
    return made


def make(folder: Path, pipeline: str = "LTXPipeline", version: str = "0.9.0") -> None:
    """Write a random pipeline in diffusers layout, with a shipped word-level tokenizer."""
    import diffusers
    from transformers import AutoTokenizer, T5Config, T5EncoderModel

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(paths.EMBEDDED / "flux-tiny" / "tokenizer_2")
    text = T5EncoderModel(
        T5Config(
            vocab_size=len(tokenizer),
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
        )
    )
    network = transformer()
    with torch.no_grad():  # text and time must matter
        for name, p in network.named_parameters():
            if "scale_shift_table" in name or name.startswith(("time_embed", "caption_projection")):
                p.normal_(std=0.2)
    # 0.9.5's pipeline goes by a table of its own; the others shift by the size.
    told = (
        {}
        if pipeline == "LTXConditionPipeline"
        else dict(
            use_dynamic_shifting=True,
            base_shift=0.95,
            max_shift=2.05,
            base_image_seq_len=1024,
            max_image_seq_len=4096,
            shift_terminal=0.1,
        )
    )
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(**told)
    getattr(diffusers, pipeline)(
        tokenizer=tokenizer, text_encoder=text, vae=autoencoder(version), scheduler=scheduler, transformer=network
    ).save_pretrained(folder)
    (folder / "card.json").write_text(json.dumps({"text_tokens": TOKENS}))


def to_original(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """diffusers' LTX weights in the original layout, written down independently of the loader's tables."""
    out = {}
    for name, tensor in net.items():
        new = name.replace("proj_in", "patchify_proj").replace("time_embed.", "adaln_single.")
        out[new.replace("norm_q", "q_norm").replace("norm_k", "k_norm")] = tensor.contiguous()
    return out


_DOWN = (
    "0",
    "0.downsamplers.0",
    "0.conv_out",
    "1",
    "1.downsamplers.0",
    "1.conv_out",
    "2",
    "2.downsamplers.0",
    "3",
    "mid",
)
_DOWN_5 = (*(f"{i}{part}" for i in range(4) for part in ("", ".downsamplers.0")), "mid")
_UP = ("mid", "0", "1.upsamplers.0", "1", "2.conv_in", "2.upsamplers.0", "2", "3.conv_in", "3.upsamplers.0", "3")
_UP_1 = ("mid", *(f"{i}{part}" for i in range(3) for part in (".upsamplers.0", "")))
_ROWS = {"0.9.0": (_DOWN, _UP), "0.9.1": (_DOWN, _UP_1), "0.9.5": (_DOWN_5, _UP_1)}
"""The original's rows of blocks in encoder and decoder, by the places that diffusers gives them."""


def to_original_vae(net: dict[str, Tensor], version: str) -> dict[str, Tensor]:
    """diffusers' LTX VAE weights in the original layout, written down independently of the loader's rules."""
    begins = {}
    for side, row in zip(("encoder.down_blocks", "decoder.up_blocks"), _ROWS[version], strict=True):
        for number, place in enumerate(row):
            old = side.partition(".")[0] + ".mid_block." if place == "mid" else f"{side}.{place}."
            begins[old] = f"{side}.{number}."
    out = {}
    for name, tensor in net.items():
        old = max((b for b in begins if name.startswith(b)), key=len, default="")
        new = begins.get(old, "") + name.removeprefix(old).replace("resnets.", "res_blocks.")
        new = new.replace("norm3.", "norm3.norm.").replace("conv_shortcut.conv.", "conv_shortcut.")
        new = new.replace("latents_mean", "per_channel_statistics.mean-of-means")
        new = new.replace("latents_std", "per_channel_statistics.std-of-means")
        new = re.sub(r"^decoder\.time_embedder", "decoder.last_time_embedder", new)
        out[re.sub(r"^decoder\.scale_shift_table", "decoder.last_scale_shift_table", new)] = tensor.contiguous()
    return out


def write_files(folder: Path, models: Path, version: str = "0.9.0") -> None:
    """A pipeline folder as ComfyUI's files, under the names that its templates ask for."""
    network = to_original(load_file(folder / "transformer/diffusion_pytorch_model.safetensors"))
    vae = to_original_vae(load_file(folder / "vae/diffusion_pytorch_model.safetensors"), version)
    vae["per_channel_statistics.mean-of-stds"] = torch.ones(1)  # there, and read by nothing
    whole = {f"model.diffusion_model.{n}": t for n, t in network.items()} | {f"vae.{n}": t for n, t in vae.items()}
    told = {
        "transformer": {"_class_name": "Transformer3DModel", "num_attention_heads": 2, "attention_head_dim": 18},
        "vae": {"_class_name": "CausalVideoAutoencoder", "blocks": [], "causal_decoder": False},
    }
    for name in ("checkpoints", "text_encoders", "tokenizers"):
        (models / name).mkdir(parents=True, exist_ok=True)
    save_file(whole, models / "checkpoints/ltx-video-2b-v0.9.safetensors", {"config": json.dumps(told)})
    save_file(load_file(folder / "text_encoder/model.safetensors"), models / "text_encoders/t5xxl_fp16.safetensors")
    (models / "text_encoders/t5xxl_fp16.json").write_text((folder / "card.json").read_text())
    (models / "tokenizers/t5xxl").symlink_to(folder / "tokenizer")
