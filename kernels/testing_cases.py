"""What the conformance kit calls each op with, and how near to float64 a result must be.

Tensors of float64 in a case are given in the dtype under test; those of another dtype stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
REDUCED: Final = 5e-2
"""Bound on the relative error of back ends that say that they quantize inside."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of an op."""

    name: str
    arguments: dict[str, Any]
    dtypes: tuple[torch.dtype, ...] = ()
    """In which dtypes to run; all if empty."""
    mutates: tuple[str, ...] = ()
    """Arguments that the op writes into."""
    steps: int | None = None
    """How many steps an integer result may be off; None: none."""


def _bounds(double: float, single: float, half: float, brain: float) -> dict[torch.dtype, float]:
    return {F64: double, F32: single, F16: half, BF16: brain}


BOUNDS: Final[dict[str, dict[torch.dtype, float]]] = {
    "attention": _bounds(1e-12, 2e-6, 5e-4, 4e-3),
    "linear": _bounds(1e-14, 1e-6, 1e-3, 8e-3),
}
"""Relative error (Frobenius norm) against float64, by op and dtype."""


class _Random:
    """Normal numbers, the same ones each time."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=F64)

    def coins(self, *shape: int, chance: float = 0.6) -> Tensor:
        return torch.rand(*shape, generator=self.generator) < chance


def attention() -> Iterator[Case]:
    draw = _Random()

    def qkv(hq: int, hkv: int, sq: int, skv: int, d: int, dv: int = 0) -> dict[str, Any]:
        return dict(q=draw(2, hq, sq, d), k=draw(2, hkv, skv, d), v=draw(2, hkv, skv, dv or d))

    yield Case("plain", qkv(2, 2, 33, 47, 64))
    for d, dv in ((64, 64), (72, 72), (80, 80), (96, 96), (128, 128), (256, 256), (64, 96), (5, 3)):
        yield Case(f"head sizes {d} and {dv}", qkv(1, 1, 9, 17, d, dv))
    yield Case("grouped", qkv(4, 2, 17, 19, 64))
    yield Case("one key head", qkv(4, 1, 5, 16, 64))
    yield Case("one query", qkv(2, 1, 1, 31, 64))
    yield Case("no keys", qkv(2, 1, 3, 0, 64))
    yield Case("no queries", qkv(2, 1, 0, 3, 64))
    for sq, skv in ((33, 33), (17, 40), (40, 17)):
        yield Case(f"causal, {sq} queries, {skv} keys", qkv(2, 1, sq, skv, 64) | dict(causal=True))
    for window in (1, 7, 100):
        yield Case(f"window of {window}", qkv(2, 1, 35, 37, 64) | dict(causal=True, window=window))
    mask = draw.coins(2, 1, 19, 33)
    mask[:, :, 4] = False
    yield Case("mask", qkv(2, 2, 19, 33, 64) | dict(mask=mask))
    yield Case("mask and causal", qkv(2, 2, 19, 33, 64) | dict(mask=mask, causal=True))
    yield Case("mask by key", qkv(2, 2, 19, 33, 64) | dict(mask=mask[:, :, :1]))
    bias = draw(1, 2, 19, 33)
    bias[..., :9] = -math.inf
    yield Case("bias", qkv(2, 2, 19, 33, 64) | dict(bias=bias))
    yield Case("scale", qkv(2, 2, 9, 9, 64) | dict(scale=0.5))
    yield Case("log-sum-exp", qkv(2, 1, 19, 7, 64) | dict(causal=True, return_lse=True), dtypes=(F64, F32))
    whole = {name: (3 * t).round() for name, t in qkv(1, 1, 9, 33, 64).items()}
    yield Case("large scores, exact in every dtype", whole | dict(scale=8.0))
    same = qkv(2, 1, 9, 33, 64)
    yield Case("equal scores", same | dict(q=torch.zeros_like(same["q"])))
    hidden = qkv(1, 1, 9, 9, 64)
    hidden["v"][:, :, 6:] = math.nan
    yield Case("NaN in a value reaches the rows that see it only", hidden | dict(causal=True))


def linear() -> Iterator[Case]:
    from .linear import LowRank

    draw = _Random()
    for shape in ((1, 64), (3, 5, 64), (33, 160), (0, 64), (64,)):
        x, weight = draw(*shape), draw(48, shape[-1])
        yield Case(f"x {shape}", dict(x=x, weight=weight))
        yield Case(f"x {shape} and bias", dict(x=x, weight=weight, bias=draw(48)))
    for rank in (1, 16, 33):
        x, weight = draw(7, 64), draw(48, 64)
        low = LowRank(draw(rank, 64), draw(48, rank))
        yield Case(f"side path of rank {rank}", dict(x=x, weight=weight, bias=draw(48), low_rank=low))
    yield Case("weight in bfloat16", dict(x=draw(7, 64), weight=draw(48, 64).to(BF16)))
    poisoned = draw(5, 64)
    poisoned[2, 3] = math.nan
    yield Case("NaN stays in its row", dict(x=poisoned, weight=draw(48, 64)))


CASES: Final[dict[str, Callable[[], Iterator[Case]]]] = {
    "attention": attention,
    "linear": linear,
}
"""Op -> its cases."""
