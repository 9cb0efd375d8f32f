"""How Wan's networks are named and shaped in files: the original layout, which is ComfyUI's, and diffusers'."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .pieces import Piece

Pieces = Mapping[str, Piece]

_TOP = {
    "time_embedding.0": "condition_embedder.time_embedder.linear_1",
    "time_embedding.2": "condition_embedder.time_embedder.linear_2",
    "text_embedding.0": "condition_embedder.text_embedder.linear_1",
    "text_embedding.2": "condition_embedder.text_embedder.linear_2",
    "time_projection.1": "condition_embedder.time_proj",
    "img_emb.proj.0": "condition_embedder.image_embedder.norm1",
    "img_emb.proj.1": "condition_embedder.image_embedder.ff.net.0.proj",
    "img_emb.proj.3": "condition_embedder.image_embedder.ff.net.2",
    "img_emb.proj.4": "condition_embedder.image_embedder.norm2",
    "head.head": "proj_out",
    "patch_embedding": "patch_embedding",
    "vace_patch_embedding": "vace_patch_embedding",
}
_WHOLE = {"head.modulation": "scale_shift_table", "img_emb.emb_pos": "condition_embedder.image_embedder.pos_embed"}
_FUN = ("ref_conv.", "control_adapter.")
"""Layers of the Fun models, whose names are the same here (``models/video/wan_fun.py``)."""
_INNER = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out.0", "norm_q": "norm_q", "norm_k": "norm_k",
          "k_img": "add_k_proj", "v_img": "add_v_proj", "norm_k_img": "norm_added_k"}  # fmt: skip
# The original calls the norm before cross attention norm3, diffusers norm2.
_BLOCK = {"ffn.0": "ffn.net.0.proj", "ffn.2": "ffn.net.2", "norm3": "norm2", "before_proj": "proj_in",
          "after_proj": "proj_out"}  # fmt: skip


def is_original(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a Wan network in the original layout."""
    return "blocks.0.self_attn.q.weight" in names and "head.modulation" in names


