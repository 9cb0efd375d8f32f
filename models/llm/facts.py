"""Facts of a language model, read from its configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .tokenizer import Tokenizer


class LayerKind(NamedTuple):
    """What a layer of a text model caches."""

    kind: str
    """transformers' layer type."""
    window: int | None
    states: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Sizes and properties of a language model."""

    layers: int
    kv_heads: int
    head_dim: int
    context: int
    """Tokens of prompt and reply together."""
    vocabulary: int
    """Rows of the output layer; a tokenizer may know fewer ids."""
    stop_ids: frozenset[int]
    """Ids that end a reply: the tokenizer's, the configuration's and the generation configuration's together."""
    kv_bytes_per_token: int
    """For one sequence in the native dtype, windows ignored; without states of fixed size."""
    kv_bytes_per_layer: int
    """The same for one attention layer."""
    long_positions: bool
    """Whether RoPE depends on the length of the prompt (``dynamic`` and ``longrope``)."""
    kinds: tuple[LayerKind, ...]
    """Layer types, in order."""
    croppable: bool
    """Whether tokens can be cropped from a cache; not with state-space and linear attention layers."""


def read_facts(network: PreTrainedModel, tokenizer: Tokenizer | None = None) -> Facts:
    """Facts from a network's configuration and its tokenizer's stop ids."""
    config = network.config.get_text_config(decoder=True)
    layers = layer_kinds(config)
    kinds = [layer.kind for layer in layers]
    heads = _first(config, "num_key_value_heads", "num_attention_heads") or 1
    size = _first(config, "head_dim") or config.hidden_size // config.num_attention_heads
    rank = _first(config, "kv_lora_rank")
    numbers = rank + config.qk_rope_head_dim if rank else 2 * heads * size
    keeping = sum(kind in ("full_attention", "sliding_attention", "hybrid", "hybrid_sliding") for kind in kinds)
    dtype = network.dtype
    return Facts(
        layers=config.num_hidden_layers,
        kv_heads=heads,
        head_dim=size,
        context=_first(config, "max_position_embeddings") or 2048,
        vocabulary=network.get_output_embeddings().weight.shape[0],
        stop_ids=_stop_ids(network, tokenizer),
        kv_bytes_per_token=keeping * numbers * dtype.itemsize,
        kv_bytes_per_layer=numbers * dtype.itemsize,
        long_positions=long_positions(config),
        kinds=layers,
        croppable=all(kind not in ("linear_attention", "conv", "hybrid", "hybrid_sliding") for kind in kinds),
    )


def long_positions(config: Any) -> bool:
    """Whether RoPE depends on the length of the prompt."""
    return (getattr(config, "rope_parameters", None) or {}).get("rope_type") in ("dynamic", "longrope")


def layer_kinds(config: Any) -> tuple[LayerKind, ...]:
    """What each layer of a text model caches."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    kinds, settings = get_layer_types_and_kwargs(config)
    return tuple(
        LayerKind(kind, s.get("sliding_window"), s.get("number_of_states", 1))
        for kind, s in zip(kinds, settings, strict=True)
    )


def _stop_ids(network: PreTrainedModel, tokenizer: Tokenizer | None) -> frozenset[int]:
    ids: set[int] = set(getattr(tokenizer, "stop_ids", ()) or ())
    for config in (network.config, network.config.get_text_config(decoder=True), network.generation_config):
        more = getattr(config, "eos_token_id", None)
        ids |= {more} if isinstance(more, int) else set(more or ())
    return frozenset(int(i) for i in ids)


def _first(config: Any, *names: str) -> int:
    """The first of these settings that is set, else 0."""
    return next((int(v) for n in names if (v := getattr(config, n, None))), 0)
