"""Skips blocks of a network: their inputs are returned as outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Final, Self

from torch import Tensor, nn

from pipegraph.context import holding

from ..model import Model

_LISTS: Final = {"double": ("blocks", "transformer_blocks"), "single": ("single_transformer_blocks",)}
"""ComfyUI's kind -> diffusers' attribute. Networks with one kind of block have double ones."""
_left_out: ContextVar[frozenset[nn.Module]] = ContextVar("pipegraph_left_out", default=frozenset())


@dataclass(frozen=True, slots=True)
class SkipLayers:
    """A patch of models; created by ``of``."""

    layers: frozenset[tuple[str, int]]
    """(attribute of the block list, index)."""
    returned: tuple[tuple[str, tuple[str, ...]], ...]
    """Block class -> arguments that a skipped block returns."""

    @classmethod
    def of(
        cls, network: Any, returned: Mapping[str, tuple[str, ...]], double: Sequence[int], single: Sequence[int]
    ) -> tuple[Self, list[str]]:
        """The patch for a network, and sentences on layers it does not have.

        Args:
            network: The diffusion network.
            returned: Class of its blocks -> the arguments that a block gives back.
            double: Numbers of blocks with separate weights for image and text, or of the only list.
            single: Numbers of blocks with shared weights.

        Raises:
            ValueError: it cannot be patched.
        """
        name = type(network).__name__
        if getattr(network, "_parallel_config", None) is not None:
            raise ValueError("skipped layers and --parallel cannot be used together: several processes share a layer")
        layers, warnings = set(), []
        for kind, asked in (("double", double), ("single", single)):
            key = next((k for k in _LISTS[kind] if hasattr(network, k)), "")
            blocks = getattr(network, key, ())
            if unknown := {type(b).__name__ for b in blocks} - returned.keys():
                raise ValueError(f"layers of {name} ({', '.join(sorted(unknown))}) cannot be skipped")
            layers |= {(key, i) for i in asked if i < len(blocks)}
            if beyond := sorted(i for i in asked if i >= len(blocks)):
                there = f"{len(blocks)} {kind} layers, counted from 0" if blocks else f"no {kind} layers"
                warnings.append(f"{name} has {there}: {', '.join(map(str, beyond))} cannot be skipped")
        return cls(frozenset(layers), tuple(returned.items())), warnings

    @contextmanager
    def around(self, model: Model, state: Tensor) -> Iterator[None]:
        """Skip the blocks in calls inside a ``with``, in this thread (context) only."""
        blocks, returned = (
            frozenset(getattr(model.loaded.network, key)[i] for key, i in self.layers),
            dict(self.returned),
        )
        for block in blocks:
            if not isinstance(vars(block).get("forward"), _Held):
                block.forward = _Held(_forward, block, returned[type(block).__name__])
        with holding(_left_out, _left_out.get() | blocks):
            yield


class _Held(partial[Any]):
    """The patched ``forward`` of a block."""


def _forward(block: nn.Module, returned: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    if block not in _left_out.get():
        return type(block).forward(block, *args, **kwargs)
    arguments = signature(type(block).forward).bind(block, *args, **kwargs).arguments
    values = tuple(arguments[name] for name in returned)
    return values if len(values) > 1 else values[0]
