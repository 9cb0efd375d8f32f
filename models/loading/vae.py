"""How an AutoencoderKL is named and shaped in files: the original (ldm, BFL, ComfyUI) layout, diffusers'."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .pieces import Piece

_ATTENTION = {"norm": "group_norm", "q": "to_q", "k": "to_k", "v": "to_v", "proj_out": "to_out.0"}


def is_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an autoencoder, in either layout."""
    return "encoder.conv_in.weight" in names and "decoder.conv_in.weight" in names


def from_ldm(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names (which are kept as they are), and the names that have no place there."""
    levels = 1 + max((int(m[1]) for n in stored if (m := re.match(r"decoder\.up\.(\d+)\.", n))), default=-1)
    made: dict[str, Piece] = {}
    unknown = []
    for name, piece in stored.items():
        new = _renamed(name, levels)
        if new is None:
            unknown.append(name)
        else:
            # The original has the linear layers of attention as 1x1 convolutions.
            flat = ".attentions." in new and len(piece.shape) == 4
            made[new] = replace(piece, shape=piece.shape[:2]) if flat else piece
    return made, unknown


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


def vae_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKL from the shapes of its tensors; scale, shift and the like from ``base``."""
    levels = 1 + max(int(n.split(".")[2]) for n in pieces if n.startswith("encoder.down_blocks."))
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.weight"].shape[0] for i in range(levels)]
    layers = 1 + max(int(n.split(".")[4]) for n in pieces if n.startswith("encoder.down_blocks.0.resnets."))
    return dict(base) | {
        "block_out_channels": widths,
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "layers_per_block": layers,
        "latent_channels": pieces["decoder.conv_in.weight"].shape[1],
        "norm_num_groups": math.gcd(base.get("norm_num_groups", 32), *widths),
        "use_quant_conv": "quant_conv.weight" in pieces,
        "use_post_quant_conv": "post_quant_conv.weight" in pieces,
        "mid_block_add_attention": "decoder.mid_block.attentions.0.to_q.weight" in pieces,
    }
