"""Language models in single safetensors files, as ComfyUI has its text encoders: no configuration lies beside them.

Values that shapes do not tell are constants by kind of model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .header_values import Header, LoadError
from .language_names import check_names
from .lock import imported
from .pieces import Piece
from .quantized import pieces_of

if TYPE_CHECKING:
    import torch

_FIRST: Final = "model.layers.0."
_FACTS: Final[Mapping[str, dict[str, Any]]] = {
    "qwen3": {"rope_theta": 1e6, "rms_norm_eps": 1e-6, "max_position_embeddings": 40960, "eos_token_id": 151645},
    "llama": {"rope_theta": 5e5, "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "eos_token_id": 128009},
    "gemma2": {"rope_theta": 1e4, "rms_norm_eps": 1e-6, "max_position_embeddings": 8192, "eos_token_id": 1},
    "gemma3_text": {
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 131072,
        "eos_token_id": [1, 106],
        "sliding_window": 1024,
    },
    "qwen2_5_vl": {"rope_theta": 1e6, "rms_norm_eps": 1e-6, "max_position_embeddings": 128000, "eos_token_id": 151645},
    "qwen3_vl": {"rope_theta": 5e6, "rms_norm_eps": 1e-6, "max_position_embeddings": 262144, "eos_token_id": 151645},
}
_HEAD: Final = {"llama": 128, "gemma2": 256, "qwen2_5_vl": 128}
"""Head width where no query norm tells it."""
_NETWORKS: Final = {
    "qwen3": "Qwen3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
}
_NO_WEIGHTS: Final = ("spiece_model", "tekken_model", "tokenizer_json")
"""Tokenizers stored as tensors in some files."""
_EYES: Final = ("vision_model.", "multi_modal_projector.")
"""Gemma 3's vision tower: not loaded."""


_DEEPER: Final = {24: [5, 11, 17]}
"""Qwen3-VL's vision layers whose features go to the first text layers, by tower depth; else its default."""
_USUAL_DEEPER: Final = [8, 16, 24]
_SMOOTHED: Final = ".pre_quant_scale"
"""Suffix of factors that multiply the inputs of a quantized layer (AWQ)."""


def kind_in(header: Header) -> str:
    """The ``model_type`` of the language model in a file, from tensor names; empty if there is none."""
    names = header.tensors
    if header.form != "safetensors" or f"{_FIRST}self_attn.q_proj.weight" not in names:
        return ""
    normed, sandwiched = (
        f"{_FIRST}self_attn.q_norm.weight" in names,
        f"{_FIRST}pre_feedforward_layernorm.weight" in names,
    )
    if any(name.startswith("visual.") for name in names):
        deeper = any(name.startswith("visual.deepstack_merger_list.") for name in names)
        return ("qwen3_vl" if deeper else "") if normed else "qwen2_5_vl"
    if normed:
        return "gemma3_text" if sandwiched else "qwen3"
    if sandwiched:
        return "gemma2"
    return "" if f"{_FIRST}self_attn.q_proj.bias" in names else "llama"


