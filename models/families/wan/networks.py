"""Wan's diffusion networks in files: original layout (also ComfyUI's) and diffusers'."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...family import Config, FileLayout, Network, Pieces
from ...loading.names import Names, blocks, count, present

_EMBEDDER = "condition_embedder"
_ATTENTION = {
    "q": "to_q",
    "k": "to_k",
    "v": "to_v",
    "o": "to_out.0",
    "norm_q": "norm_q",
    "norm_k": "norm_k",
    "k_img": "add_k_proj",
    "v_img": "add_v_proj",
    "norm_k_img": "norm_added_k",
}
_BLOCK = {
    # The original calls the norm before cross attention norm3, diffusers norm2.
    "norm3": "norm2",
    "ffn.0": "ffn.net.0.proj",
    "ffn.2": "ffn.net.2",
    "modulation": "scale_shift_table",
    "before_proj": "proj_in",
    "after_proj": "proj_out",
    **blocks("self_attn", "attn1", _ATTENTION),
    **blocks("cross_attn", "attn2", _ATTENTION),
}
NAMES = Names(
    {
        "time_embedding.0": f"{_EMBEDDER}.time_embedder.linear_1",
        "time_embedding.2": f"{_EMBEDDER}.time_embedder.linear_2",
        "text_embedding.0": f"{_EMBEDDER}.text_embedder.linear_1",
        "text_embedding.2": f"{_EMBEDDER}.text_embedder.linear_2",
        "time_projection.1": f"{_EMBEDDER}.time_proj",
        "img_emb.proj.0": f"{_EMBEDDER}.image_embedder.norm1",
        "img_emb.proj.1": f"{_EMBEDDER}.image_embedder.ff.net.0.proj",
        "img_emb.proj.3": f"{_EMBEDDER}.image_embedder.ff.net.2",
        "img_emb.proj.4": f"{_EMBEDDER}.image_embedder.norm2",
        "img_emb.emb_pos": f"{_EMBEDDER}.image_embedder.pos_embed",
        "head.head": "proj_out",
        "head.modulation": "scale_shift_table",
        **{
            name: name
            for name in (
                "patch_embedding",
                "vace_patch_embedding",
                "ref_conv",
                "control_adapter.conv",
                "control_adapter.residual_blocks.*.conv1",
                "control_adapter.residual_blocks.*.conv2",
            )
        },
        **blocks("blocks.*", "blocks.*", _BLOCK),
        **blocks("vace_blocks.*", "vace_blocks.*", _BLOCK),
    }
)
"""The names of Wan-Video/Wan2.1 (wan/modules/model.py, vace_model.py), and those of WanTransformer3DModel."""


def _config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a Wan network from tensor shapes; head width from ``base`` (128)."""
    shapes = {name: piece.shape for name, piece in pieces.items()}
    width, channels, *patch = shapes["patch_embedding.weight"]
    image = f"{_EMBEDDER}.image_embedder"
    config = dict(base) | {
        "in_channels": channels,
        "out_channels": shapes["proj_out.weight"][0] // math.prod(patch),
        "patch_size": patch,
        "num_attention_heads": max(1, width // base["attention_head_dim"]),
        "text_dim": shapes[f"{_EMBEDDER}.text_embedder.linear_1.weight"][1],
        "freq_dim": shapes[f"{_EMBEDDER}.time_embedder.linear_1.weight"][1],
        "ffn_dim": shapes["blocks.0.ffn.net.0.proj.weight"][0],
        "num_layers": count(pieces, r"blocks\.(\d+)\."),
        "cross_attn_norm": "blocks.0.norm2.weight" in shapes,
        "image_dim": shapes[f"{image}.norm1.weight"][0] if f"{image}.norm1.weight" in shapes else None,
        "added_kv_proj_dim": width if "blocks.0.attn2.add_k_proj.weight" in shapes else None,
        "pos_embed_seq_len": shapes[f"{image}.pos_embed"][1] if f"{image}.pos_embed" in shapes else None,
    }
    if "ref_conv.weight" in shapes:
        config["reference_channels"] = shapes["ref_conv.weight"][1]
    if "control_adapter.conv.weight" in shapes:
        config["camera_channels"] = shapes["control_adapter.conv.weight"][1] // 64
    return config


def _vace_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a WanVACETransformer3DModel. VACE block i attaches to block i * (num_layers // num_vace_blocks)."""
    config = _config(pieces, base)
    layers, extra = config["num_layers"], count(pieces, r"vace_blocks\.(\d+)\.")
    return config | {
        "vace_layers": list(range(0, layers, layers // extra))[:extra],
        "vace_in_channels": pieces["vace_patch_embedding.weight"].shape[1],
    }


_VACE = "vace_patch_embedding.weight"
_ORIGINAL = ("blocks.0.self_attn.q.weight", "head.modulation")
_DIFFUSERS = ("blocks.0.attn1.to_q.weight", f"{_EMBEDDER}.time_proj.weight")
TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_wan:WanTransformer3DModel",
    layouts=(
        FileLayout(present(*_ORIGINAL, absent=[_VACE]), NAMES),
        FileLayout(present(*_DIFFUSERS, absent=[_VACE])),
    ),
    config=_config,
    base={"attention_head_dim": 128, "qk_norm": "rms_norm_across_heads", "eps": 1e-6, "rope_max_seq_len": 1024},
    adapt="pipegraph.models.families.wan.fun:extend",
    ready="pipegraph.models.families.wan.attention:mark_self_attention",
    fragile=("condition_embedder.*", "proj_out"),
    blocks={"WanTransformerBlock": ("hidden_states",)},
    context_parallel=True,
)
VACE = replace(
    TRANSFORMER,
    cls="diffusers.models.transformers.transformer_wan_vace:WanVACETransformer3DModel",
    layouts=(FileLayout(present(*_ORIGINAL, _VACE), NAMES), FileLayout(present(*_DIFFUSERS, _VACE))),
    config=_vace_config,
    adapt="",
    context_parallel=False,
)
