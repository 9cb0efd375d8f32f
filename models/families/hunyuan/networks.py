"""HunyuanVideo's diffusion networks (1.0 and 1.5) in files: the original layout, ComfyUI's spelling of it, diffusers'.

Facts: diffusers' converters (convert_hunyuan_video_to_diffusers.py, convert_hunyuan_video1_5_to_diffusers.py). 1.5 has
queries, keys and values of its blocks apart, 1.0 has them in one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...family import Config, FileLayout, Network, Pieces
from ...loading.names import Names, Swapped, Target, blocks, count, present

_QKV = ("attn.to_q", "attn.to_k", "attn.to_v")
_CONTEXT = "context_embedder"
_TIME_TEXT = "time_text_embed"
_COMMON: Mapping[str, Target] = {
    "img_in.proj": "x_embedder.proj",
    "final_layer.linear": "proj_out",
    # The original has (shift, scale), diffusers (scale, shift).
    "final_layer.adaLN_modulation.1": Swapped("norm_out.linear"),
    "txt_in.input_embedder": f"{_CONTEXT}.proj_in",
    "txt_in.t_embedder.mlp.0": f"{_CONTEXT}.{_TIME_TEXT}.timestep_embedder.linear_1",
    "txt_in.t_embedder.mlp.2": f"{_CONTEXT}.{_TIME_TEXT}.timestep_embedder.linear_2",
    "txt_in.c_embedder.linear_1": f"{_CONTEXT}.{_TIME_TEXT}.text_embedder.linear_1",
    "txt_in.c_embedder.linear_2": f"{_CONTEXT}.{_TIME_TEXT}.text_embedder.linear_2",
    **blocks("txt_in.individual_token_refiner.blocks.*", f"{_CONTEXT}.token_refiner.refiner_blocks.*", {
        "norm1": "norm1", "norm2": "norm2", "self_attn_qkv": _QKV, "self_attn_proj": "attn.to_out.0",
        "mlp.fc1": "ff.net.0.proj", "mlp.fc2": "ff.net.2", "adaLN_modulation.1": "norm_out.linear",
    }),
    **blocks("double_blocks.*", "transformer_blocks.*", {
        "img_mod.linear": "norm1.linear", "txt_mod.linear": "norm1_context.linear",
        "img_attn_qkv": _QKV, "txt_attn_qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
        "img_attn_q": "attn.to_q", "img_attn_k": "attn.to_k", "img_attn_v": "attn.to_v",
        "txt_attn_q": "attn.add_q_proj", "txt_attn_k": "attn.add_k_proj", "txt_attn_v": "attn.add_v_proj",
        "img_attn_q_norm": "attn.norm_q", "img_attn_k_norm": "attn.norm_k", "img_attn_proj": "attn.to_out.0",
        "txt_attn_q_norm": "attn.norm_added_q", "txt_attn_k_norm": "attn.norm_added_k",
        "txt_attn_proj": "attn.to_add_out", "img_mlp.fc1": "ff.net.0.proj", "img_mlp.fc2": "ff.net.2",
        "txt_mlp.fc1": "ff_context.net.0.proj", "txt_mlp.fc2": "ff_context.net.2",
    }),
    **blocks("single_blocks.*", "single_transformer_blocks.*", {
        "modulation.linear": "norm.linear", "linear1": (*_QKV, "proj_mlp"), "linear2": "proj_out",
        "q_norm": "attn.norm_q", "k_norm": "attn.norm_k",
    }),
}  # fmt: skip
_COMFYUI = (
    (r"(_attn)_(qkv|proj)$", r"\1.\2"),
    (r"(_attn)_([qk])_norm$", r"\1.norm.\2_norm"),
    (r"^(single_blocks\.\*)\.([qk])_norm$", r"\1.norm.\2_norm"),
    (r"\.q_norm$", ".query_norm"),
    (r"\.k_norm$", ".key_norm"),
    (r"(_mod|\.modulation)\.linear$", r"\1.lin"),
    (r"mlp\.fc1$", "mlp.0"),
    (r"mlp\.fc2$", "mlp.2"),
    (r"^(time_in|guidance_in|txt_in\.t_embedder)\.mlp\.0$", r"\1.in_layer"),
    (r"^(time_in|guidance_in|txt_in\.t_embedder)\.mlp\.2$", r"\1.out_layer"),
    (r"^txt_in\.c_embedder\.linear_1$", "txt_in.c_embedder.in_layer"),
    (r"^txt_in\.c_embedder\.linear_2$", "txt_in.c_embedder.out_layer"),
)
"""Original layer names -> ComfyUI's spelling, as regular expressions."""


