"""Blocks of a network that are left out: what goes in comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Final, Self

from torch import Tensor, nn

from .model import Model

_CLIP, _TEXT = "hidden_states", "encoder_hidden_states"
_GIVES: Final = {
    "FluxTransformerBlock": (_TEXT, _CLIP),
    "FluxSingleTransformerBlock": (_TEXT, _CLIP),
    "WanTransformerBlock": (_CLIP,),
    "HunyuanVideoTransformerBlock": (_CLIP, _TEXT),
    "HunyuanVideoSingleTransformerBlock": (_CLIP, _TEXT),
    "HunyuanVideo15TransformerBlock": (_CLIP, _TEXT),
    "LTXVideoTransformerBlock": (_CLIP,),
    "LTX2VideoTransformerBlock": (_CLIP, "audio_hidden_states"),
}
"""Which of its arguments each class of block gives back, changed."""
_LISTS: Final = {"double": ("blocks", "transformer_blocks"), "single": ("single_transformer_blocks",)}
"""ComfyUI's names of the two kinds, diffusers' of the lists. Networks with one kind have double ones."""
_left_out: ContextVar[frozenset[nn.Module]] = ContextVar("pipegraph_left_out", default=frozenset())


@dataclass(frozen=True, slots=True)
class SkipLayers:
    """A patch of models; made by ``of``."""

    layers: frozenset[tuple[str, int]]
    """Name of the list, place in it."""

    @classmethod
    def of(cls, network: Any, double: Sequence[int], single: Sequence[int]) -> tuple[Self, list[str]]:
        """The patch for a network, and what of it the network has not, as sentences.

        Raises:
            ValueError: it cannot be patched.
        """
        name = type(network).__name__
        if getattr(network, "_parallel_config", None) is not None:
            raise ValueError("skipped layers and --parallel cannot be used together: several processes share a layer")
        found, told = set(), []
        for kind, asked in (("double", double), ("single", single)):
            key = next((k for k in _LISTS[kind] if hasattr(network, k)), "")
            blocks = getattr(network, key, ())
            if unknown := {type(b).__name__ for b in blocks} - _GIVES.keys():
                raise ValueError(f"layers of {name} ({', '.join(sorted(unknown))}) cannot be skipped")
            found |= {(key, i) for i in asked if i < len(blocks)}
            if beyond := sorted(i for i in asked if i >= len(blocks)):
                there = f"{len(blocks)} {kind} layers, counted from 0" if blocks else f"no {kind} layers"
                told.append(f"{name} has {there}: {', '.join(map(str, beyond))} cannot be skipped")
        return cls(frozenset(found)), told

    @contextmanager
    def around(self, model: Model, state: Tensor) -> Iterator[None]:
        """Leave the blocks out of the calls inside a ``with``, in this thread (context) only."""
        blocks = frozenset(getattr(model.network, key)[i] for key, i in self.layers)
        for block in blocks:
            if not isinstance(vars(block).get("forward"), _Held):
                block.forward = _Held(_forward, block)
        token = _left_out.set(_left_out.get() | blocks)
        try:
            yield
        finally:
            _left_out.reset(token)


class _Held(partial[Any]):
    """The ``forward`` of a block that may be left out."""


def _forward(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    if block not in _left_out.get():
        return type(block).forward(block, *args, **kwargs)
    given = signature(type(block).forward).bind(block, *args, **kwargs).arguments
    found = tuple(given[name] for name in _GIVES[type(block).__name__])
    return found if len(found) > 1 else found[0]
