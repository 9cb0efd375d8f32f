"""Required tensors of well-known language models, for checks of headers. Torch-free."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .complete import COUNTED, absent, refuse
from .headers import read_header, read_json, weight_files
from .pieces import Piece
from .quantized import pieces_of

_ATTENTION: Final = {"q_proj": "QH", "k_proj": "KH", "v_proj": "KH", "o_proj": "HQ"}
_MLP: Final = {"gate_proj": "IH", "up_proj": "IH", "down_proj": "HI"}
_LLAMA: Final = {
    **{f"self_attn.{name}.weight": shape for name, shape in _ATTENTION.items()},
    **{f"mlp.{name}.weight": shape for name, shape in _MLP.items()},
    "input_layernorm.weight": "H",
    "post_attention_layernorm.weight": "H",
}
_HEAD_NORMS: Final = {"self_attn.q_norm.weight": "D", "self_attn.k_norm.weight": "D"}
_SANDWICH: Final = {"pre_feedforward_layernorm.weight": "H", "post_feedforward_layernorm.weight": "H"}
_BIASES: Final = {"self_attn.q_proj.bias": "Q", "self_attn.k_proj.bias": "K", "self_attn.v_proj.bias": "K"}
LAYERS: Final[Mapping[str, Mapping[str, str]]] = {
    "llama": _LLAMA, "mistral": _LLAMA, "smollm3": _LLAMA, "gemma": _LLAMA,
    "qwen2": _LLAMA | _BIASES, "qwen2_5_vl": _LLAMA | _BIASES, "qwen2_5_vl_text": _LLAMA | _BIASES,
    "qwen3": _LLAMA | _HEAD_NORMS, "qwen3_vl": _LLAMA | _HEAD_NORMS, "qwen3_vl_text": _LLAMA | _HEAD_NORMS,
    "gemma2": _LLAMA | _SANDWICH, "gemma3_text": _LLAMA | _SANDWICH | _HEAD_NORMS,
    "gemma3": _LLAMA | _SANDWICH | _HEAD_NORMS,
    "phi3": {
        "self_attn.qkv_proj.weight": "PH", "self_attn.o_proj.weight": "HQ", "mlp.gate_up_proj.weight": "GH",
        "mlp.down_proj.weight": "HI", "input_layernorm.weight": "H", "post_attention_layernorm.weight": "H",
    },
}  # fmt: skip
"""Tensors of a layer by ``model_type``, each with its shape: H numbers a token, I inside the MLP, Q of all heads, K of
all heads of keys, D of a head, P of queries, keys and values together, G of gate and value together."""
HEADLESS: Final = "pipegraph_headless"
"""Set in the config of a network whose files hold no output layer; the embedding is in its place."""
_TIED: Final = ("gemma", "gemma2", "gemma3", "gemma3_text")
"""Kinds with tied output layer unless the config says otherwise."""
_SPLIT: Final = ("llama", "mistral", "qwen2", "qwen2_5_vl", "qwen2_5_vl_text", "phi3")
"""Kinds whose default head width is hidden size / number of heads."""
_LAYER: Final = re.compile(r"((?:.*\.)?)layers\.(\d+)\.(.+)")


def check_folder(folder: Path, *, writes: bool) -> None:
    """Refuse a folder of a well-known language model whose headers lack tensors, or whose tensors do not fit.

    Args:
        folder: In transformers' layout.
        writes: Require an output layer, which text encoders do not need.

    Raises:
        LoadError: names the tensors; also if files are missing or broken.
    """
    pieces = pieces_of(read_header(file) for file in weight_files(folder))
    config = read_json(folder / "config.json")
    kind = str(config.get("model_type"))
    if kind in LAYERS and not config.get("quantization_config"):
        check_names(folder, kind, pieces, _of_text(config), writes=writes)


def _of_text(config: Mapping[str, Any]) -> dict[str, Any]:
    """The text config, and whether embeddings are tied (stated outside of it)."""
    text = config.get("text_config")
    outside = {k: v for k, v in config.items() if k == "tie_word_embeddings"}
    return {**config, **(text if isinstance(text, dict) else {}), **outside}


def check_names(
    origin: Path, kind: str, pieces: Mapping[str, Piece], config: Mapping[str, Any], *, writes: bool, cut: bool = False
) -> None:
    """Refuse missing, unexpected or misshaped tensors of a language model.

    Args:
        origin: The file or folder that the user named.
        kind: A ``model_type`` of :data:`LAYERS`.
        pieces: The tensors by stored name.
        config: Text config; missing keys are not checked.
        writes: Whether it must have an output layer.
        cut: The final norm may be missing, because the file ends at the last layer that is read.
    """
    prefix, layers = _layers(pieces)
    count = config.get("num_hidden_layers")
    length = count if isinstance(count, int) else 1 + max(layers, default=-1)
    if length > len(layers) + COUNTED:
        refuse(origin, {f"tensors of {kind} are missing": [f"{prefix}layers.{i}.*" for i in absent(layers, length)]})
    wanted = {f"{prefix}layers.{i}.{name}": shape for i in range(length) for name, shape in LAYERS[kind].items()}
    wanted |= {f"{prefix}embed_tokens.weight": "VH", f"{prefix}norm.weight": "H"}
    missing = [name for name in wanted if name not in pieces and not (cut and name == f"{prefix}norm.weight")]
    tied = config.get("tie_word_embeddings", kind in _TIED)
    if writes and not tied and not any(name.endswith("lm_head.weight") for name in pieces):
        missing.append("lm_head.weight")
    sizes = _sizes(kind, config)
    misfits = [
        f"`{name}` is {list(pieces[name].shape)}, its config says {list(shape)}"
        for name, letters in wanted.items()
        if name in pieces and (shape := _shape(letters, sizes)) and shape != pieces[name].shape
    ]
    refuse(
        origin,
        {
            f"tensors of {kind} are missing": missing,
            f"tensors have no place in {kind}": [f"{prefix}layers.{i}.*" for i in sorted(layers) if i >= length],
            f"tensors do not fit {kind}": misfits,
        },
    )


def _layers(pieces: Mapping[str, Piece]) -> tuple[str, set[int]]:
    """The prefix before ``layers`` in the text model's names, and the layer numbers."""
    matches = [m for m in map(_LAYER.fullmatch, pieces) if m and not re.search("vision|visual", m[1])]
    prefixes = Counter(m[1] for m in matches)
    prefix = prefixes.most_common(1)[0][0] if prefixes else "model."
    return prefix, {int(m[2]) for m in matches if m[1] == prefix}


def _sizes(kind: str, config: Mapping[str, Any]) -> dict[str, int]:
    """Lengths by the letters of :data:`LAYERS`; 0 if the config does not state them."""
    known = {k: v for k, v in config.items() if isinstance(v, int)}
    width, inner = known.get("hidden_size", 0), known.get("intermediate_size", 0)
    heads, head = known.get("num_attention_heads", 0), known.get("head_dim", 0)
    if not head and heads and kind in _SPLIT:
        head = width // heads
    queries, keys = heads * head, known.get("num_key_value_heads", 0) * head
    return {
        "H": width,
        "I": inner,
        "V": known.get("vocab_size", 0),
        "D": head,
        "Q": queries,
        "K": keys,
        "G": 2 * inner,
        "P": queries + 2 * keys if keys else 0,
    }


def _shape(letters: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape for these letters; empty if the config does not state it."""
    shape = tuple(sizes[letter] for letter in letters)
    return shape if all(shape) else ()
