"""Names of architectures, tensors and settings in GGUF files and in transformers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...loading.header_values import Header, LoadError
from ...loading.language_names import LAYERS, check_names
from ...loading.pieces import Piece

_PLAIN: Final = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
_EXPERTS: Final = {"ffn_gate_inp": "mlp.gate"} | {f"ffn_{x}_exps": f"mlp.experts.{x}" for x in ("gate", "up", "down")}
TOP: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
FACTORS: Final = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""RoPE scaling factors: Llama 3.1's, and Phi 3's for long and for short prompts."""
GEMMA_LOCAL: Final = 10000.0
"""RoPE base of sliding-window layers, where the file names none."""


@dataclass(frozen=True)
class Architecture:
    """How an architecture is stored."""

    network: str
    """transformers' class."""
    names: Mapping[str, str]
    """Modules of a layer: GGUF's name -> transformers'."""
    settings: Callable[[Header], dict[str, Any]]
    """Config entries beyond the common ones."""
    permuted: bool = False
    """Rows of q and k are permuted for llama.cpp's interleaved RoPE."""
    norm_plus_one: bool = False
    """Norm weights are stored as 1 + weight, and the network adds the 1 itself."""


def architecture_of(header: Header) -> Architecture:
    """How a file's architecture is stored.

    Raises:
        LoadError: it is not known.
    """
    arch = str(header.metadata.get("general.architecture"))
    if arch in ARCHITECTURES:
        return ARCHITECTURES[arch]
    known = ", ".join(ARCHITECTURES)
    raise LoadError(f"{header.path} is of the architecture {arch!r}; language models that are read: {known}")


def name_of(name: str, architecture: Architecture, path: Path) -> str:
    """A tensor's name in transformers.

    Raises:
        LoadError: it is not known.
    """
    stem, _, leaf = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    inner = architecture.names.get(layer[2]) if layer else None
    whole = f"model.layers.{layer[1]}.{inner}" if layer and inner else TOP.get(stem)
    if whole is None:
        raise LoadError(f"{path}: the tensor `{name}` is not known; layers have {', '.join(architecture.names)}")
    return f"{whole}.{leaf}"


def check_header(header: Header) -> None:
    """Check that the tensors in the header of a language model's file are complete and fit.

    Raises:
        LoadError: names the tensors; also if the architecture is not known or a setting is missing.
    """
    architecture, config = architecture_of(header), config_of(header)
    kind = {"gemma3": "gemma3_text"}.get(arch := header.metadata["general.architecture"], arch)
    pieces = {
        name_of(name, architecture, header.path): Piece(header.path, name, e.shape, e.dtype, e.begin)
        for name, e in header.tensors.items()
        if name not in FACTORS
    }
    if kind in LAYERS:
        check_names(header.path, kind, pieces, config, writes=True)


def setting(header: Header, name: str, default: Any = None) -> Any:
    """A setting of the architecture.

    Raises:
        LoadError: it is missing and has no default.
    """
    arch = header.metadata.get("general.architecture")
    value = header.metadata.get(f"{arch}.{name}", default)
    if value is None:
        raise LoadError(f"{header.path}: its metadata lack {arch}.{name}")
    kinds: tuple[type, ...] = (str,) if isinstance(default, str) else (int, float)
    if type(value) not in kinds or (isinstance(value, float) and not math.isfinite(value)):
        raise LoadError(f"{header.path}: {arch}.{name} in its metadata is {value!r:.80}")
    return value


def config_of(header: Header) -> dict[str, Any]:
    """Config entries for transformers' class.

    Raises:
        LoadError: the architecture is not known, or a setting is missing or makes no sense.
    """
    if (layers := setting(header, "block_count")) > len(header.tensors):
        raise LoadError(f"{header.path}: it says it has {layers} layers, and holds {len(header.tensors)} tensors")
    try:
        return _config_of(header)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError, IndexError) as e:
        raise LoadError(f"{header.path}: its metadata make no sense: {e}") from e


