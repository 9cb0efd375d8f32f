"""What GGUF files call architectures, tensors and settings, and what transformers calls them."""

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
"""What wavelengths are multiplied by: Llama 3.1's, and Phi 3's for long and for short prompts."""
GEMMA_LOCAL: Final = 10000.0
"""Base of the wavelengths in layers with a window, where a file does not tell it."""


@dataclass(frozen=True)
class Family:
    """How an architecture is stored."""

    network: str
    """Class of transformers."""
    names: Mapping[str, str]
    """Of the parts of a layer."""
    settings: Callable[[Header], dict[str, Any]]
    """Those beyond the usual ones."""
    turned: bool = False
    """Rows of queries and keys are in the order of llama.cpp's rotation."""
    shifted: bool = False
    """Weights of norms are stored with the 1 that the network adds to them."""


def family_of(header: Header) -> Family:
    """How a file's architecture is stored.

    Raises:
        LoadError: it is not known.
    """
    arch = str(header.metadata.get("general.architecture"))
    if arch in FAMILIES:
        return FAMILIES[arch]
    known = ", ".join(FAMILIES)
    raise LoadError(f"{header.path} is of the architecture {arch!r}; language models that are read: {known}")


def name_of(name: str, family: Family, path: Path) -> str:
    """A tensor's name in transformers.

    Raises:
        LoadError: it is not known.
    """
    stem, _, leaf = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    inner = family.names.get(layer[2]) if layer else None
    whole = f"model.layers.{layer[1]}.{inner}" if layer and inner else TOP.get(stem)
    if whole is None:
        raise LoadError(f"{path}: the tensor `{name}` is not known; layers have {', '.join(family.names)}")
    return f"{whole}.{leaf}"


def check_header(header: Header) -> None:
    """Refuse a file of a language model whose header shows that tensors are missing or do not fit.

    Raises:
        LoadError: names the tensors; also if the architecture is not known or a setting is missing.
    """
    family, config = family_of(header), config_of(header)
    kind = {"gemma3": "gemma3_text"}.get(arch := header.metadata["general.architecture"], arch)
    pieces = {
        name_of(name, family, header.path): Piece(header.path, name, e.shape, e.dtype, e.begin)
        for name, e in header.tensors.items()
        if name not in FACTORS
    }
    if kind in LAYERS:
        check_names(header.path, kind, pieces, config, writes=True)


def told(header: Header, name: str, default: Any = None) -> Any:
    """A setting of the architecture.

    Raises:
        LoadError: it is missing and has no default.
    """
    arch = header.metadata.get("general.architecture")
    found = header.metadata.get(f"{arch}.{name}", default)
    if found is None:
        raise LoadError(f"{header.path}: its metadata lack {arch}.{name}")
    kinds: tuple[type, ...] = (str,) if isinstance(default, str) else (int, float)
    if type(found) not in kinds or (isinstance(found, float) and not math.isfinite(found)):
        raise LoadError(f"{header.path}: {arch}.{name} in its metadata is {found!r:.80}")
    return found


def config_of(header: Header) -> dict[str, Any]:
    """Settings of the class of transformers.

    Raises:
        LoadError: the architecture is not known, or a setting is missing or makes no sense.
    """
    if (layers := told(header, "block_count")) > len(header.tensors):
        raise LoadError(f"{header.path}: it says it has {layers} layers, and holds {len(header.tensors)} tensors")
    try:
        return _config_of(header)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, KeyError, IndexError) as e:
        raise LoadError(f"{header.path}: its metadata make no sense: {e}") from e


