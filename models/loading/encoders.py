"""How the encoders of CLIP (text, pictures), SigLIP (pictures) and T5 are named and shaped in files. Torch-free."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from .pieces import Piece


def is_clip(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a CLIP text model, with or without ``text_model.``."""
    return "embeddings.token_embedding.weight" in names or "text_model.embeddings.token_embedding.weight" in names


def is_t5(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a T5 encoder."""
    return "encoder.block.0.layer.0.SelfAttention.q.weight" in names


def clip_pieces(stored: Mapping[str, Piece]) -> dict[str, Piece]:
    """The pieces named without ``text_model.``."""
    return {name.removeprefix("text_model."): piece for name, piece in stored.items()}


def t5_pieces(stored: Mapping[str, Piece]) -> dict[str, Piece]:
    """The pieces with the embedding under its one name ``shared``."""
    pieces = dict(stored)
    tied = pieces.pop("encoder.embed_tokens.weight", None)
    if tied and "shared.weight" not in pieces:
        pieces["shared.weight"] = tied
    return pieces


_GGML_T5 = {
    "attn_q": "layer.0.SelfAttention.q",
    "attn_k": "layer.0.SelfAttention.k",
    "attn_v": "layer.0.SelfAttention.v",
    "attn_o": "layer.0.SelfAttention.o",
    "attn_rel_b": "layer.0.SelfAttention.relative_attention_bias",
    "attn_norm": "layer.0.layer_norm",
    "ffn_gate": "layer.1.DenseReluDense.wi_0",
    "ffn_up": "layer.1.DenseReluDense.wi_1",
    "ffn_down": "layer.1.DenseReluDense.wo",
    "ffn_norm": "layer.1.layer_norm",
}
"""ggml's names of the parts of a T5 block, in transformers' terms."""
_GGML_TOP = {"token_embd": "shared", "enc.output_norm": "encoder.final_layer_norm"}


def is_ggml_t5(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a T5 encoder as ggml has them (GGUF files)."""
    return "enc.blk.0.attn_q.weight" in names and "token_embd.weight" in names


def from_ggml_t5(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by transformers' names, and the names that have no place there."""
    made, unknown = {}, []
    gated = "enc.blk.0.ffn_gate.weight" in stored
    for name, piece in stored.items():
        stem = name.removesuffix(".weight")
        match = re.fullmatch(r"enc\.blk\.(\d+)\.(\w+)", stem)
        new = _GGML_TOP.get(stem)
        if match and match[2] in _GGML_T5:
            inner = _GGML_T5[match[2]] if gated else _GGML_T5[match[2]].replace("wi_1", "wi")
            new = f"encoder.block.{match[1]}.{inner}"
        if new is None:
            unknown.append(name)
        else:
            made[f"{new}.weight"] = piece
    return made, unknown


def clip_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a CLIPTextModel from shapes; heads are 64 wide in every CLIP."""
    vocabulary, width = pieces["embeddings.token_embedding.weight"].shape
    return dict(base) | {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": _count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": max(1, width // 64),
        "max_position_embeddings": pieces["embeddings.position_embedding.weight"].shape[0],
    }


def t5_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a T5EncoderModel from shapes."""
    vocabulary, width = pieces["shared.weight"].shape
    buckets, heads = pieces["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"].shape
    gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in pieces
    return dict(base) | {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": pieces["encoder.block.0.layer.0.SelfAttention.q.weight"].shape[0] // heads,
        "d_ff": pieces[f"encoder.block.0.layer.1.DenseReluDense.{'wi_0' if gated else 'wi'}.weight"].shape[0],
        "num_layers": _count(pieces, r"encoder\.block\.(\d+)\."),
        "num_heads": heads,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "relative_attention_num_buckets": buckets,
    }


def is_vision(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a CLIP vision model, with or without ``vision_model.``."""
    return "vision_model.embeddings.class_embedding" in names or "embeddings.class_embedding" in names


def from_vision(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    """The pieces named without ``vision_model.``; every name has a place."""
    return {name.removeprefix("vision_model."): piece for name, piece in stored.items()}, []


def vision_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a CLIPVisionModel from shapes: all but ViT-B have 16 heads, ViT-B and ViT-L OpenAI's activation."""
    (width,) = pieces["embeddings.class_embedding"].shape
    patch = pieces["embeddings.patch_embedding.weight"].shape[-1]
    patches = pieces["embeddings.position_embedding.weight"].shape[0] - 1
    return dict(base) | {
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": _count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": 12 if width == 768 else 16,
        "hidden_act": "quick_gelu" if width in (768, 1024) else "gelu",
        "image_size": patch * math.isqrt(patches),
        "patch_size": patch,
    }


def is_siglip(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of a SigLIP vision model, with or without ``vision_model.``."""
    bare = {name.removeprefix("vision_model.") for name in names}
    return {"embeddings.patch_embedding.bias", "post_layernorm.weight"} <= bare


def from_siglip(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    """The pieces named without ``vision_model.``, without the head, which nothing of ours reads."""
    named = from_vision(stored)[0]
    return {name: piece for name, piece in named.items() if not name.startswith("head.")}, []


def siglip_config(pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of a SiglipVisionModel from shapes: the smallest has 12 heads, the others 16."""
    width, _, _, patch = pieces["embeddings.patch_embedding.weight"].shape
    return dict(base) | {
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": _count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": 12 if width == 768 else 16,
        "image_size": patch * math.isqrt(pieces["embeddings.position_embedding.weight"].shape[0]),
        "patch_size": patch,
        "vision_use_head": False,
    }


def _count(pieces: Mapping[str, Piece], pattern: str) -> int:
    return 1 + max(int(m[1]) for n in pieces if (m := re.match(pattern, n)))