def _config_of(header: Header) -> dict[str, Any]:
    architecture, meta = architecture_of(header), header.metadata
    heads, width = setting(header, "attention.head_count"), setting(header, "embedding_length")
    ids = {k: meta.get(f"tokenizer.ggml.{k}_token_id") for k in ("bos", "eos", "eot", "eom")}
    ends = sorted({i for k in ("eos", "eot", "eom") if (i := ids[k]) is not None})
    return {
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": setting(header, "feed_forward_length"),
        "num_hidden_layers": setting(header, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": setting(header, "attention.head_count_kv", heads),
        "max_position_embeddings": setting(header, "context_length"),
        "rms_norm_eps": float(setting(header, "attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": ids["bos"],
        "eos_token_id": ends or None,
        **architecture.settings(header),
    }


def _rope(header: Header) -> dict[str, Any]:
    scaling = setting(header, "rope.scaling.type", "none")
    base = {"rope_theta": float(setting(header, "rope.freq_base", 10000.0))}
    if scaling == "linear":
        return base | {"rope_type": "linear", "factor": float(setting(header, "rope.scaling.factor"))}
    if scaling != "none":
        raise LoadError(f"{header.path} scales its positions in the way {scaling!r}; read are: none, linear")
    return base | {"rope_type": "default"}


def _head(header: Header) -> int:
    """Head dimension."""
    width, heads = setting(header, "embedding_length"), setting(header, "attention.head_count")
    return int(setting(header, "attention.key_length", setting(header, "rope.dimension_count", width // heads)))


def _llama(header: Header) -> dict[str, Any]:
    biased = "blk.0.attn_q.bias" in header.tensors
    return {"head_dim": _head(header), "rope_parameters": _rope(header), "attention_bias": biased}


def _qwen2(header: Header) -> dict[str, Any]:
    return {"head_dim": _head(header), "rope_parameters": _rope(header)}


def _qwen3moe(header: Header) -> dict[str, Any]:
    inner = setting(header, "expert_feed_forward_length")
    return _llama(header) | {
        "intermediate_size": setting(header, "feed_forward_length", inner),
        "moe_intermediate_size": inner,
        "num_experts": setting(header, "expert_count"),
        "num_experts_per_tok": setting(header, "expert_used_count"),
        "norm_topk_prob": True,
    }


def _phi3(header: Header) -> dict[str, Any]:
    head = setting(header, "embedding_length") // setting(header, "attention.head_count")
    context, rotated = setting(header, "context_length"), setting(header, "rope.dimension_count", head)
    original = setting(header, "rope.scaling.original_context_length", context)
    rope: dict[str, Any] = {"partial_rotary_factor": rotated / head}
    window = setting(header, "attention.sliding_window", 0)
    if FACTORS[1] in header.tensors:
        placeholder = [1.0] * (rotated // 2)  # replaced by the file's factors when weights are loaded
        rope |= {
            "rope_type": "longrope",
            "rope_theta": float(setting(header, "rope.freq_base", 10000.0)),
            "short_factor": placeholder,
            "long_factor": placeholder,
            "original_max_position_embeddings": original,
        }
        if attention := header.metadata.get("phi3.rope.scaling.attn_factor"):
            rope["attention_factor"] = float(attention)
    else:
        rope = _rope(header) | rope
    return {
        "rope_parameters": rope,
        "original_max_position_embeddings": original,
        "sliding_window": window if 0 < window < context else None,
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id"),
    }


def _gemma3(header: Header) -> dict[str, Any]:
    width, heads, layers = (setting(header, k) for k in ("embedding_length", "attention.head_count", "block_count"))
    each, head = setting(header, "attention.sliding_window_pattern", 6), setting(header, "attention.key_length", 256)
    local = float(setting(header, "rope.freq_base_swa", GEMMA_LOCAL))
    return {
        "head_dim": head,
        "query_pre_attn_scalar": width // heads if layers == 62 else head,  # the 27B's
        "sliding_window": setting(header, "attention.sliding_window"),
        "layer_types": [f"{'sliding' if (i + 1) % each else 'full'}_attention" for i in range(layers)],
        "rope_parameters": {
            "full_attention": _rope(header),
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
        "final_logit_softcapping": header.metadata.get("gemma3.final_logit_softcapping"),
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id"),
    }


ARCHITECTURES: Final[Mapping[str, Architecture]] = {
    "llama": Architecture("LlamaForCausalLM", _PLAIN, _llama, permuted=True),
    "qwen2": Architecture("Qwen2ForCausalLM", _PLAIN, _qwen2),
    "qwen3": Architecture("Qwen3ForCausalLM", _PLAIN, _llama),
    "qwen3moe": Architecture("Qwen3MoeForCausalLM", _PLAIN | _EXPERTS, _qwen3moe),
    "phi3": Architecture(
        "Phi3ForCausalLM", _PLAIN | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, _phi3
    ),
    "gemma3": Architecture(
        "Gemma3ForCausalLM",
        _PLAIN
        | {
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        },
        _gemma3,
        norm_plus_one=True,
    ),
}
"""By GGUF's architecture (Mistral and SmolLM are llama)."""
