"""The value on an LLM wire: a network that predicts tokens, its tokenizer and what must be known about both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from pipegraph.kernels.hooks.install import install

from ..loaded import Loaded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .pictures import Picture
    from .tokenizer import Tokenizer
    from .vision import Vision


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of a batch of sequences, which may be of different lengths."""

    ids: tuple[tuple[int, ...], ...]
    pictures: tuple[tuple[Picture, ...], ...] = ()
    """Of each sequence, in order; empty if there are none at all."""

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]], pictures: Iterable[Iterable[Picture]] = ()) -> Tokens:
        """From lists or a tensor [B, S]."""
        placed = tuple(map(tuple, pictures))
        return cls(tuple(tuple(int(i) for i in row) for row in rows), placed if any(placed) else ())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Tokens) -> Tokens:
        """Each sequence followed by the other's of the same index."""
        ids = tuple(a + b for a, b in zip(self.ids, other.ids, strict=True))
        later = ([p.moved(len(row)) for p in other.seen(s)] for s, row in enumerate(self.ids))
        return Tokens.of(ids, ((*self.seen(s), *more) for s, more in enumerate(later)))

    def seen(self, sequence: int) -> tuple[Picture, ...]:
        """The pictures of a sequence."""
        return self.pictures[sequence] if self.pictures else ()

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(row) for row in self.ids)


class LayerKind(NamedTuple):
    """What a layer of a text model keeps."""

    kind: str
    """In transformers' words."""
    window: int | None
    states: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What a graph may want to know about a model without looking into the network."""

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
    """Of one sequence in the native dtype, beyond windows and without states of fixed size."""
    kv_bytes_per_layer: int
    """The same of one layer that keeps keys and values."""
    long_positions: bool
    """Whether all positions are coded in another way in long prompts (``dynamic`` and ``longrope``)."""
    kinds: tuple[LayerKind, ...]
    """Of each layer that may keep something."""
    croppable: bool
    """Whether tokens can be taken back from a cache; states of state-space and linear attention layers cannot."""


@dataclass(frozen=True, eq=False)
class LLM:
    """A language model. Nothing in it is changed by using it."""

    loaded: Loaded
    """A network of transformers with a language-model head, in eval mode, on the kernel layer.

    Its dtype is that of the hidden states, and of keys and values.
    """
    tokenizer: Tokenizer | None
    facts: Facts
    vision: Vision | None = None
    """What reads pictures, of a vision-language model."""
    kept: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What it has read and may meet again, as ``prefixes.Kept``, by kind of cache and device."""

    @classmethod
    def of(cls, network: PreTrainedModel, tokenizer: Tokenizer | None = None, name: str = "") -> LLM:
        """Put a transformers model on the kernel layer, in place, and read its facts.

        Raises:
            ValueError: the model has no language-model head, or a layer that keeps what we have no cache for.
        """
        if network.get_output_embeddings() is None:
            raise ValueError(f"{type(network).__name__} has no language-model head: it predicts no tokens")
        from . import cache, experts, layers
        from .vision import Vision

        name = name or type(network).__name__
        facts = read_facts(network, tokenizer)
        if "reuse" in (getattr(network.config.get_text_config(decoder=True), "kv_sharing_modes", None) or ()):
            raise ValueError(f"{name}: layers that share the keys of other layers are not supported")
        cache.attention_groups(facts.kinds, name)
        network.eval().requires_grad_(False)
        install(network)
        layers.register()
        network.set_attn_implementation(layers.NAME)
        if network._can_set_experts_implementation():
            experts.register()
            network.set_experts_implementation(experts.NAME)
        device = next(network.parameters()).device
        floats = (p.dtype for p in network.parameters() if p.is_floating_point())
        loaded = Loaded(network, device, next(floats, torch.get_default_dtype()), name)
        return cls(loaded, tokenizer, facts, Vision.of(network))


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
    """Whether all positions are coded in another way in long prompts."""
    return (getattr(config, "rope_parameters", None) or {}).get("rope_type") in ("dynamic", "longrope")


def layer_kinds(config: Any) -> tuple[LayerKind, ...]:
    """What each layer of a text model keeps."""
    from transformers.cache_utils import get_layer_types_and_kwargs

    kinds, settings = get_layer_types_and_kwargs(config)
    return tuple(
        LayerKind(kind, s.get("sliding_window"), s.get("number_of_states", 1))
        for kind, s in zip(kinds, settings, strict=True)
    )


def _stop_ids(network: PreTrainedModel, tokenizer: Tokenizer | None) -> frozenset[int]:
    found: set[int] = set(getattr(tokenizer, "stop_ids", ()) or ())
    for config in (network.config, network.config.get_text_config(decoder=True), network.generation_config):
        ids = getattr(config, "eos_token_id", None)
        found |= {ids} if isinstance(ids, int) else set(ids or ())
    return frozenset(int(i) for i in found)


def _first(config: Any, *names: str) -> int:
    """The first of these settings that is set, else 0."""
    return next((int(v) for n in names if (v := getattr(config, n, None))), 0)
