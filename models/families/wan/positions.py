"""Scaled and shifted rotary positions of Wan's video tokens, for models trained with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final, Self

import torch
from torch import Tensor

from pipegraph.context import holding

from ...model import Model

THETA: Final = 10000.0
"""Base of Wan's rotary positions."""
Axes = tuple[float, float, float]
"""Values for time, rows and columns."""


@dataclass(frozen=True, slots=True)
class ScaledPositions:
    """A patch of models: position p becomes shift + scale * p. Created by ``of``."""

    scale: Axes
    shift: Axes

    @classmethod
    def of(cls, network: Any, scale: Axes, shift: Axes) -> Self:
        """The patch for a network.

        Raises:
            ValueError: it cannot be patched.
        """
        name = type(network).__name__
        if type(getattr(network, "rope", None)).__name__ != "WanRotaryPosEmbed":
            raise ValueError(f"positions are scaled in Wan's networks only; this is a {name}")
        if getattr(network, "_parallel_config", None) is not None:
            raise ValueError("scaled positions and --parallel cannot be used together")
        return cls(scale, shift)

    @contextmanager
    def around(self, model: Model, state: Tensor) -> Iterator[None]:
        """Use these positions for calls inside a ``with``, in this thread (context) only."""
        rope = model.loaded.network.rope
        if not isinstance(vars(rope).get("forward"), _Held):
            rope.forward = _Held(_forward, rope)
        with holding(_acting, self):
            yield

    def tables(self, rope: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """Rotary cosines and sines [1, tokens, 1, D] for a state [B, C, T, H, W]."""
        grid = [n // p for n, p in zip(x.shape[2:], rope.patch_size, strict=True)]
        parts = []
        for axis, (count, width) in enumerate(zip(grid, (rope.t_dim, rope.h_dim, rope.w_dim), strict=True)):
            places = self.shift[axis] + self.scale[axis] * torch.arange(count, dtype=torch.float64)
            rates = THETA ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
            shape = [1, 1, 1, width]
            shape[axis] = count
            parts.append(torch.outer(places, rates).repeat_interleave(2, 1).reshape(shape).expand(*grid, width))
        angles = torch.cat(parts, 3).reshape(1, prod(grid), 1, -1)
        return angles.cos().to(rope.freqs_cos), angles.sin().to(rope.freqs_sin)


_acting: ContextVar[ScaledPositions | None] = ContextVar("pipegraph_positions", default=None)


class _Held(partial[Any]):
    """The patched ``forward`` of the rotary embedding."""


def _forward(rope: Any, x: Tensor) -> Any:
    scaled = _acting.get()
    return scaled.tables(rope, x) if scaled else type(rope).forward(rope, x)