def _config_of(header: Header) -> dict[str, Any]:
    family, meta = family_of(header), header.metadata
    heads, width = told(header, "attention.head_count"), told(header, "embedding_length")
    ids = {k: meta.get(f"tokenizer.ggml.{k}_token_id") for k in ("bos", "eos", "eot", "eom")}
    ends = sorted({i for k in ("eos", "eot", "eom") if (i := ids[k]) is not None})
    return {
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": told(header, "feed_forward_length"),
        "num_hidden_layers": told(header, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": told(header, "attention.head_count_kv", heads),
        "max_position_embeddings": told(header, "context_length"),
        "rms_norm_eps": float(told(header, "attention.layer_norm_rms_epsilon")),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": ids["bos"],
        "eos_token_id": ends or None,
        **family.settings(header),
    }


def _rope(header: Header) -> dict[str, Any]:
    scaling = told(header, "rope.scaling.type", "none")
    base = {"rope_theta": float(told(header, "rope.freq_base", 10000.0))}
    if scaling == "linear":
        return base | {"rope_type": "linear", "factor": float(told(header, "rope.scaling.factor"))}
    if scaling != "none":
        raise LoadError(f"{header.path} scales its positions in the way {scaling!r}; read are: none, linear")
    return base | {"rope_type": "default"}


def _head(header: Header) -> int:
    """Numbers of a head."""
    width, heads = told(header, "embedding_length"), told(header, "attention.head_count")
    return int(told(header, "attention.key_length", told(header, "rope.dimension_count", width // heads)))


def _llama(header: Header) -> dict[str, Any]:
    biased = "blk.0.attn_q.bias" in header.tensors
    return {"head_dim": _head(header), "rope_parameters": _rope(header), "attention_bias": biased}


def _qwen2(header: Header) -> dict[str, Any]:
    return {"head_dim": _head(header), "rope_parameters": _rope(header)}


def _qwen3moe(header: Header) -> dict[str, Any]:
    inner = told(header, "expert_feed_forward_length")
    return _llama(header) | {
        "intermediate_size": told(header, "feed_forward_length", inner),
        "moe_intermediate_size": inner,
        "num_experts": told(header, "expert_count"),
        "num_experts_per_tok": told(header, "expert_used_count"),
        "norm_topk_prob": True,
    }


def _phi3(header: Header) -> dict[str, Any]:
    head = told(header, "embedding_length") // told(header, "attention.head_count")
    context, turned = told(header, "context_length"), told(header, "rope.dimension_count", head)
    first = told(header, "rope.scaling.original_context_length", context)
    rope: dict[str, Any] = {"partial_rotary_factor": turned / head}
    window = told(header, "attention.sliding_window", 0)
    if FACTORS[1] in header.tensors:
        ones = [1.0] * (turned // 2)  # the file's own are put in when it is read
        rope |= {
            "rope_type": "longrope",
            "rope_theta": float(told(header, "rope.freq_base", 10000.0)),
            "short_factor": ones,
            "long_factor": ones,
            "original_max_position_embeddings": first,
        }
        if attention := header.metadata.get("phi3.rope.scaling.attn_factor"):
            rope["attention_factor"] = float(attention)
    else:
        rope = _rope(header) | rope
    return {
        "rope_parameters": rope,
        "original_max_position_embeddings": first,
        "sliding_window": window if 0 < window < context else None,
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id"),
    }


def _gemma3(header: Header) -> dict[str, Any]:
    width, heads, layers = (told(header, k) for k in ("embedding_length", "attention.head_count", "block_count"))
    each, head = told(header, "attention.sliding_window_pattern", 6), told(header, "attention.key_length", 256)
    local = float(told(header, "rope.freq_base_swa", GEMMA_LOCAL))
    return {
        "head_dim": head,
        "query_pre_attn_scalar": width // heads if layers == 62 else head,  # the 27B's
        "sliding_window": told(header, "attention.sliding_window"),
        "layer_types": [f"{'sliding' if (i + 1) % each else 'full'}_attention" for i in range(layers)],
        "rope_parameters": {
            "full_attention": _rope(header),
            "sliding_attention": {"rope_type": "default", "rope_theta": local},
        },
        "final_logit_softcapping": header.metadata.get("gemma3.final_logit_softcapping"),
        "pad_token_id": header.metadata.get("tokenizer.ggml.padding_token_id"),
    }


FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family("LlamaForCausalLM", _PLAIN, _llama, turned=True),
    "qwen2": Family("Qwen2ForCausalLM", _PLAIN, _qwen2),
    "qwen3": Family("Qwen3ForCausalLM", _PLAIN, _llama),
    "qwen3moe": Family("Qwen3MoeForCausalLM", _PLAIN | _EXPERTS, _qwen3moe),
    "phi3": Family("Phi3ForCausalLM", _PLAIN | {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}, _phi3),
    "gemma3": Family(
        "Gemma3ForCausalLM",
        _PLAIN
        | {
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        },
        _gemma3,
        shifted=True,
    ),
}
"""By GGUF's names (Mistral and SmolLM call themselves llama)."""
