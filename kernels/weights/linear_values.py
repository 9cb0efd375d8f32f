"""Arguments of linear layers: weights, low-rank paths, and the signature for the choice of a back end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .qweight import Layout

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, eq=False, slots=True)
class LowRank:
    """A low-rank addition to a weight: up @ down, strengths folded into ``up``."""

    down: Tensor
    """(R, K)"""
    up: Tensor
    """(N, R)"""

    @property
    def rank(self) -> int:
        return self.down.shape[0]

    @staticmethod
    def stack(parts: Sequence[LowRank]) -> LowRank:
        """The sum of several, as one whose rank is the sum of theirs."""
        if len(parts) == 1:
            return parts[0]
        return LowRank(torch.cat([p.down for p in parts]), torch.cat([p.up for p in parts], 1))


@runtime_checkable
class PackedWeight(Protocol):
    """A weight in a packed format; a back end that knows ``format`` reads its buffers, any other unpacks it."""

    @property
    def format(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (N, K) of the weight."""
        ...

    @property
    def device(self) -> torch.device: ...

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """The weight (N, K) in a float dtype."""
        ...


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    weight: tuple[int, int]
    dtype: torch.dtype
    """Dtype of x and of the result."""
    format: str
    """``plain`` for a tensor, else the packed format."""
    stored: torch.dtype | None
    """Dtype of a plain weight; None if packed."""
    layout: Layout | None
    """Layout of a ``QWeight``; None for other weights."""
    device: str
    bias: bool
    rank: int
    """Rank of the low-rank side path, 0 if none."""
    act: str | None
    gate: tuple[int, ...] | None
    residual: bool
    precision: str

    @property
    def rows(self) -> int:
        """Rows of x in all."""
        return prod(self.x[:-1])
