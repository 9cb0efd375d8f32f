"""Tiny Wan pipelines of random weights, as folders and as the original's single files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipegraph.models import paths

WEIGHTS = "diffusion_pytorch_model.safetensors"
TOKENS = 16
"""Length of prompts in these pipelines."""


def transformer(**changes: Any) -> nn.Module:
    from diffusers import WanTransformer3DModel

    config: dict[str, Any] = dict(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=16,
        out_channels=16,
        text_dim=32,
        freq_dim=16,
        ffn_dim=48,
        num_layers=2,
        cross_attn_norm=True,
        rope_max_seq_len=32,
    )
    return WanTransformer3DModel(**(config | changes))  # type: ignore[no-any-return]


def autoencoder(**changes: Any) -> nn.Module:
    from diffusers import AutoencoderKLWan

    config: dict[str, Any] = dict(base_dim=4, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1)
    return AutoencoderKLWan(**(config | changes))  # type: ignore[no-any-return]


def make(folder: Path, pipeline: str = "WanPipeline", vae: Any = None, **parts: Any) -> None:
    """Write a random pipeline in diffusers layout, with a shipped word-level tokenizer."""
    import diffusers
    from transformers import AutoTokenizer, UMT5Config, UMT5EncoderModel

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(paths.EMBEDDED / "flux-tiny" / "tokenizer_2")
    text = UMT5EncoderModel(
        UMT5Config(
            vocab_size=len(tokenizer),
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
            feed_forward_proj="gated-gelu",
        )
    )
    given = {"transformer": transformer(), **parts}
    with torch.no_grad():  # text and time must matter
        for network in (p for p in given.values() if isinstance(p, nn.Module)):
            for name, p in network.named_parameters():
                if "scale_shift_table" in name or name.startswith("condition_embedder"):
                    p.normal_(std=0.5 if p.ndim == 3 else 0.2)
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    getattr(diffusers, pipeline)(
        tokenizer=tokenizer, text_encoder=text, vae=vae or autoencoder(), scheduler=scheduler, **given
    ).save_pretrained(folder)
    (folder / "card.json").write_text(json.dumps({"text_tokens": TOKENS}))


def comfyui_files(folder: Path, models: Path, *networks: str, vae: str = "wan_2.1_vae.safetensors") -> None:
    """The networks of a pipeline as ComfyUI's files in a ``models`` folder, its diffusion networks by these names."""
    weights = {
        f"diffusion_models/{name}": to_original(load_file(folder / component / WEIGHTS))
        for name, component in zip(networks, ("transformer", "transformer_2"), strict=False)
    }
    weights |= {
        f"vae/{vae}": to_original_vae(load_file(folder / "vae" / WEIGHTS)),
        "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.safetensors": load_file(folder / "text_encoder/model.safetensors"),
    }
    parts = ("transformer", "text_encoder")
    told = {"config": json.dumps({n: json.loads((folder / n / "config.json").read_text()) for n in parts})}
    for name, tensors in weights.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, models / name, None if name.startswith("vae") else told)
    (models / "tokenizers").mkdir()
    (models / "tokenizers/umt5xxl").symlink_to(folder / "tokenizer")
    (models / "text_encoders/umt5_xxl_fp8_e4m3fn_scaled.json").write_text((folder / "card.json").read_text())


def to_original(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """diffusers' Wan weights in the original layout, written down independently of the loader's tables."""
    out = {}
    for name, tensor in net.items():
        new = name.replace("condition_embedder.time_embedder.linear_1", "time_embedding.0")
        new = new.replace("condition_embedder.time_embedder.linear_2", "time_embedding.2")
        new = new.replace("condition_embedder.text_embedder.linear_1", "text_embedding.0")
        new = new.replace("condition_embedder.text_embedder.linear_2", "text_embedding.2")
        new = new.replace("condition_embedder.time_proj", "time_projection.1")
        new = new.replace("condition_embedder.image_embedder.norm1", "img_emb.proj.0")
        new = new.replace("condition_embedder.image_embedder.ff.net.0.proj", "img_emb.proj.1")
        new = new.replace("condition_embedder.image_embedder.ff.net.2", "img_emb.proj.3")
        new = new.replace("condition_embedder.image_embedder.norm2", "img_emb.proj.4")
        new = new.replace("condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos")
        new = re.sub(r"^proj_out", "head.head", new)
        new = new.replace(".proj_in.", ".before_proj.").replace(".proj_out.", ".after_proj.")
        new = re.sub(r"^scale_shift_table", "head.modulation", new).replace("scale_shift_table", "modulation")
        new = re.sub(r"(blocks\.\d+)\.norm2", r"\1.norm3", new)
        new = new.replace("attn1.", "self_attn.").replace("attn2.", "cross_attn.").replace("to_out.0", "o")
        new = re.sub(r"\.to_([qkv])\.", r".\1.", new).replace("add_k_proj", "k_img").replace("add_v_proj", "v_img")
        new = new.replace("norm_added_k", "norm_k_img").replace("ffn.net.0.proj", "ffn.0").replace("ffn.net.2", "ffn.2")
        out[new] = tensor.contiguous()
    return out


def residual_autoencoder() -> nn.Module:
    """Wan 2.2's, of 48 channels and cells of 16 x 16 pixels."""
    from pipegraph.models.families.wan.vae import MEAN_48, STD_48

    return autoencoder(
        base_dim=8,
        decoder_base_dim=12,
        z_dim=48,
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
        latents_mean=list(MEAN_48),
        latents_std=list(STD_48),
    )


def to_original_vae(net: dict[str, Tensor], blocks: int = 1) -> dict[str, Tensor]:
    """diffusers' Wan VAE weights in the original layout; ``blocks``: its ``num_res_blocks``."""
    inner = {
        "norm1": "residual.0",
        "conv1": "residual.2",
        "norm2": "residual.3",
        "conv2": "residual.6",
        "conv_shortcut": "shortcut",
    }
    out, row = {}, blocks + 2
    residual = "encoder.down_blocks.0.resnets.0.conv1.weight" in net
    for name, tensor in net.items():
        new = re.sub(r"^quant_conv", "conv1", name)
        new = re.sub(r"^post_quant_conv", "conv2", new).replace("conv_in", "conv1")
        new = re.sub(r"(down|up)_blocks\.(\d)\.resnets\.(\d)", r"\1samples.\2.\1samples.\3", new) if residual else new
        new = re.sub(r"down_blocks\.(\d)\.downsampler", rf"downsamples.\1.downsamples.{blocks}", new)
        new = re.sub(r"up_blocks\.(\d)\.upsampler\.", rf"upsamples.\1.upsamples.{blocks + 1}.", new)
        new = new.replace("norm_out", "head.0").replace("conv_out", "head.2")
        new = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"middle.{2 * int(m[1])}", new)
        new = new.replace("mid_block.attentions.0", "middle.1").replace("down_blocks", "downsamples")
        new = re.sub(r"up_blocks\.(\d)\.resnets\.(\d)", lambda m: f"upsamples.{int(m[1]) * row + int(m[2])}", new)
        new = re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda m: f"upsamples.{int(m[1]) * row + row - 1}", new)
        if new.startswith(("encoder.middle", "decoder.middle", "encoder.downsamples", "decoder.upsamples")):
            stem, last, kind = new.rsplit(".", 2)
            new = f"{stem}.{inner.get(last, last)}.{kind}"
        out[new] = tensor.contiguous()
    return out