def config_of(kind: str, pieces: Mapping[str, Piece]) -> dict[str, Any]:
    """Config for the class of transformers, from shapes and known facts."""
    vocabulary, width = pieces["model.embed_tokens.weight"].shape
    norm = pieces.get(f"{_FIRST}self_attn.q_norm.weight")
    head = norm.shape[0] if norm else _HEAD[kind]
    facts = dict(_FACTS[kind])
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": facts.pop("rope_theta")}
    tied = "lm_head.weight" not in pieces
    text = facts | {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": pieces[f"{_FIRST}mlp.gate_proj.weight"].shape[0],
        "num_hidden_layers": _count(pieces, r"model\.layers\.(\d+)\."),
        "num_attention_heads": pieces[f"{_FIRST}self_attn.q_proj.weight"].shape[0] // head,
        "num_key_value_heads": pieces[f"{_FIRST}self_attn.k_proj.weight"].shape[0] // head,
        "head_dim": head,
        "rope_parameters": rope,
        "tie_word_embeddings": tied,
        "bos_token_id": None,
    }
    if kind == "gemma3_text":  # from 4B on: every sixth layer sees all of a text that is stretched by 8
        whole = rope | {"rope_type": "linear", "factor": 8.0}
        text["rope_parameters"] = {"full_attention": whole, "sliding_attention": rope | {"rope_theta": 1e4}}
        return text | {"query_pre_attn_scalar": head}
    if kind == "qwen3_vl":
        rope |= {"mrope_interleaved": True, "mrope_section": [head * 3 // 16, head * 5 // 32, head * 5 // 32]}
        return {"text_config": text, "vision_config": _tower(pieces, width), "tie_word_embeddings": tied}
    if kind != "qwen2_5_vl":
        return text
    rope["mrope_section"] = [head // 8, head * 3 // 16, head * 3 // 16]
    vision = {
        "hidden_size": pieces["visual.patch_embed.proj.weight"].shape[0],
        "intermediate_size": pieces["visual.blocks.0.mlp.gate_proj.weight"].shape[0],
        "depth": _count(pieces, r"visual\.blocks\.(\d+)\."),
        "out_hidden_size": width,
    }
    return {"text_config": text, "vision_config": vision, "tie_word_embeddings": tied}


def _stored(header: Header, kind: str) -> dict[str, Piece]:
    """The tensors of a file that the network reads."""
    aside = _EYES if kind == "gemma3_text" else ()
    return {n: p for n, p in pieces_of([header]).items() if n not in _NO_WEIGHTS and not n.startswith(aside)}


def check_file(header: Header, kind: str) -> None:
    """Refuse a file whose header lacks tensors of its language model, or whose tensors do not fit.

    Raises:
        LoadError: names them.
    """
    pieces = _stored(header, kind)
    check_names(header.path, kind, pieces, {}, writes=False, cut=kind == "qwen3_vl")
    try:
        config = config_of(kind, pieces)
    except KeyError as e:
        raise LoadError(f"{header.path}: tensors of {kind} are missing: {e.args[0]}") from e
    except (ValueError, IndexError, ZeroDivisionError) as e:
        raise LoadError(f"{header.path}: tensors that tell the sizes of its {kind} have other shapes ({e})") from e
    check_names(header.path, kind, pieces, config.get("text_config", config), writes=False, cut=kind == "qwen3_vl")


def _tower(pieces: Mapping[str, Piece], width: int) -> dict[str, Any]:
    """Vision config of Qwen3-VL."""
    depth = _count(pieces, r"visual\.blocks\.(\d+)\.")
    inner, hidden = pieces["visual.blocks.0.mlp.linear_fc1.weight"].shape
    deeper = _count(pieces, r"visual\.deepstack_merger_list\.(\d+)\.")
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "depth": depth,
        "out_hidden_size": width,
        "num_position_embeddings": pieces["visual.pos_embed.weight"].shape[0],
        "deepstack_visual_indexes": _DEEPER.get(depth, _USUAL_DEEPER)[:deeper],
    }


def ties(kind: str, width: int) -> bool:
    """Whether the output layer is tied to the embedding: small models and Gemma."""
    return kind in ("gemma2", "gemma3_text") or width < 3584


def _count(pieces: Mapping[str, Piece], pattern: str) -> int:
    return 1 + max(int(m[1]) for name in pieces if (m := re.match(pattern, name)))


def _named(kind: str, name: str) -> str:
    """A tensor's name in transformers."""
    if kind not in ("qwen2_5_vl", "qwen3_vl") or name.startswith("lm_head."):
        return name
    return f"model.{name}" if name.startswith("visual.") else f"model.language_model.{name.removeprefix('model.')}"


def read_network(header: Header, kind: str, device: torch.device, dtype: torch.dtype, quantize: str = "") -> Any:
    """Load the network of a file, not on the kernel layer yet; packed weights stay packed.

    Args:
        header: Header of the file.
        kind: Its ``model_type``; see :func:`kind_in`.
        device: Device of its weights.
        dtype: Compute dtype.
        quantize: How to keep weights of linear layers that are stored plain, one of ``quantize.FORMATS``, or empty.

    Raises:
        LoadError: a tensor is missing, has no place, or has another shape.
    """
    from torch import nn

    from ..quantize import count_bytes
    from .filling import Filling, pack_all
    from .reading import Reader
    from .transformers_networks import empty_network, fill_network

    stored = _stored(header, kind)
    check_file(header, kind)
    cls: Any = imported(f"transformers:{_NETWORKS[kind]}")
    network = empty_network(cls, cls.config_class(**config_of(kind, stored)), dtype)
    pieces = {_named(kind, name): piece for name, piece in stored.items()}
    smoothed = {name: pieces.pop(name) for name in [n for n in pieces if n.endswith(_SMOOTHED)]}
    if kind == "qwen3_vl" and "model.language_model.norm.weight" not in pieces:
        network.model.language_model.norm = nn.Identity()  # cut behind the layer that is read
    how = Filling(origin=header.path, label=cls.__name__, device=device, dtype=dtype, quantize=quantize)
    pack_all(network, fill_network(network, pieces, how))
    with Reader() as reader:
        for name, piece in smoothed.items():
            _smooth(network.get_submodule(name.removesuffix(_SMOOTHED)), reader.dense(piece, dtype).to(device))
    count_bytes(network)
    return network


def _smooth(layer: Any, factors: torch.Tensor) -> None:
    """Multiply a layer's inputs by these factors."""
    if factors.shape != (layer.in_features,):
        raise LoadError(f"`pre_quant_scale` {list(factors.shape)} does not fit a layer of {layer.in_features} inputs")
    layer.register_buffer("input_factors", factors)
    layer.register_forward_pre_hook(lambda own, inputs: (inputs[0] * own.input_factors.to(inputs[0].dtype),))
