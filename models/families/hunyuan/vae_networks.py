"""HunyuanVideo's VAEs (1.0 and 1.5) in files. 1.0's own names are diffusers'."""

from __future__ import annotations

import re
from math import gcd
from typing import Any

from ...family import Config, FileLayout, LatentFormat, Network, Pieces
from ...loading.names import count, each, present


def _vae_name(name: str) -> str:
    if re.match(r"(en|de)coder\.(conv_in|conv_out|norm_out)\.", name):
        return name
    if m := re.match(r"(en|de)coder\.mid\.block_([12])\.(.+)$", name):
        return f"{m[1]}coder.mid_block.resnets.{int(m[2]) - 1}.{m[3]}"
    if m := re.match(r"(en|de)coder\.mid\.attn_1\.(.+)$", name):
        inner = f"to_{m[2]}" if m[2][:2] in ("q.", "k.", "v.") else m[2]
        return f"{m[1]}coder.mid_block.attentions.0.{inner}"
    if m := re.match(r"(encoder\.down|decoder\.up)\.(\d+)\.(block\.(\d+)|downsample|upsample)\.(.+)$", name):
        inner = f"resnets.{m[4]}.{m[5]}" if m[4] else f"{m[3]}rs.0.{m[5]}"
        return f"{m[1]}_blocks.{m[2]}.{inner}"
    return ""


def _config_15(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLHunyuanVideo15 from the shapes of its tensors."""
    levels = count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.conv.weight"].shape[0] for i in range(levels)]
    down = [pieces.get(f"encoder.down_blocks.{i}.downsamplers.0.conv.conv.weight") for i in range(levels)]
    # A level packs 4 pixels into channels, or 8 of two frames.
    packed = [widths[i + 1] // piece.shape[0] for i, piece in enumerate(down) if piece]
    return dict(base) | {
        "latent_channels": pieces["decoder.conv_in.conv.weight"].shape[1],
        "block_out_channels": widths,
        "layers_per_block": count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "spatial_compression_ratio": 2 ** len(packed),
        "temporal_compression_ratio": 2 ** sum(factor == 8 for factor in packed),
    }


def _config_1(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLHunyuanVideo from tensor shapes; compression ratios from ``base``."""
    levels = count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.conv.weight"].shape[0] for i in range(levels)]
    return dict(base) | {
        "latent_channels": pieces["post_quant_conv.weight"].shape[0],
        "block_out_channels": widths,
        "down_block_types": ["HunyuanVideoDownBlock3D"] * levels,
        "up_block_types": ["HunyuanVideoUpBlock3D"] * levels,
        "layers_per_block": count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "norm_num_groups": gcd(base.get("norm_num_groups", 32), *widths),
        "mid_block_add_attention": "decoder.mid_block.attentions.0.to_q.weight" in pieces,
    }


def _latent(config: Config, channels: int, downscale: int, scale: float, patch: int) -> LatentFormat:
    """Latent format; values missing in the config are those of the published model."""
    return LatentFormat(
        channels=config.get("latent_channels", channels),
        downscale=config.get("spatial_compression_ratio", downscale),
        frames=config.get("temporal_compression_ratio", 4),
        scale=float(config.get("scaling_factor") or scale),
        patch=patch,
    )


VAE = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_hunyuan_video:AutoencoderKLHunyuanVideo",
    layouts=(FileLayout(present("decoder.conv_norm_out.weight", "decoder.conv_in.conv.weight")),),
    config=_config_1,
    base={
        "in_channels": 3,
        "out_channels": 3,
        "act_fn": "silu",
        "norm_num_groups": 32,
        "scaling_factor": 0.476986,
        "spatial_compression_ratio": 8,
        "temporal_compression_ratio": 4,
    },
    ready="pipegraph.models.families.hunyuan.attention:install",
    latent=lambda config: _latent(config, 16, 8, 0.476986, 2),
    value="pipegraph.models.families.hunyuan.vae:HunyuanVideoVae",
)
VAE_15 = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_hunyuanvideo15:AutoencoderKLHunyuanVideo15",
    layouts=(
        FileLayout(present("decoder.mid.attn_1.norm.gamma", "decoder.conv_in.conv.weight"), each(_vae_name)),
        FileLayout(present("decoder.mid_block.attentions.0.norm.gamma", "decoder.conv_in.conv.weight")),
    ),
    config=_config_15,
    base={
        "in_channels": 3,
        "out_channels": 3,
        "downsample_match_channel": True,
        "upsample_match_channel": True,
        "scaling_factor": 1.03682,
    },
    ready="pipegraph.models.families.hunyuan.attention:install",
    latent=lambda config: _latent(config, 32, 16, 1.03682, 1),
    value="pipegraph.models.families.hunyuan.vae:HunyuanVideo15Vae",
)
