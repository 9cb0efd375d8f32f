"""SigLIP, the vision encoder of HunyuanVideo 1.5."""

from __future__ import annotations

import math
from typing import Any

from ...family import Config, FileLayout, Network, Pieces
from ...loading.names import Prefix, count


def _is_siglip(stored: Pieces) -> bool:
    bare = {name.removeprefix("vision_model.") for name in stored}
    return {"embeddings.patch_embedding.bias", "post_layernorm.weight"} <= bare


def _config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a SiglipVisionModel from shapes: the smallest has 12 heads, the others 16."""
    width, _, _, patch = pieces["embeddings.patch_embedding.weight"].shape
    return dict(base) | {
        "hidden_size": width,
        "intermediate_size": pieces["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": count(pieces, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": 12 if width == 768 else 16,
        "image_size": patch * math.isqrt(pieces["embeddings.position_embedding.weight"].shape[0]),
        "patch_size": patch,
        "vision_use_head": False,
    }


SIGLIP = Network(
    kind="clip_vision",
    cls="transformers.models.siglip.modeling_siglip:SiglipVisionModel",
    folder="image_encoder",
    layouts=(FileLayout(_is_siglip, Prefix("vision_model.")),),
    config=_config,
    base={"num_channels": 3, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6},
    overrides={"vision_use_head": False},
    ignored=r"position_ids$|^(vision_model\.)?head\.",
)
