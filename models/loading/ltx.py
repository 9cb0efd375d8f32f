"""How LTX-Video's networks are named and shaped in files: the original layout, which is ComfyUI's, and diffusers'."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .pieces import Piece

if TYPE_CHECKING:
    from .parts import Part

Pieces = Mapping[str, Piece]

_NETWORK = {"patchify_proj": "proj_in", "adaln_single": "time_embed", "q_norm": "norm_q", "k_norm": "norm_k"}
_SHARED = ("attention_head_dim", "num_attention_heads", "norm_eps", "causal_temporal_positioning")
"""Keys of a network's config that the original's metadata has under the same names."""
_TRAINING = ("per_channel_statistics.channel", "per_channel_statistics.mean-of-stds")
"""Beginnings of names in the VAE that nothing reads."""
_VAE = {
    "per_channel_statistics.mean-of-means": "latents_mean",
    "per_channel_statistics.std-of-means": "latents_std",
    "decoder.last_scale_shift_table": "decoder.scale_shift_table",
}


def is_original(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an LTX-Video network in the original layout."""
    return "patchify_proj.weight" in names and "audio_patchify_proj.weight" not in names


def is_diffusers(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an LTX-Video network in diffusers' layout."""
    return "caption_projection.linear_1.weight" in names and "time_embed.linear.weight" in names and (
        "transformer_blocks.0.attn1.norm_q.weight" in names and "audio_proj_in.weight" not in names
    )  # fmt: skip


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    return {".".join(_NETWORK.get(p, p) for p in name.split(".")): piece for name, piece in stored.items()}, []


def network_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an LTXVideoTransformer3DModel from the shapes of its tensors; ``base`` says how many heads (32)."""
    width, channels = pieces["proj_in.weight"].shape
    layers = 1 + max(int(n.split(".")[1]) for n in pieces if n.startswith("transformer_blocks."))
    return dict(base) | {
        "in_channels": channels,
        "out_channels": pieces["proj_out.weight"].shape[0],
        "attention_head_dim": width // base["num_attention_heads"],
        "cross_attention_dim": pieces["transformer_blocks.0.attn2.to_k.weight"].shape[1],
        "caption_channels": pieces["caption_projection.linear_1.weight"].shape[1],
        "num_layers": layers,
        # The larger model is of a later kind; of the smaller ones the VAE tells (``united``), or the metadata.
        "causal_temporal_positioning": layers > 28,
    }


def told_of_network(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of the network, in diffusers' terms."""
    if str(told.get("_class_name", "")).startswith("Transformer3D"):
        return {k: told[k] for k in _SHARED if k in told}
    return dict(told)


def told_of_vae(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of the VAE, in diffusers' terms."""
    if "blocks" not in told and "encoder_blocks" not in told:
        return dict(told)
    return {"decoder_causal": told["causal_decoder"]} if "causal_decoder" in told else {}


def united(found: dict[str, Part]) -> dict[str, Part]:
    """The parts of a whole model, told of one another: networks with a VAE of 0.9.5 or later count time causally."""
    if "LTXVideo095DownBlock3D" not in found["vae"].config.get("down_block_types", ()):
        return found
    config = dict(found["transformer"].config) | {"causal_temporal_positioning": True}
    return found | {"transformer": replace(found["transformer"], config=config)}


def is_original_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-Video's VAE in the original layout."""
    return "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight" in names and "encoder.conv_in.conv.weight" in names


def is_diffusers_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-Video's VAE in diffusers' layout."""
    return "decoder.mid_block.resnets.0.conv1.conv.weight" in names and "latents_mean" in names


def from_original_vae(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names, and the names that have no place there."""
    rows = {side: _levels(stored, side) for side in ("encoder.down_blocks", "decoder.up_blocks")}
    made, unknown = {}, []
    for name, piece in stored.items():
        if name.startswith(_TRAINING):
            continue
        new = _vae_name(name, rows)
        if new:
            made[new] = piece
        else:
            unknown.append(name)
    return made, unknown


def _levels(stored: Iterable[str], side: str) -> dict[int, str]:
    """Where the blocks of a row stand in diffusers' levels.

    The original has a row of blocks: residual blocks, a resampler, or one residual block that changes the width.
    diffusers has levels: in the encoder each begins with residual blocks and the last ones are the middle; the decoder
    begins with the middle, and its levels end with residual blocks.
    """
    inner: dict[int, set[str]] = {}
    for name in stored:
        if m := re.match(rf"{side}\.(\d+)\.(\w+)", name):
            inner.setdefault(int(m[1]), set()).add(m[2])
    down = side.startswith("encoder")
    order = sorted(inner) if down else sorted(inner, reverse=True)
    groups: list[dict[int, str]] = []
    for i in order:
        if "res_blocks" in inner[i]:
            groups.append({i: ""})
        elif groups:
            change = "conv_out" if down else "conv_in"
            groups[-1][i] = f".{change}" if "conv1" in inner[i] else f".{'down' if down else 'up'}samplers.0"
    root = side.partition(".")[0]
    groups = groups if down else groups[::-1]
    middle, levels = (groups[-1], groups[:-1]) if down else (groups[0], groups[1:])
    placed = dict.fromkeys(middle, f"{root}.mid_block")
    for number, group in enumerate(levels):
        placed |= {i: f"{side}.{number}{place}" for i, place in group.items()}
    return placed


def _vae_name(name: str, rows: Mapping[str, Mapping[int, str]]) -> str:
    if name in _VAE:
        return _VAE[name]
    if m := re.fullmatch(r"(encoder\.down_blocks|decoder\.up_blocks)\.(\d+)\.(.+)", name):
        rest = m[3].replace("res_blocks.", "resnets.").replace("norm3.norm.", "norm3.")
        rest = re.sub(r"conv_shortcut\.(weight|bias)", r"conv_shortcut.conv.\1", rest)
        place = rows[m[1]].get(int(m[2]))
        return f"{place}.{rest}" if place else ""
    if re.match(r"(en|de)coder\.conv_(in|out)\.conv\.|decoder\.timestep_scale_multiplier$", name):
        return name
    head, _, rest = name.partition("decoder.last_time_embedder.")
    return f"decoder.time_embedder.{rest}" if rest and not head else ""


def vae_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLLTXVideo from the shapes of its tensors."""
    patch = math.isqrt(pieces["encoder.conv_in.conv.weight"].shape[1] // base["in_channels"])
    encoder, strides = _encoder_config(pieces)
    return dict(base) | encoder | _decoder_config(pieces) | {
        "latent_channels": pieces["decoder.conv_in.conv.weight"].shape[1],
        "patch_size": patch,
        "spatial_compression_ratio": patch * math.prod(s for _, s in strides),
        "temporal_compression_ratio": math.prod(t for t, _ in strides),
    }  # fmt: skip


def _count(pieces: Pieces, prefix: str) -> int:
    """How many numbered parts there are below a name."""
    return 1 + max((int(n[len(prefix) :].split(".")[0]) for n in pieces if n.startswith(prefix)), default=-1)


_STRIDES = {4: ("spatial", (1, 2)), 2: ("temporal", (2, 1)), 8: ("spatiotemporal", (2, 2))}
"""Of 0.9.5's downsamplers: kind and stride in time and space, by what they gather into a channel."""


def _encoder_config(pieces: Pieces) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The encoder's keys, and the strides of its downsamplers in time and space."""
    levels = [f"encoder.down_blocks.{i}" for i in range(_count(pieces, "encoder.down_blocks."))]
    wide = [pieces[f"{level}.resnets.0.conv1.conv.weight"].shape[1] for level in levels]
    middle = pieces["encoder.mid_block.resnets.0.conv1.conv.weight"].shape[1]
    kinds, strides, scaling = [], [], []
    later = any(f"{level}.downsamplers.0.conv.conv.weight" in pieces for level in levels)
    for level, width in zip(levels, [*wide[1:], middle], strict=True):
        kind, stride = "conv", (2, 2)
        if weight := pieces.get(f"{level}.downsamplers.0.conv.conv.weight"):
            kind, stride = _STRIDES[width // weight.shape[0]]
        there = any(n.startswith(f"{level}.downsamplers.") for n in pieces)
        kinds.append(kind)
        scaling.append(there)
        strides += [stride] if there else []
    config = {
        "block_out_channels": [*wide, middle] if later else wide,
        "down_block_types": [f"LTXVideo{'095' if later else ''}DownBlock3D"] * len(levels),
        "downsample_type": kinds,
        "spatio_temporal_scaling": scaling,
        "layers_per_block": [
            *(_count(pieces, f"{level}.resnets.") for level in levels), _count(pieces, "encoder.mid_block.resnets.")
        ],
    }  # fmt: skip
    return config, strides


def _decoder_config(pieces: Pieces) -> dict[str, Any]:
    """The decoder's keys; diffusers writes its levels down from the last to the first."""
    levels = [f"decoder.up_blocks.{i}" for i in range(_count(pieces, "decoder.up_blocks."))]
    widths, factors, scaling = [], [], []
    for level in levels:
        width = pieces[f"{level}.resnets.0.conv1.conv.weight"].shape[1]
        up = pieces.get(f"{level}.upsamplers.0.conv.conv.weight")
        factors.append(up.shape[1] // width if up else 1)
        widths.append(width * factors[-1])
        scaling.append(up is not None)
    groups = ["decoder.mid_block", *levels]
    return {
        "decoder_block_out_channels": widths[::-1],
        "decoder_spatio_temporal_scaling": scaling[::-1],
        "decoder_layers_per_block": [_count(pieces, f"{g}.resnets.") for g in groups][::-1],
        "decoder_inject_noise": [f"{g}.resnets.0.per_channel_scale1" in pieces for g in groups][::-1],
        "upsample_factor": factors[::-1],
        "upsample_residual": [f > 1 for f in factors][::-1],
        "timestep_conditioning": "decoder.timestep_scale_multiplier" in pieces,
    }


def is_upscaler(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an upscaler of latents."""
    return "post_upsample_res_blocks.0.conv1.weight" in names and "initial_conv.weight" in names


def upscaler_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an LTX2LatentUpsamplerModel, which is LTX-Video's too, from the shapes of its tensors."""
    first = pieces["initial_conv.weight"].shape
    rational = pieces.get("upsampler.conv.weight")
    up = rational or pieces["upsampler.0.weight"]
    factor = up.shape[0] // first[0]
    return dict(base) | {
        "in_channels": first[1],
        "mid_channels": first[0],
        "num_blocks_per_stage": _count(pieces, "res_blocks."),
        "dims": len(first) - 2,
        "spatial_upsample": factor != 2,
        "temporal_upsample": len(up.shape) == 5,
        "use_rational_resampler": rational is not None,
        # 3 / 4 has as many channels as 3 / 2: the metadata tells them apart.
        "rational_spatial_scale": {9: 1.5, 16: 4.0}.get(factor, 2.0) if rational else 2.0,
    }


def told_of_upscaler(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of an upscaler, in diffusers' terms."""
    return {"rational_spatial_scale": told["spatial_scale"]} if "spatial_scale" in told else {}


def upsample_types(pieces: Pieces) -> list[str]:
    """In which directions the decoder's levels widen, from the first to the last."""
    types = []
    for level in (f"decoder.up_blocks.{i}" for i in range(_count(pieces, "decoder.up_blocks."))):
        up = pieces[f"{level}.upsamplers.0.conv.conv.weight"].shape
        width = pieces[f"{level}.resnets.0.conv1.conv.weight"].shape[1]
        types.append(_STRIDES[up[0] // width][0])
    return types
