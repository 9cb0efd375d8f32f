"""How FLUX.1's weights are named and shaped in files: BFL's and ComfyUI's layout, and diffusers'. Torch-free."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .pieces import Piece

TOP = {
    "img_in": "x_embedder",
    "txt_in": "context_embedder",
    "time_in.in_layer": "time_text_embed.timestep_embedder.linear_1",
    "time_in.out_layer": "time_text_embed.timestep_embedder.linear_2",
    "vector_in.in_layer": "time_text_embed.text_embedder.linear_1",
    "vector_in.out_layer": "time_text_embed.text_embedder.linear_2",
    "guidance_in.in_layer": "time_text_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer": "time_text_embed.guidance_embedder.linear_2",
    "final_layer.linear": "proj_out",
    "final_layer.adaLN_modulation.1": "norm_out.linear",
}
"""BFL's names of the layers outside the blocks, in diffusers' terms. The last one has its halves exchanged."""
_DOUBLE = {
    "img_mod.lin": "norm1.linear",
    "txt_mod.lin": "norm1_context.linear",
    "img_attn.proj": "attn.to_out.0",
    "txt_attn.proj": "attn.to_add_out",
    "img_attn.norm.query_norm": "attn.norm_q",
    "img_attn.norm.key_norm": "attn.norm_k",
    "txt_attn.norm.query_norm": "attn.norm_added_q",
    "txt_attn.norm.key_norm": "attn.norm_added_k",
    "img_mlp.0": "ff.net.0.proj",
    "img_mlp.2": "ff.net.2",
    "txt_mlp.0": "ff_context.net.0.proj",
    "txt_mlp.2": "ff_context.net.2",
}
_SINGLE = {
    "modulation.lin": "norm.linear",
    "linear2": "proj_out",
    "norm.query_norm": "attn.norm_q",
    "norm.key_norm": "attn.norm_k",
}
_QKV = {
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
}


def is_bfl(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a FLUX network in BFL's layout."""
    return "double_blocks.0.img_attn.qkv.weight" in names and "img_in.weight" in names


def is_diffusers(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a FLUX network or ControlNet in diffusers' layout."""
    return "transformer_blocks.0.attn.add_q_proj.weight" in names and "context_embedder.weight" in names


def from_bfl(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    """BFL's pieces by diffusers' names, and the names that have no place there."""
    made: dict[str, Piece] = {}
    unknown = []
    width = stored["img_in.weight"].shape[0]
    for name, piece in stored.items():
        found = _renamed(name, piece, width)
        made.update(found)
        if not found:
            unknown.append(name)
    return made, unknown


def _renamed(name: str, piece: Piece, width: int) -> dict[str, Piece]:
    stem, _, kind = name.rpartition(".")
    kind = "weight" if kind == "scale" else kind
    if kind not in ("weight", "bias"):
        return {}
    if new := TOP.get(stem):
        # BFL keeps (shift, scale), diffusers (scale, shift).
        return {f"{new}.{kind}": piece.swapped() if new == "norm_out.linear" else piece}
    match = re.fullmatch(r"(double|single)_blocks\.(\d+)\.(.+)", stem)
    if not match:
        return {}
    double, rest = match[1] == "double", match[3]
    block = f"{'' if double else 'single_'}transformer_blocks.{match[2]}."
    if new := (_DOUBLE if double else _SINGLE).get(rest):
        return {f"{block}{new}.{kind}": piece}
    if double and rest in _QKV:
        return {f"{block}{n}.{kind}": piece.rows(i * width, width) for i, n in enumerate(_QKV[rest])}
    if not double and rest == "linear1":
        parts = [(n, i * width, width) for i, n in enumerate(("attn.to_q", "attn.to_k", "attn.to_v"))]
        parts.append(("proj_mlp", 3 * width, piece.shape[0] - 3 * width))
        return {f"{block}{n}.{kind}": piece.rows(start, count) for n, start, count in parts}
    return {}


def network_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a FluxTransformer2DModel or FluxControlNetModel from the shapes of its tensors."""

    def shape(name: str) -> tuple[int, ...]:
        return pieces[name].shape

    def blocks(prefix: str) -> int:
        return 1 + max((int(n.split(".")[1]) for n in pieces if n.startswith(prefix + ".")), default=-1)

    width, channels = shape("x_embedder.weight")
    head = shape("transformer_blocks.0.attn.norm_q.weight")[0]
    config = dict(base) | {
        "in_channels": channels,
        "num_layers": blocks("transformer_blocks"),
        "num_single_layers": blocks("single_transformer_blocks"),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shape("context_embedder.weight")[1],
        "pooled_projection_dim": shape("time_text_embed.text_embedder.linear_1.weight")[1],
        "guidance_embeds": "time_text_embed.guidance_embedder.linear_1.weight" in pieces,
        # FLUX's split of a head over (index, row, column): 16, 56, 56 of 128.
        "axes_dims_rope": [head // 8, (head - head // 8) // 2, (head - head // 8) // 2],
    }
    if "proj_out.weight" in pieces and shape("proj_out.weight")[0] != channels:
        config["out_channels"] = shape("proj_out.weight")[0]
    if "controlnet_mode_embedder.weight" in pieces:
        config["num_mode"] = shape("controlnet_mode_embedder.weight")[0]
    return config