def _names(table: Mapping[str, Target]) -> Names:
    """Table for the original names and ComfyUI's spelling of them."""
    spelled = {}
    for name, target in table.items():
        for pattern, becomes in _COMFYUI:
            name = re.sub(pattern, becomes, name)
        spelled[name] = target
    return Names({**spelled, **table}, width="img_in.proj.weight", roles={"scale": "weight"})


_NAMES_1 = _names(
    {
        **_COMMON,
        "time_in.mlp.0": f"{_TIME_TEXT}.timestep_embedder.linear_1",
        "time_in.mlp.2": f"{_TIME_TEXT}.timestep_embedder.linear_2",
        "guidance_in.mlp.0": f"{_TIME_TEXT}.guidance_embedder.linear_1",
        "guidance_in.mlp.2": f"{_TIME_TEXT}.guidance_embedder.linear_2",
        "vector_in.in_layer": f"{_TIME_TEXT}.text_embedder.linear_1",
        "vector_in.out_layer": f"{_TIME_TEXT}.text_embedder.linear_2",
    }
)
_NAMES_15 = _names(
    {
        **_COMMON,
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
)


def _config_1(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a HunyuanVideoTransformer3DModel from the shapes of its tensors."""
    return _common(pieces, base) | {
        "num_single_layers": count(pieces, r"single_transformer_blocks\.(\d+)\."),
        "pooled_projection_dim": pieces["time_text_embed.text_embedder.linear_1.weight"].shape[1],
        "guidance_embeds": "time_text_embed.guidance_embedder.linear_1.weight" in pieces,
    }


def _config_15(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a HunyuanVideo15Transformer3DModel from the shapes of its tensors."""
    return _common(pieces, base) | {
        "text_embed_2_dim": pieces["context_embedder_2.linear_1.weight"].shape[1],
        "image_embed_dim": pieces["image_embedder.linear_1.weight"].shape[1],
        "use_meanflow": "time_embed.timestep_embedder_r.linear_1.weight" in pieces,
    }


def _common(pieces: Pieces, base: Config) -> dict[str, Any]:
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
        "num_layers": count(pieces, r"transformer_blocks\.(\d+)\."),
        "num_refiner_layers": count(pieces, r"context_embedder\.token_refiner\.refiner_blocks\.(\d+)\."),
        "mlp_ratio": pieces["transformer_blocks.0.ff.net.2.weight"].shape[1] / width,
        "text_embed_dim": pieces["context_embedder.proj_in.weight"].shape[1],
        "rope_axes_dim": [head - 2 * side, side, side],
    }


TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_hunyuan_video:HunyuanVideoTransformer3DModel",
    layouts=(
        FileLayout(
            present("txt_in.individual_token_refiner.blocks.0.norm1.weight", "vector_in.in_layer.weight"), _NAMES_1
        ),
        FileLayout(
            present(
                f"{_CONTEXT}.token_refiner.refiner_blocks.0.norm1.weight",
                f"{_TIME_TEXT}.text_embedder.linear_1.weight",
            )
        ),
    ),
    config=_config_1,
    base={"qk_norm": "rms_norm", "rope_theta": 256.0, "image_condition_type": None},
    ready="pipegraph.models.families.hunyuan.attention:install",
    blocks={
        "HunyuanVideoTransformerBlock": ("hidden_states", "encoder_hidden_states"),
        "HunyuanVideoSingleTransformerBlock": ("hidden_states", "encoder_hidden_states"),
    },
)
TRANSFORMER_15 = replace(
    TRANSFORMER,
    cls="diffusers.models.transformers.transformer_hunyuan_video15:HunyuanVideo15Transformer3DModel",
    layouts=(
        FileLayout(present("cond_type_embedding.weight", "byt5_in.fc1.weight"), _NAMES_15),
        FileLayout(present("context_embedder_2.linear_3.weight", "cond_type_embed.weight")),
    ),
    config=_config_15,
    base={"qk_norm": "rms_norm", "rope_theta": 256.0, "target_size": 960, "task_type": "t2v"},
    blocks={"HunyuanVideo15TransformerBlock": ("hidden_states", "encoder_hidden_states")},
)
