"""AutoencoderKL, the VAE of FLUX.1 and of models before it: the original layout (ldm, BFL, ComfyUI), and diffusers'."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from ..family import Config, FileLayout, LatentFormat, Network, Pieces
from ..loading.names import Renaming, count, present
from ..loading.pieces import Piece

_ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}


def _from_ldm(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """Tensors by diffusers' names (also if stored so), and unknown names."""
    levels = count(stored, r"decoder\.up\.(\d+)\.")
    tensors: dict[str, Piece] = {}
    unknown = []
    for name, piece in stored.items():
        new = _renamed(name, levels)
        if new is None:
            unknown.append(name)
        else:
            # The original has the linear layers of attention as 1x1 convolutions.
            tensors[new] = piece.flat() if ".attentions." in new else piece
    return tensors, unknown


def _renamed(name: str, levels: int) -> str | None:
    if re.match(r"(en|de)coder\.(down_blocks|up_blocks|mid_block|conv_norm_out|conv_in|conv_out)\.", name):
        return name
    if re.match(r"(post_)?quant_conv\.", name):
        return name
    if m := re.match(r"(en|de)coder\.norm_out\.(\w+)$", name):
        return f"{m[1]}coder.conv_norm_out.{m[2]}"
    if m := re.match(r"(encoder\.down|decoder\.up)\.(\d+)\.(block\.(\d+)|downsample|upsample)\.(.+)$", name):
        down = m[1] == "encoder.down"
        block = f"encoder.down_blocks.{m[2]}" if down else f"decoder.up_blocks.{levels - 1 - int(m[2])}"
        if m[4] is None:
            return f"{block}.{m[3]}rs.0.{m[5]}"
        return f"{block}.resnets.{m[4]}.{m[5].replace('nin_shortcut', 'conv_shortcut')}"
    if m := re.match(r"(en|de)coder\.mid\.block_([12])\.(.+)$", name):
        return f"{m[1]}coder.mid_block.resnets.{int(m[2]) - 1}.{m[3].replace('nin_shortcut', 'conv_shortcut')}"
    if m := re.match(r"(en|de)coder\.mid\.attn_1\.(\w+)\.(\w+)$", name):
        return f"{m[1]}coder.mid_block.attentions.0.{_ATTENTION[m[2]]}.{m[3]}" if m[2] in _ATTENTION else None
    return None


DIFFUSERS_SCALE: Final = 0.18215
"""Default ``scaling_factor`` of diffusers' AutoencoderKL."""
_OF_FLUX: Final = 16
"""Latent channels of FLUX.1's VAE."""
_SCALE: Final = ("scaling_factor", "shift_factor")


def vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKL from tensor shapes; the rest from ``base``, FLUX.1's.

    Of other latents than FLUX.1's no file says the scale: the VAEs of SD 1.5 (0.18215) and SDXL (0.13025) are shaped
    alike. So are those of FLUX.1 and SD3 (1.5305 with a shift of 0.0609): a file without a config is taken for
    FLUX.1's.
    """
    levels = count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.weight"].shape[0] for i in range(levels)]
    layers = count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\.")
    channels, quantized = pieces["decoder.conv_in.weight"].shape[1], "quant_conv.weight" in pieces
    known = channels == _OF_FLUX and not quantized
    return {k: v if known or k not in _SCALE else None for k, v in base.items()} | {
        "block_out_channels": widths,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": layers,
        "latent_channels": channels,
        "norm_num_groups": math.gcd(base.get("norm_num_groups", 32), *widths),
        "use_quant_conv": quantized,
        "use_post_quant_conv": "post_quant_conv.weight" in pieces,
        "mid_block_add_attention": "decoder.mid_block.attentions.0.to_q.weight" in pieces,
    }


def latent(config: Config) -> LatentFormat:
    """Latent format of a VAE from its config."""
    channels, scale = config["latent_channels"], config.get("scaling_factor", DIFFUSERS_SCALE)
    return LatentFormat(
        channels=channels,
        downscale=2 ** (len(config["block_out_channels"]) - 1),
        scale=None if scale is None else float(scale),
        shift=float(config.get("shift_factor") or 0),
        patch=2 if channels == _OF_FLUX else 1,
    )


_OF_WAN = "decoder.mid_block.resnets.0.norm1.gamma"
AUTOENCODER_KL = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl:AutoencoderKL",
    layouts=(
        FileLayout(
            present("encoder.conv_in.weight", "decoder.conv_in.weight", absent=[_OF_WAN]),
            Renaming(_from_ldm),
        ),
    ),
    config=vae_config,
    base={
        "in_channels": 3,
        "out_channels": 3,
        "norm_num_groups": 32,
        "sample_size": 1024,
        "scaling_factor": 0.3611,
        "shift_factor": 0.1159,
        "mid_block_add_attention": True,
    },
    latent=latent,
    value="pipegraph.models.vae.image:Vae",
)
