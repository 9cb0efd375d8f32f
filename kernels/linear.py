"""x @ W.T + bias with a low-rank side path: the one matrix product that every network layer goes through.

    y = x @ W.T + bias + (x @ down.T) @ up.T

The side path is how a LoRA is applied: W is never edited, so it may be memory-mapped or quantized. It is also the
low-rank branch of quantized formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from .dispatch import Backend, KernelError, Op, define, register


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
    """A weight kept in a packed format; a back end that knows ``format`` reads its buffers, any other unpacks it."""

    @property
    def format(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K) of the weight it stands for."""
        ...

    @property
    def device(self) -> torch.device: ...

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """The weight (N, K) in a float dtype."""
        ...


class Signature(NamedTuple):
    """What a back end may decide on."""

    x: tuple[int, ...]
    weight: tuple[int, int]
    dtype: torch.dtype
    """Of x and of the result."""
    format: str
    """``plain`` for a tensor, else the packed format."""
    stored: torch.dtype | None
    """Dtype of a plain weight; None if packed."""
    device: str
    bias: bool
    rank: int
    """Of the low-rank side path, 0 if none."""
    precision: str


def linear(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None = None,
    *,
    low_rank: LowRank | None = None,
    precision: str = "exact",
    backend: str | None = None,
) -> Tensor:
    """Apply a linear layer.

    Args:
        x: (..., K), float, any strides.
        weight: (N, K), a tensor of any float dtype (cast to that of x as it is used) or a packed weight.
        bias: (N,).
        low_rank: Added to the weight as a side path; cast to the dtype of x.
        precision: ``fast`` allows back ends that quantize x.
        backend: Name of the back end to use.

    Returns:
        (..., N) in the dtype of x.

    Raises:
        KernelError: shapes or dtypes that do not fit, or an asked-for back end that cannot serve.
    """
    key = (
        x.shape, x.dtype, x.device, weight.shape, weight.dtype if isinstance(weight, Tensor) else weight.format,
        None if bias is None else bias.shape, low_rank and (low_rank.down.shape, low_rank.up.shape), precision,
    )  # fmt: skip
    out: Tensor = OP.pick(key, backend).fn(x, weight, bias, low_rank)
    return out


def _describe(key: Any) -> Signature:
    """Check a call and describe it to the back ends."""
    x, dtype, device, weight, kind, bias, low_rank, precision = key
    if len(weight) != 2 or not x or x[-1] != weight[1]:
        raise KernelError(f"linear: x {tuple(x)} does not fit a weight (N, K) = {tuple(weight)}")
    if not dtype.is_floating_point:
        raise KernelError(f"linear: x must be float, not {dtype}")
    stored = kind if isinstance(kind, torch.dtype) else None
    if stored and not stored.is_floating_point:
        raise KernelError(f"linear: a {stored} tensor is no weight by itself; its scales are missing")
    if bias is not None and tuple(bias) != (weight[0],):
        raise KernelError(f"linear: bias {tuple(bias)} does not fit {weight[0]} outputs")
    if low_rank:
        (rank, k), (n, rank2) = low_rank
        if (n, k) != tuple(weight) or rank != rank2:
            raise KernelError(f"linear: low rank {tuple(low_rank[1])} x {tuple(low_rank[0])} is no {tuple(weight)}")
    rank = low_rank[0][0] if low_rank else 0
    return Signature(
        tuple(x), tuple(weight), dtype, "plain" if stored else kind, stored, device.type, bias is not None, rank,
        precision,
    )  # fmt: skip


def _sample(device: str, dtype: str) -> Signature:
    kind = getattr(torch, dtype)
    return Signature((1, 4096, 3072), (3072, 3072), kind, "plain", kind, device, True, 0, "exact")


def _plain(weight: Tensor | PackedWeight, dtype: torch.dtype) -> Tensor:
    return _as(weight, dtype) if isinstance(weight, Tensor) else weight.dequantize(dtype)


def _as(t: Tensor, dtype: torch.dtype) -> Tensor:
    return t if t.dtype is dtype else t.to(dtype)  # even a `to` that does nothing takes 2 us


def reference(x: Tensor, weight: Tensor | PackedWeight, bias: Tensor | None, low_rank: LowRank | None) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide = x.to(work)
    y = wide @ _plain(weight, work).T
    if bias is not None:
        y = y + bias.to(work)
    if low_rank is not None:
        y = y + (wide @ low_rank.down.to(work).T) @ low_rank.up.to(work).T
    return y.to(x.dtype)


def gemm(x: Tensor, weight: Tensor | PackedWeight, bias: Tensor | None, low_rank: LowRank | None) -> Tensor:
    """torch's matrix product in the dtype of x."""
    dtype = x.dtype
    y = F.linear(x, _plain(weight, dtype), None if bias is None else _as(bias, dtype))
    if low_rank is not None:
        y = y + F.linear(F.linear(x, low_rank.down.to(x)), low_rank.up.to(x))
    return y


OP = define(Op("linear", _describe, _sample))
register(Backend("linear", "reference", reference, rank=lambda s: 0))
register(Backend("linear", "torch", gemm, rank=lambda s: 10))
