"""LTX-Video's VAE in files: original layout (also ComfyUI's) and diffusers'."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...family import Config, FileLayout, LatentFormat, Network, Pieces
from ...loading.names import Renaming, count, present
from ...loading.pieces import Piece

CELL, FRAMES, CHANNELS = 32, 8, 128
"""Pixels and frames per latent cell, latent channels."""
_TRAINING = r"^per_channel_statistics\.(channel|mean-of-stds)"
"""Ignored: statistics used in training only."""
STATISTICS = {
    "per_channel_statistics.mean-of-means": "latents_mean",
    "per_channel_statistics.std-of-means": "latents_std",
    "decoder.last_scale_shift_table": "decoder.scale_shift_table",
}


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """Pieces by diffusers' names, and unknown names."""
    rows = {side: _levels(stored, side) for side in ("encoder.down_blocks", "decoder.up_blocks")}
    new = {name: _vae_name(name, rows) for name in stored}
    return {new[n]: piece for n, piece in stored.items() if new[n]}, [n for n in stored if not new[n]]


def _levels(stored: Iterable[str], side: str) -> dict[int, str]:
    """Map the original's flat list of blocks to diffusers' levels.

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
    if name in STATISTICS:
        return STATISTICS[name]
    if m := re.fullmatch(r"(encoder\.down_blocks|decoder\.up_blocks)\.(\d+)\.(.+)", name):
        rest = m[3].replace("res_blocks.", "resnets.").replace("norm3.norm.", "norm3.")
        rest = re.sub(r"conv_shortcut\.(weight|bias)", r"conv_shortcut.conv.\1", rest)
        place = rows[m[1]].get(int(m[2]))
        return f"{place}.{rest}" if place else ""
    if re.match(r"(en|de)coder\.conv_(in|out)\.conv\.|decoder\.timestep_scale_multiplier$", name):
        return name
    head, _, rest = name.partition("decoder.last_time_embedder.")
    return f"decoder.time_embedder.{rest}" if rest and not head else ""


def vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLLTXVideo from the shapes of its tensors."""
    patch = math.isqrt(pieces["encoder.conv_in.conv.weight"].shape[1] // base["in_channels"])
    encoder, strides = _encoder_config(pieces)
    return (
        dict(base)
        | encoder
        | _decoder_config(pieces)
        | {
            "latent_channels": pieces["decoder.conv_in.conv.weight"].shape[1],
            "patch_size": patch,
            "spatial_compression_ratio": patch * math.prod(s for _, s in strides),
            "temporal_compression_ratio": math.prod(t for t, _ in strides),
        }
    )


_STRIDES = {4: ("spatial", (1, 2)), 2: ("temporal", (2, 1)), 8: ("spatiotemporal", (2, 2))}
"""0.9.5's downsamplers by channel factor: kind, and stride in time and space."""


def _encoder_config(pieces: Pieces) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """Encoder config, and the strides of its downsamplers in time and space."""
    levels = [f"encoder.down_blocks.{i}" for i in range(count(pieces, r"encoder\.down_blocks\.(\d+)\."))]
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
            *(count(pieces, rf"{level}\.resnets\.(\d+)\.") for level in levels),
            count(pieces, r"encoder\.mid_block\.resnets\.(\d+)\."),
        ],
    }
    return config, strides


def _decoder_config(pieces: Pieces) -> dict[str, Any]:
    """Decoder config; diffusers lists its levels from last to first."""
    levels = [f"decoder.up_blocks.{i}" for i in range(count(pieces, r"decoder\.up_blocks\.(\d+)\."))]
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
        "decoder_layers_per_block": [count(pieces, rf"{g}\.resnets\.(\d+)\.") for g in groups][::-1],
        "decoder_inject_noise": [f"{g}.resnets.0.per_channel_scale1" in pieces for g in groups][::-1],
        "upsample_factor": factors[::-1],
        "upsample_residual": [f > 1 for f in factors][::-1],
        "timestep_conditioning": "decoder.timestep_scale_multiplier" in pieces,
    }


def upsample_types(pieces: Pieces) -> list[str]:
    """Upsampling type of each decoder level, from first to last."""
    types = []
    for level in (f"decoder.up_blocks.{i}" for i in range(count(pieces, r"decoder\.up_blocks\.(\d+)\."))):
        up = pieces[f"{level}.upsamplers.0.conv.conv.weight"].shape
        width = pieces[f"{level}.resnets.0.conv1.conv.weight"].shape[1]
        types.append(_STRIDES[up[0] // width][0])
    return types


def vae_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The VAE config in a file's metadata, with diffusers' keys."""
    if "blocks" not in config and "encoder_blocks" not in config:
        return dict(config)
    return {"decoder_causal": config["causal_decoder"]} if "causal_decoder" in config else {}


def latent(config: Config) -> LatentFormat:
    """Latent format. The VAE normalizes latents itself."""
    return LatentFormat(
        channels=config["latent_channels"],
        downscale=config.get("spatial_compression_ratio") or CELL,
        frames=config.get("temporal_compression_ratio") or FRAMES,
    )


_original = present("decoder.up_blocks.0.res_blocks.0.conv1.conv.weight", "encoder.conv_in.conv.weight")
_later = present("encoder.down_blocks.1.conv.conv.weight", absent=["decoder.timestep_scale_multiplier"])


def is_original_2(stored: Pieces) -> bool:
    """Whether these tensors are LTX-2's VAE in the original layout: like 0.9.5's, without a timestep."""
    return _original(stored) and _later(stored)


VAE = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_ltx:AutoencoderKLLTXVideo",
    layouts=(
        FileLayout(lambda stored: _original(stored) and not _later(stored), Renaming(from_original)),
        FileLayout(present("decoder.mid_block.resnets.0.conv1.conv.weight", "latents_mean")),
    ),
    config=vae_config,
    base={
        "in_channels": 3,
        "out_channels": 3,
        "patch_size_t": 1,
        "resnet_norm_eps": 1e-6,
        "scaling_factor": 1.0,
        "encoder_causal": True,
        "decoder_causal": False,
    },
    metadata=vae_metadata,
    ignored=_TRAINING,
    latent=latent,
    value="pipegraph.models.families.ltx.vae:LtxVae",
)