def is_diffusers(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a Wan network in diffusers' layout."""
    return "blocks.0.attn1.to_q.weight" in names and "condition_embedder.time_proj.weight" in names


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names, and the names that have no place there."""
    made, unknown = {}, []
    for name, piece in stored.items():
        if new := _network_name(name):
            made[new] = piece
        else:
            unknown.append(name)
    return made, unknown


def _network_name(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    if name.startswith(_FUN):
        return name
    stem, _, kind = name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    match = re.fullmatch(r"((?:vace_)?blocks\.\d+)\.(.+)", name)
    if not match:
        return ""
    block, rest = match.groups()
    if rest == "modulation":
        return f"{block}.scale_shift_table"
    stem, _, kind = rest.rpartition(".")
    if stem in _BLOCK:
        return f"{block}.{_BLOCK[stem]}.{kind}"
    part, _, inner = stem.partition(".")
    attention = {"self_attn": "attn1", "cross_attn": "attn2"}.get(part)
    return f"{block}.{attention}.{_INNER[inner]}.{kind}" if attention and inner in _INNER else ""


def original_name(name: str) -> str:
    """What the original calls a tensor of diffusers' Wan networks; empty if it has none such."""
    if name.startswith(_FUN):
        return name
    if name in _WHOLE.values():
        return next(k for k, v in _WHOLE.items() if v == name)
    stem, _, kind = name.rpartition(".")
    if kind == "scale_shift_table":
        return f"{stem}.modulation"
    match = re.fullmatch(r"((?:vace_)?blocks\.\d+)\.(.+)", stem)
    if not match:
        return next((f"{k}.{kind}" for k, v in _TOP.items() if v == stem), "")
    block, rest = match.groups()
    for original, ours in _BLOCK.items():
        if rest == ours:
            return f"{block}.{original}.{kind}"
    attention, _, inner = rest.partition(".")
    part = {"attn1": "self_attn", "attn2": "cross_attn"}.get(attention)
    found = next((k for k, v in _INNER.items() if v == inner), "")
    return f"{block}.{part}.{found}.{kind}" if part and found else ""


def network_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a Wan network from the shapes of its tensors; heads are as wide as ``base`` says (128)."""

    def shape(name: str) -> tuple[int, ...]:
        return pieces[name].shape

    width, channels, *patch = shape("patch_embedding.weight")
    embedder = "condition_embedder.image_embedder"
    pictures = f"{embedder}.norm1.weight" in pieces
    layers = _count(pieces, r"blocks\.(\d+)\.")
    following: dict[str, Any] = {}
    if "vace_patch_embedding.weight" in pieces:
        # Its blocks go with every so manieth of the others.
        blocks = _count(pieces, r"vace_blocks\.(\d+)\.")
        following = {
            "_class_name": "WanVACETransformer3DModel",
            "vace_layers": list(range(0, layers, layers // blocks))[:blocks],
            "vace_in_channels": shape("vace_patch_embedding.weight")[1],
        }
    if "ref_conv.weight" in pieces:
        following["reference_channels"] = shape("ref_conv.weight")[1]
    if "control_adapter.conv.weight" in pieces:
        following["camera_channels"] = shape("control_adapter.conv.weight")[1] // 64
    found = dict(base) | {
        "in_channels": channels,
        "out_channels": shape("proj_out.weight")[0] // math.prod(patch),
        "patch_size": patch,
        "num_attention_heads": max(1, width // base.get("attention_head_dim", 128)),
        "text_dim": shape("condition_embedder.text_embedder.linear_1.weight")[1],
        "freq_dim": shape("condition_embedder.time_embedder.linear_1.weight")[1],
        "ffn_dim": shape("blocks.0.ffn.net.0.proj.weight")[0],
        "num_layers": layers,
        "cross_attn_norm": "blocks.0.norm2.weight" in pieces,
        "image_dim": shape(f"{embedder}.norm1.weight")[0] if pictures else None,
        "added_kv_proj_dim": width if "blocks.0.attn2.add_k_proj.weight" in pieces else None,
        "pos_embed_seq_len": shape(f"{embedder}.pos_embed")[1] if f"{embedder}.pos_embed" in pieces else None,
    }
    return found | following


_RESIDUAL = {"residual.0": "norm1", "residual.2": "conv1", "residual.3": "norm2", "residual.6": "conv2",
             "shortcut": "conv_shortcut"}  # fmt: skip
_VAE_TOP = {
    "conv1": "quant_conv", "conv2": "post_quant_conv",
    "encoder.conv1": "encoder.conv_in", "encoder.head.0": "encoder.norm_out", "encoder.head.2": "encoder.conv_out",
    "decoder.conv1": "decoder.conv_in", "decoder.head.0": "decoder.norm_out", "decoder.head.2": "decoder.conv_out",
}  # fmt: skip
_MIDDLE = {"0": "resnets.0", "1": "attentions.0", "2": "resnets.1"}


def is_original_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a Wan VAE in the original layout."""
    return "decoder.middle.0.residual.0.gamma" in names and "encoder.conv1.weight" in names


def is_diffusers_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a Wan VAE in diffusers' layout."""
    return "decoder.mid_block.resnets.0.norm1.gamma" in names and "post_quant_conv.weight" in names


def from_original_vae(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names, and the names that have no place there."""
    # A level of the decoder is its residual blocks and, but for the last level, a resampler: in a row.
    period = 1 + min(
        (int(n.split(".")[2]) for n in stored if re.match(r"decoder\.upsamples\.\d+\.resample", n)), default=3
    )
    made, unknown = {}, []
    for name, piece in stored.items():
        if new := _vae_name(name, period):
            made[new] = piece
        else:
            unknown.append(name)
    return made, unknown


def _vae_name(name: str, period: int) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _VAE_TOP:
        return f"{_VAE_TOP[stem]}.{kind}"
    if m := re.fullmatch(r"(encoder|decoder)\.middle\.([012])\.(.+)", stem):
        inner = m[3] if m[2] == "1" else _RESIDUAL.get(m[3])
        return f"{m[1]}.mid_block.{_MIDDLE[m[2]]}.{inner}.{kind}" if inner else ""
    if m := re.fullmatch(r"(encoder|decoder)\.(down|up)samples\.(\d+)\.\w+samples\.(\d+)\.(.+)", stem):  # Wan 2.2
        block = f"{m[1]}.{m[2]}_blocks.{m[3]}"
        return f"{block}.resnets.{m[4]}.{_RESIDUAL[m[5]]}.{kind}" if m[5] in _RESIDUAL else (
            f"{block}.{m[2]}sampler.{m[5]}.{kind}"
        )  # fmt: skip
    if m := re.fullmatch(r"encoder\.downsamples\.(\d+)\.(.+)", stem):
        return f"encoder.down_blocks.{m[1]}.{_RESIDUAL.get(m[2], m[2])}.{kind}"
    if m := re.fullmatch(r"decoder\.upsamples\.(\d+)\.(.+)", stem):
        level, place = divmod(int(m[1]), period)
        if m[2] in _RESIDUAL:
            return f"decoder.up_blocks.{level}.resnets.{place}.{_RESIDUAL[m[2]]}.{kind}"
        return f"decoder.up_blocks.{level}.upsamplers.0.{m[2]}.{kind}"
    return ""


def vae_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLWan from the shapes of its tensors; mean and deviation are those of the families."""
    if "encoder.down_blocks.0.resnets.0.conv1.weight" in pieces:
        return _residual_vae_config(pieces, base)
    blocks: dict[int, set[str]] = {}
    for name in pieces:
        if m := re.match(r"encoder\.down_blocks\.(\d+)\.(\w+)", name):
            blocks.setdefault(int(m[1]), set()).add(m[2])
    resamplers = [i for i, inner in sorted(blocks.items()) if "resample" in inner]
    layers = resamplers[0] if resamplers else len(blocks)
    first = pieces["encoder.conv_in.weight"].shape[0]
    starts = [0, *(i + 1 for i in resamplers)]
    downsample = ["time_conv" in blocks[i] for i in resamplers]
    return dict(base) | {
        "base_dim": first,
        "z_dim": pieces["post_quant_conv.weight"].shape[0],
        "dim_mult": [pieces[f"encoder.down_blocks.{i}.conv1.weight"].shape[0] // first for i in starts],
        "num_res_blocks": layers,
        "temperal_downsample": downsample,
        "scale_factor_spatial": 2 ** len(resamplers),
        "scale_factor_temporal": 2 ** sum(downsample),
    }


def _residual_vae_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Wan 2.2's: pixels are put together before its first layer, levels have a way round."""
    from ..families.wan_variants import MEAN_48, STD_48

    first, channels = pieces["encoder.conv_in.weight"].shape[:2]
    levels = _count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    wide = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.weight"].shape[0] // first for i in range(levels)]
    downsample = [f"encoder.down_blocks.{i}.downsampler.time_conv.weight" in pieces for i in range(levels - 1)]
    patch = math.isqrt(channels // 3)
    return dict(base) | {
        "base_dim": first,
        "decoder_base_dim": pieces["decoder.conv_in.weight"].shape[0] // wide[-1],
        "z_dim": pieces["post_quant_conv.weight"].shape[0],
        "dim_mult": wide,
        "num_res_blocks": _count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "temperal_downsample": downsample,
        "is_residual": True,
        "in_channels": channels,
        "out_channels": pieces["decoder.conv_out.weight"].shape[0],
        "patch_size": patch,
        "scale_factor_spatial": 2 ** (levels - 1) * patch,
        "scale_factor_temporal": 2 ** sum(downsample),
        "latents_mean": list(MEAN_48),
        "latents_std": list(STD_48),
    }


def _count(pieces: Pieces, pattern: str) -> int:
    return 1 + max(int(m[1]) for n in pieces if (m := re.match(pattern, n)))


def is_umt5(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a UMT5 encoder: unlike T5 it has positions in every block."""
    return "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight" in names
