"""Text and vision encoders that several families share: CLIP, T5, CLIP vision. Torch-free."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..family import Config, FileLayout, Network, Pieces
from ..loading.names import Names, Prefix, Renaming, blocks, count
from ..loading.pieces import Piece

BYT5_WIDTH = 1472
"""Width of ByT5 small, unique among T5 encoders."""


def _is_clip(stored: Pieces) -> bool:
    token = "embeddings.token_embedding.weight"
    return token in stored or f"text_model.{token}" in stored


def is_t5(stored: Pieces) -> bool:
    """Whether these tensors are a T5 encoder, with transformers' names."""
    return "encoder.block.0.layer.0.SelfAttention.q.weight" in stored


def is_umt5(stored: Pieces) -> bool:
    """Whether these tensors are a UMT5 encoder: unlike T5 it has relative positions in every block."""
    return "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight" in stored


def is_byt5(stored: Pieces) -> bool:
    """Whether these tensors are a ByT5 small encoder."""
    embedding = stored.get("shared.weight") or stored.get("encoder.embed_tokens.weight")
    return is_t5(stored) and embedding is not None and embedding.shape[-1:] == (BYT5_WIDTH,)


def _t5_tensors(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces with the embedding named ``shared`` only."""
    tensors = dict(stored)
    tied = tensors.pop("encoder.embed_tokens.weight", None)
    if tied and "shared.weight" not in tensors:
        tensors["shared.weight"] = tied
    return tensors, []


def _ggml(feed_forward: str) -> dict[str, Any]:
    """Names of ggml for a T5 encoder (GGUF files); ``gate`` is the class's name of the second projection."""
    return {
        "token_embd": "shared",
        "enc.output_norm": "encoder.final_layer_norm",
        **blocks(
            "enc.blk.*",
            "encoder.block.*",
            {
                "attn_q": "layer.0.SelfAttention.q",
                "attn_k": "layer.0.SelfAttention.k",
                "attn_v": "layer.0.SelfAttention.v",
                "attn_o": "layer.0.SelfAttention.o",
                "attn_rel_b": "layer.0.SelfAttention.relative_attention_bias",
                "attn_norm": "layer.0.layer_norm",
                "ffn_gate": "layer.1.DenseReluDense.wi_0",
                "ffn_up": f"layer.1.DenseReluDense.{feed_forward}",
                "ffn_down": "layer.1.DenseReluDense.wo",
                "ffn_norm": "layer.1.layer_norm",
            },
        ),
    }


T5_NAMES = Renaming(_t5_tensors)
_GATED, _PLAIN = Names(_ggml("wi_1")), Names(_ggml("wi"))


def _is_ggml(stored: Pieces, gated: bool) -> bool:
    known = "enc.blk.0.attn_q.weight" in stored and "token_embd.weight" in stored
    return known and gated == ("enc.blk.0.ffn_gate.weight" in stored)


def clip_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a CLIPTextModel from shapes; heads are 64 wide in every CLIP."""
    vocabulary, width = pieces["embeddings.token_embedding.weight"].shape
    return dict(base) | {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": max(1, width // 64),
        "max_position_embeddings": pieces["embeddings.position_embedding.weight"].shape[0],
    }


def t5_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a T5EncoderModel from shapes."""
    vocabulary, width = pieces["shared.weight"].shape
    buckets, heads = pieces["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"].shape
    gated = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight" in pieces
    return dict(base) | {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": pieces["encoder.block.0.layer.0.SelfAttention.q.weight"].shape[0] // heads,
        "d_ff": pieces[f"encoder.block.0.layer.1.DenseReluDense.{'wi_0' if gated else 'wi'}.weight"].shape[0],
        "num_layers": count(pieces, r"encoder\.block\.(\d+)\."),
        "num_heads": heads,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "relative_attention_num_buckets": buckets,
    }


def _is_vision(stored: Pieces) -> bool:
    return "vision_model.embeddings.class_embedding" in stored or "embeddings.class_embedding" in stored


def vision_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a CLIPVisionModel from shapes: all but ViT-B have 16 heads, ViT-B and ViT-L OpenAI's activation."""
    (width,) = pieces["embeddings.class_embedding"].shape
    patch = pieces["embeddings.patch_embedding.weight"].shape[-1]
    patches = pieces["embeddings.position_embedding.weight"].shape[0] - 1
    return dict(base) | {
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": 12 if width == 768 else 16,
        "hidden_act": "quick_gelu" if width in (768, 1024) else "gelu",
        "image_size": patch * math.isqrt(patches),
        "patch_size": patch,
    }


CLIP_L = Network(
    kind="clip",
    cls="transformers.models.clip.modeling_clip:CLIPTextModel",
    folder="text_encoder",
    text=True,
    layouts=(FileLayout(_is_clip, Prefix("text_model.")),),
    config=clip_config,
    base={
        "vocab_size": 49408,
        "hidden_size": 768,
        "intermediate_size": 3072,
        "projection_dim": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "max_position_embeddings": 77,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-05,
        "attention_dropout": 0.0,
        "bos_token_id": 49406,
        "eos_token_id": 49407,
        "pad_token_id": 49407,
    },
    ignored=r"(logit_scale|text_projection\.weight|position_ids)$",
    fragile=(),
)
_T5_BASE = {
    "vocab_size": 32128,
    "d_model": 4096,
    "d_kv": 64,
    "d_ff": 10240,
    "num_layers": 24,
    "num_heads": 64,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-06,
    "dropout_rate": 0.0,
    "tie_word_embeddings": False,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
T5 = Network(
    kind="t5",
    cls="transformers.models.t5.modeling_t5:T5EncoderModel",
    folder="text_encoder_2",
    text=True,
    layouts=(
        FileLayout(lambda stored: is_t5(stored) and not is_umt5(stored) and not is_byt5(stored), T5_NAMES),
        FileLayout(lambda stored: _is_ggml(stored, gated=True), _GATED),
        FileLayout(lambda stored: _is_ggml(stored, gated=False), _PLAIN),
    ),
    config=t5_config,
    base=_T5_BASE,
    ignored=r"spiece_model$",
    fragile=(),
)
UMT5 = replace(
    T5,
    kind="umt5",
    cls="transformers.models.umt5.modeling_umt5:UMT5EncoderModel",
    folder="text_encoder",
    layouts=(FileLayout(is_umt5, T5_NAMES),),
    base={**_T5_BASE, "vocab_size": 256384},
)
BYT5 = replace(
    T5,
    kind="byt5",
    fits=lambda config: config.get("d_model") == BYT5_WIDTH,
    layouts=(FileLayout(is_byt5, T5_NAMES),),
    base={**_T5_BASE, "vocab_size": 1510, "d_model": BYT5_WIDTH, "d_ff": 3584, "num_layers": 12, "num_heads": 6},
)
CLIP_VISION = Network(
    kind="clip_vision",
    cls="transformers.models.clip.modeling_clip:CLIPVisionModel",
    folder="image_encoder",
    layouts=(FileLayout(_is_vision, Prefix("vision_model.")),),
    config=vision_config,
    base={
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "image_size": 224,
        "patch_size": 14,
        "num_channels": 3,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-05,
        "projection_dim": 1024,
    },
    aliases=("CLIPVisionModelWithProjection",),
    ignored=r"(logit_scale|visual_projection\.weight|position_ids)$",
)
