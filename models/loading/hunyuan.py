"""How HunyuanVideo's networks (1.0 and 1.5) are named and shaped in files: the original layout, and diffusers'.

Facts: diffusers' converters (convert_hunyuan_video_to_diffusers.py, convert_hunyuan_video1_5_to_diffusers.py). Version
1.5 has queries, keys and values of its blocks apart, 1.0 has them in one; its VAE's own names are diffusers'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from typing import Any, Final

from .pieces import Piece

Pieces = Mapping[str, Piece]

_EMBEDDERS = {
    "time_text_embed.timestep_embedder": ("txt_in.t_embedder.mlp.0", "txt_in.t_embedder.mlp.2"),
    "time_text_embed.text_embedder": ("txt_in.c_embedder.linear_1", "txt_in.c_embedder.linear_2"),
}
_TEXT = {
    old: f"context_embedder.{new}.linear_{i}" for new, pair in _EMBEDDERS.items() for i, old in enumerate(pair, 1)
} | {"txt_in.input_embedder": "context_embedder.proj_in"}
_TOP = _TEXT | {"img_in.proj": "x_embedder.proj", "final_layer.linear": "proj_out"}
_TOP_1 = _TOP | {
    "time_in.mlp.0": "time_text_embed.timestep_embedder.linear_1",
    "time_in.mlp.2": "time_text_embed.timestep_embedder.linear_2",
    "guidance_in.mlp.0": "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.mlp.2": "time_text_embed.guidance_embedder.linear_2",
    "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
}
_TOP_15 = _TOP | {
    "time_in.mlp.0": "time_embed.timestep_embedder.linear_1",
    "time_in.mlp.2": "time_embed.timestep_embedder.linear_2",
    "byt5_in.layernorm": "context_embedder_2.norm",
    "byt5_in.fc1": "context_embedder_2.linear_1",
    "byt5_in.fc2": "context_embedder_2.linear_2",
    "byt5_in.fc3": "context_embedder_2.linear_3",
    "vision_in.proj.0": "image_embedder.norm_in",
    "vision_in.proj.1": "image_embedder.linear_1",
    "vision_in.proj.3": "image_embedder.linear_2",
    "vision_in.proj.4": "image_embedder.norm_out",
    "cond_type_embedding": "cond_type_embed",
}
_REFINER = {"norm1": "norm1", "norm2": "norm2", "self_attn_proj": "attn.to_out.0", "mlp.fc1": "ff.net.0.proj",
            "mlp.fc2": "ff.net.2", "adaLN_modulation.1": "norm_out.linear"}  # fmt: skip
_DOUBLE = {
    "img_mod.linear": "norm1.linear", "txt_mod.linear": "norm1_context.linear",
    "img_attn_q_norm": "attn.norm_q", "img_attn_k_norm": "attn.norm_k", "img_attn_proj": "attn.to_out.0",
    "txt_attn_q_norm": "attn.norm_added_q", "txt_attn_k_norm": "attn.norm_added_k", "txt_attn_proj": "attn.to_add_out",
    "img_attn_q": "attn.to_q", "img_attn_k": "attn.to_k", "img_attn_v": "attn.to_v",
    "txt_attn_q": "attn.add_q_proj", "txt_attn_k": "attn.add_k_proj", "txt_attn_v": "attn.add_v_proj",
    "img_mlp.fc1": "ff.net.0.proj", "img_mlp.fc2": "ff.net.2",
    "txt_mlp.fc1": "ff_context.net.0.proj", "txt_mlp.fc2": "ff_context.net.2",
}  # fmt: skip
_SINGLE = {"linear2": "proj_out", "q_norm": "attn.norm_q", "k_norm": "attn.norm_k", "modulation.linear": "norm.linear"}
_FUSED: Final[dict[str, tuple[str, ...]]] = {
    "img_attn_qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn_qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "self_attn_qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
}

_COMFYUI = (
    (r"\.norm\.(query|key)_norm\.(scale|weight)$", r".\1_norm.weight"),
    (r"_attn\.(q)uery_norm|_attn\.(k)ey_norm", r"_attn_\1\2_norm"),
    (r"\.(q)uery_norm|\.(k)ey_norm", r".\1\2_norm"),
    (r"_attn\.(qkv|proj)\.", r"_attn_\1."),
    (r"(_mod|\.modulation)\.lin\.", r"\1.linear."),
    (r"mlp\.0\.(weight|bias)$", r"mlp.fc1.\1"),
    (r"mlp\.2\.(weight|bias)$", r"mlp.fc2.\1"),
    (r"^(time_in|guidance_in|txt_in\.t_embedder)\.(in_layer|mlp\.fc1)\.", r"\1.mlp.0."),
    (r"^(time_in|guidance_in|txt_in\.t_embedder)\.(out_layer|mlp\.fc2)\.", r"\1.mlp.2."),
    (r"^txt_in\.c_embedder\.in_layer\.", "txt_in.c_embedder.linear_1."),
    (r"^txt_in\.c_embedder\.out_layer\.", "txt_in.c_embedder.linear_2."),
)


def is_original_1(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a HunyuanVideo network in the original layout."""
    return "txt_in.individual_token_refiner.blocks.0.norm1.weight" in names and "vector_in.in_layer.weight" in names


def is_original_15(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a HunyuanVideo 1.5 network in the original layout."""
    return "cond_type_embedding.weight" in names and "byt5_in.fc1.weight" in names


def is_diffusers_1(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a HunyuanVideo network in diffusers' layout."""
    refiner = "context_embedder.token_refiner.refiner_blocks.0.norm1.weight" in names
    return refiner and "time_text_embed.text_embedder.linear_1.weight" in names


def is_diffusers_15(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a HunyuanVideo 1.5 network in diffusers' layout."""
    return "context_embedder_2.linear_3.weight" in names and "cond_type_embed.weight" in names


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names, and the names that have no place there; of either version."""
    top = _TOP_15 if is_original_15(stored) else _TOP_1
    width = stored["img_in.proj.weight"].shape[0]
    made: dict[str, Piece] = {}
    unknown = []
    for name, piece in stored.items():
        found = _renamed(_original(name), piece, top, width)
        made.update(found)
        if not found:
            unknown.append(name)
    return made, unknown


def _original(name: str) -> str:
    """A name as the original has it, of one that ComfyUI gives it: some files are spelled that way."""
    for theirs, ours in _COMFYUI:
        name = re.sub(theirs, ours, name)
    return name


def _renamed(name: str, piece: Piece, top: Mapping[str, str], width: int) -> dict[str, Piece]:
    stem, _, kind = name.rpartition(".")
    if stem == "final_layer.adaLN_modulation.1":  # the original has (shift, scale), diffusers (scale, shift)
        return {f"norm_out.linear.{kind}": piece.swapped()}
    if new := top.get(stem):
        return {f"{new}.{kind}": piece}
    match = re.fullmatch(r"(txt_in\.individual_token_refiner\.blocks|double_blocks|single_blocks)\.(\d+)\.(.+)", stem)
    if not match:
        return {}
    where, number, rest = match.groups()
    block, names = {
        "double_blocks": ("transformer_blocks", _DOUBLE),
        "single_blocks": ("single_transformer_blocks", _SINGLE),
    }.get(where, ("context_embedder.token_refiner.refiner_blocks", _REFINER))
    if new := names.get(rest):
        return {f"{block}.{number}.{new}.{kind}": piece}
    if rest == "linear1":
        parts = [(n, i * width, width) for i, n in enumerate(_FUSED["img_attn_qkv"])]
        parts.append(("proj_mlp", 3 * width, piece.shape[0] - 3 * width))
        return {f"{block}.{number}.{n}.{kind}": piece.rows(start, count) for n, start, count in parts}
    fused = _FUSED.get(rest, ())
    return {f"{block}.{number}.{n}.{kind}": piece.rows(i * width, width) for i, n in enumerate(fused)}


def original_layers(layers: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The original's names of the linear layers of a network, and ComfyUI's, with what makes each up in diffusers.

    But for ``final_layer.adaLN_modulation.1``, whose halves are exchanged.
    """
    for name, parts in _original_layers(layers):
        yield name, parts
        for ours, theirs in _SPELLED:
            name = name.replace(ours, theirs)
        yield name, parts


_SPELLED = (
    ("t_embedder.mlp.0", "t_embedder.in_layer"), ("t_embedder.mlp.2", "t_embedder.out_layer"),
    ("c_embedder.linear_1", "c_embedder.in_layer"), ("c_embedder.linear_2", "c_embedder.out_layer"),
    ("_in.mlp.0", "_in.in_layer"), ("_in.mlp.2", "_in.out_layer"), ("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.2"),
    ("_mod.linear", "_mod.lin"), ("modulation.linear", "modulation.lin"),
)  # fmt: skip


def _original_layers(layers: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    here = set(layers)
    for top in (_TOP_1, _TOP_15):
        yield from ((outer, (inner,)) for outer, inner in top.items() if inner in here)
    kinds = (
        ("transformer_blocks", "double_blocks", _DOUBLE),
        ("single_transformer_blocks", "single_blocks", _SINGLE),
        ("context_embedder.token_refiner.refiner_blocks", "txt_in.individual_token_refiner.blocks", _REFINER),
    )
    for ours, theirs, names in kinds:
        for number in {m[1] for n in here if (m := re.match(rf"{re.escape(ours)}\.(\d+)\.", n))}:
            parts: dict[str, tuple[str, ...]] = {**{outer: (inner,) for outer, inner in names.items()}, **_FUSED}
            parts["linear1"] = (*_FUSED["img_attn_qkv"], "proj_mlp")
            for outer, inners in parts.items():
                found = tuple(f"{ours}.{number}.{inner}" for inner in inners)
                if here.issuperset(found):
                    yield f"{theirs}.{number}.{outer}", found


def config_1(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a HunyuanVideoTransformer3DModel from the shapes of its tensors."""
    return _common(pieces, base) | {
        "num_single_layers": _count(pieces, r"single_transformer_blocks\.(\d+)\."),
        "pooled_projection_dim": pieces["time_text_embed.text_embedder.linear_1.weight"].shape[1],
        "guidance_embeds": "time_text_embed.guidance_embedder.linear_1.weight" in pieces,
    }


def config_15(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a HunyuanVideo15Transformer3DModel from the shapes of its tensors."""
    return _common(pieces, base) | {
        "text_embed_2_dim": pieces["context_embedder_2.linear_1.weight"].shape[1],
        "image_embed_dim": pieces["image_embedder.linear_1.weight"].shape[1],
        "use_meanflow": "time_embed.timestep_embedder_r.linear_1.weight" in pieces,
    }


def _common(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    width, channels, patch_t, patch, _ = pieces["x_embedder.proj.weight"].shape
    head = pieces["transformer_blocks.0.attn.norm_q.weight"].shape[0]
    side = 2 * (7 * head // 32)  # of a head over (time, row, column): 16, 56, 56 of 128
    return dict(base) | {
        "in_channels": channels,
        "out_channels": pieces["proj_out.weight"].shape[0] // (patch_t * patch * patch),
        "patch_size": patch,
        "patch_size_t": patch_t,
        "num_attention_heads": width // head,
        "attention_head_dim": head,
        "num_layers": _count(pieces, r"transformer_blocks\.(\d+)\."),
        "num_refiner_layers": _count(pieces, r"context_embedder\.token_refiner\.refiner_blocks\.(\d+)\."),
        "mlp_ratio": pieces["transformer_blocks.0.ff.net.2.weight"].shape[1] / width,
        "text_embed_dim": pieces["context_embedder.proj_in.weight"].shape[1],
        "rope_axes_dim": [head - 2 * side, side, side],
    }


def _count(pieces: Pieces, pattern: str) -> int:
    return 1 + max((int(m[1]) for n in pieces if (m := re.match(pattern, n))), default=-1)


def is_original_vae_15(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of HunyuanVideo 1.5's VAE in the original layout."""
    return "decoder.mid.attn_1.norm.gamma" in names and "decoder.conv_in.conv.weight" in names


def is_diffusers_vae_15(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of HunyuanVideo 1.5's VAE in diffusers' layout."""
    return "decoder.mid_block.attentions.0.norm.gamma" in names and "decoder.conv_in.conv.weight" in names


def is_vae_1(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of HunyuanVideo's VAE, which are the same in both layouts."""
    return "decoder.conv_norm_out.weight" in names and "decoder.conv_in.conv.weight" in names


def from_original_vae_15(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names, and the names that have no place there."""
    made, unknown = {}, []
    for name, piece in stored.items():
        if new := _vae_name(name):
            made[new] = piece
        else:
            unknown.append(name)
    return made, unknown


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


def vae_config_15(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLHunyuanVideo15 from the shapes of its tensors."""
    levels = _count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.conv.weight"].shape[0] for i in range(levels)]
    down = [pieces.get(f"encoder.down_blocks.{i}.downsamplers.0.conv.conv.weight") for i in range(levels)]
    # What a level packs into channels: 4 pixels, or 8 of two frames.
    packed = [widths[i + 1] // piece.shape[0] for i, piece in enumerate(down) if piece]
    return dict(base) | {
        "latent_channels": pieces["decoder.conv_in.conv.weight"].shape[1],
        "block_out_channels": widths,
        "layers_per_block": _count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "spatial_compression_ratio": 2 ** len(packed),
        "temporal_compression_ratio": 2 ** sum(factor == 8 for factor in packed),
    }


def vae_config_1(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLHunyuanVideo from the shapes of its tensors; how much it compresses from ``base``."""
    levels = _count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    widths = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.conv.weight"].shape[0] for i in range(levels)]
    return dict(base) | {
        "latent_channels": pieces["post_quant_conv.weight"].shape[0],
        "block_out_channels": widths,
        "down_block_types": ["HunyuanVideoDownBlock3D"] * levels,
        "up_block_types": ["HunyuanVideoUpBlock3D"] * levels,
        "layers_per_block": _count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "norm_num_groups": gcd(base.get("norm_num_groups", 32), *widths),
        "mid_block_add_attention": "decoder.mid_block.attentions.0.to_q.weight" in pieces,
    }


BYT5_WIDTH: Final = 1472
"""Numbers a token of ByT5 small, which no other T5 has."""


def is_byt5(names: Mapping[str, Any]) -> bool:
    """Whether these are the tensors of a ByT5 small encoder."""
    embedding = names.get("shared.weight") or names.get("encoder.embed_tokens.weight")
    known = "encoder.block.0.layer.0.SelfAttention.q.weight" in names
    return known and isinstance(embedding, Piece) and embedding.shape[-1:] == (BYT5_WIDTH,)


def _as_it_is(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    return dict(stored), []


NETWORKS: Final = (
    (is_original_1, from_original, config_1, "hunyuan_video"),
    (is_diffusers_1, _as_it_is, config_1, "hunyuan_video"),
    (is_original_15, from_original, config_15, "hunyuan_video_15"),
    (is_diffusers_15, _as_it_is, config_15, "hunyuan_video_15"),
)
"""How each kind of file is known and read: whether it is here, its pieces, its config, its family."""
VAES: Final = (
    (is_vae_1, _as_it_is, vae_config_1, "hunyuan_video"),
    (is_original_vae_15, from_original_vae_15, vae_config_15, "hunyuan_video_15"),
    (is_diffusers_vae_15, _as_it_is, vae_config_15, "hunyuan_video_15"),
)
