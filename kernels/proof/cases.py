"""Cases of the conformance kit for each op, and error bounds against float64.

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
"""Bound on the relative error of back ends that quantize inside."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of an op."""

    name: str
    arguments: dict[str, Any]
    dtypes: tuple[torch.dtype, ...] = ()
    """In which dtypes to run; all if empty."""
    mutates: tuple[str, ...] = ()
    """Arguments that the op writes into."""
    steps: int = 0
    """How many steps an integer result may be off."""
    bound: float = 0.0
    """Replaces the usual bound for the first result if not 0."""


def _bounds(double: float, single: float, half: float, brain: float) -> dict[torch.dtype, float]:
    return {F64: double, F32: single, F16: half, BF16: brain}


_ATTENTION = _bounds(1e-12, 2e-6, 5e-4, 4e-3)
_LINEAR = _bounds(1e-13, 1e-6, 1e-3, 8e-3)
_PASS = _bounds(1e-13, 1e-6, 5e-4, 4e-3)
"""Ops that go over memory once."""
BOUNDS: Final[dict[str, dict[torch.dtype, float]]] = {
    "attention": _ATTENTION,
    "attention_varlen": _ATTENTION,
    "merge_attention": _ATTENTION | {F64: 1e-6},  # the log-sum-exp is float32
    "paged_decode": _ATTENTION,
    "kv_append": _bounds(1e-6, 1e-6, 1e-6, 1e-6),
    "linear": _LINEAR,
    "grouped_linear": _LINEAR,
    "quantize_rows": _bounds(1e-6, 1e-6, 1e-6, 1e-6),
    "rms_norm": _PASS,
    "ada_norm": _PASS,
    "gate_add": _PASS,
    "qk_norm_rope": _PASS,
    "swiglu": _PASS,
    "geglu": _PASS,
    "sample": _bounds(0, 0, 0, 0),
}
"""Relative error (Frobenius norm) against float64, by op and dtype."""


class _Random:
    """Normal random numbers with a fixed seed."""

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
    yield Case("softcap", qkv(2, 1, 17, 19, 64) | dict(causal=True, softcap=3.0))
    yield Case("sinks", qkv(4, 2, 17, 19, 64) | dict(causal=True, window=9, sinks=draw(4)))
    yield Case("scale", qkv(2, 2, 9, 9, 64) | dict(scale=0.5))
    yield Case("log-sum-exp", qkv(2, 1, 19, 7, 64) | dict(causal=True, return_lse=True), dtypes=(F64, F32))
    whole = {name: (3 * t).round() for name, t in qkv(1, 1, 9, 33, 64).items()}
    yield Case("large scores, exact in every dtype", whole | dict(scale=8.0))
    same = qkv(2, 1, 9, 33, 64)
    yield Case("equal scores", same | dict(q=torch.zeros_like(same["q"])))
    hidden = qkv(1, 1, 9, 9, 64)
    hidden["v"][:, :, 6:] = math.nan
    yield Case("NaN in a value reaches the rows that see it only", hidden | dict(causal=True))


def attention_varlen() -> Iterator[Case]:
    draw = _Random()
    cu_q = torch.tensor([0, 5, 5, 38, 39], dtype=torch.int32)
    cu_k = torch.tensor([0, 9, 12, 45, 45], dtype=torch.int32)

    def call(hq: int = 4, hkv: int = 2, d: int = 64, **how: Any) -> dict[str, Any]:
        sizes = dict(cu_q=cu_q, cu_k=cu_k, max_q=33, max_k=33)
        return dict(q=draw(39, hq, d), k=draw(45, hkv, d), v=draw(45, hkv, d)) | sizes | how

    yield Case("full", call())
    yield Case("heads of 72", call(2, 2, 72))
    yield Case("causal", call(causal=True))
    yield Case("window", call(causal=True, window=7))
    yield Case("log-sum-exp", call(causal=True, return_lse=True), dtypes=(F64, F32))
    yield Case("softcap and sinks", call(causal=True, softcap=5.0, sinks=draw(4)))


def merge_attention() -> Iterator[Case]:
    draw = _Random()

    def part() -> tuple[Tensor, Tensor]:
        return draw(2, 3, 17, 40), 3 * draw(2, 3, 17).float()

    blind = part()
    blind[1][:, :, 2:5] = -math.inf
    yield Case("one part", dict(parts=[part()]))
    yield Case("three parts", dict(parts=[part(), part(), part()]))
    yield Case("rows that a part did not see", dict(parts=[part(), blind]))
    yield Case("rows that no part saw", dict(parts=[blind, blind]))


def paged_decode() -> Iterator[Case]:
    draw = _Random()
    lengths = torch.tensor([0, 1, 16, 17, 70], dtype=torch.int32)

    def call(hq: int, hkv: int, d: int, page: int, int8: bool = False, **how: Any) -> dict[str, Any]:
        columns = -(-70 // page)
        table = torch.randperm(5 * columns, generator=draw.generator).int().view(5, columns)
        for row, length in zip(table, lengths.tolist(), strict=True):
            row[-(-length // page) :] = 10**6  # what is beyond a sequence is not looked at
        caches = dict(k_cache=draw(5 * columns, page, hkv, d), v_cache=draw(5 * columns, page, hkv, d))
        if int8:
            scales = {f"{n[0]}_scale": 0.01 + 0.01 * draw(*c.shape[:3]).abs().half() for n, c in caches.items()}
            caches = {n: (40 * c).clamp(-127, 127).to(torch.int8) for n, c in caches.items()} | scales
        return dict(q=draw(5, hq, d), block_table=table, seq_lens=lengths) | caches | how

    for hq, hkv, d, page in ((4, 2, 64, 16), (2, 2, 72, 1), (8, 1, 128, 64)):
        for int8 in (False, True):
            label = " of int8" if int8 else ""
            yield Case(f"{hq}/{hkv} heads of {d}, pages of {page}{label}", call(hq, hkv, d, page, int8))
    yield Case("window", call(4, 2, 64, 16, window=9))
    yield Case("log-sum-exp", call(4, 2, 64, 16, return_lse=True), dtypes=(F64, F32))
    yield Case("softcap and sinks", call(4, 2, 64, 16, softcap=5.0, sinks=draw(4)))


def kv_append() -> Iterator[Case]:
    draw = _Random()
    slots = torch.tensor([7, 0, -1, 33, 16, 47])
    new = dict(k=draw(6, 2, 64), v=draw(6, 2, 64), slots=slots)
    caches = dict(k_cache=draw(3, 16, 2, 64), v_cache=draw(3, 16, 2, 64))
    yield Case("as it is", new | caches, mutates=("k_cache", "v_cache"))
    yield Case("int32 slots", new | caches | dict(slots=slots.int()), mutates=("k_cache", "v_cache"))
    for kind in (F32, F16):
        packed: dict[str, Any] = {name: torch.ones(3, 16, 2, 64, dtype=torch.int8) for name in caches}
        packed |= dict(k_scale=torch.ones(3, 16, 2, dtype=kind), v_scale=torch.ones(3, 16, 2, dtype=kind))
        yield Case(f"to int8, scales in {kind}", new | packed, mutates=tuple(packed), steps=1)


def linear() -> Iterator[Case]:
    from pipegraph.kernels.ops.linear import LowRank
    from pipegraph.kernels.weights.qweight import QWeight

    draw = _Random()
    for shape in ((1, 64), (3, 5, 64), (33, 160), (0, 64), (64,)):
        x, weight = draw(*shape), draw(48, shape[-1])
        yield Case(f"x {shape}", dict(x=x, weight=weight))
        yield Case(f"x {shape} and bias", dict(x=x, weight=weight, bias=draw(48)))
    for rank in (1, 16, 33):
        low = LowRank(draw(rank, 64), draw(48, rank))
        yield Case(f"side path of rank {rank}", dict(x=draw(7, 64), weight=draw(48, 64), bias=draw(48), low_rank=low))
    yield Case("weight in bfloat16", dict(x=draw(7, 64), weight=draw(48, 64).to(BF16)))
    yield Case("NaN stays in its row", dict(x=_poisoned(draw(5, 64)), weight=draw(48, 64)))
    ends = dict(act="gelu_tanh", gate=draw(48), residual=draw(2, 9, 48))
    yield Case("activation, gate and residual", dict(x=draw(2, 9, 64), weight=draw(48, 64), bias=draw(48)) | ends)
    yield Case("silu", dict(x=draw(9, 64), weight=draw(48, 64), act="silu"))
    packed: list[tuple[str, dict[str, Any]]] = [
        ("q8", {}),
        ("q8", dict(rotate=64)),
        ("q8", dict(group=32)),
        ("fp8", {}),
        ("fp8", dict(rotate=16)),
        ("w4", dict(group=32)),
        ("w4", dict(group=64)),
        ("w4", dict(group=128)),
        ("w4", dict(group=32, rotate=128)),
    ]
    for format, how in packed:
        held = QWeight.quantize(draw(48, 256).float(), format, **how)  # type: ignore[arg-type]
        label = " ".join([format, *(f"{k} {v}" for k, v in how.items())])
        for rows in (1, 33):
            low = LowRank(draw(16, 256), draw(48, 16))
            yield Case(f"{label}, {rows} rows", dict(x=draw(rows, 256), weight=held, bias=draw(48)))
            yield Case(f"{label}, {rows} rows, side path", dict(x=draw(rows, 256), weight=held, low_rank=low))
        ends = dict(act="silu", gate=draw(48), residual=draw(2, 9, 48))
        yield Case(f"{label} and all that may follow", dict(x=draw(2, 9, 256), weight=held, bias=draw(48)) | ends)
    scale = torch.tensor(0.02, dtype=F32)
    codes = (draw(48, 256) / scale).float()
    for label, held in (
        ("int8", QWeight.from_int8(codes.round().clamp(-127, 127).to(torch.int8), scale)),
        ("fp8", QWeight.from_fp8(codes.to(torch.float8_e4m3fn), scale)),
        ("e5m2", QWeight.from_fp8(codes.to(torch.float8_e5m2), scale)),
    ):
        for rows in (1, 33):
            call = dict(x=draw(rows, 256), weight=held, bias=draw(48))
            yield Case(f"{label} with one scale for all, {rows} rows", call)


def grouped_linear() -> Iterator[Case]:
    from pipegraph.kernels.weights.qweight import QWeight

    draw = _Random()
    offsets = torch.tensor([0, 5, 5, 21, 22], dtype=torch.int32)
    yield Case("experts", dict(x=draw(22, 64), weights=draw(4, 48, 64), offsets=offsets))
    yield Case(
        "rows outside of all runs",
        dict(x=draw(25, 64), weights=draw(4, 48, 64), offsets=offsets + 1, bias=draw(4, 48), act="silu"),
    )
    yield Case("no rows", dict(x=draw(0, 64), weights=draw(2, 48, 64), offsets=torch.zeros(3, dtype=torch.int32)))
    for format in ("q8", "fp8", "w4"):
        packed = [QWeight.quantize(draw(48, 128).float(), format) for _ in range(4)]
        yield Case(format, dict(x=draw(22, 128), weights=packed, offsets=offsets, bias=draw(4, 48)))


def quantize_rows() -> Iterator[Case]:
    draw = _Random()
    extremes = draw(6, 64)
    extremes[0], extremes[1, 3], extremes[2] = 0, 3e4, extremes[2] * 1e-6
    for name, x in (("rows", draw(2, 17, 96)), ("one row", draw(1, 64)), ("extremes", extremes)):
        yield Case(f"{name} to int8", dict(x=x), steps=1)
        yield Case(f"{name} to fp8", dict(x=x, format="fp8"), bound=2e-2)
        yield Case(f"{name}, rotated, to int8", dict(x=x, rotate=32), steps=1)
    yield Case("large blocks", dict(x=draw(3, 1024), rotate=512), steps=1)
    long = draw(2, 20480)
    yield Case("long rows", dict(x=long), steps=1)
    yield Case("long rows, rotated", dict(x=long, rotate=256), steps=1)
    yield Case("NaN and Inf in long rows", dict(x=_poisoned_ends(long)), steps=1)


def rms_norm() -> Iterator[Case]:
    draw = _Random()
    for shape in ((1, 64), (2, 5, 72), (3, 1), (33, 3072), (0, 64)):
        yield Case(f"x {shape}", dict(x=draw(*shape), weight=draw(shape[-1])))
    yield Case("no weight", dict(x=draw(7, 100)))
    yield Case("weight in float32", dict(x=draw(7, 64), weight=draw(64).float()))
    yield Case("residual", dict(x=draw(2, 5, 64), weight=draw(64), residual=draw(2, 5, 64)))
    small = draw(5, 64) * 1e-3
    small[1] = 0
    yield Case("small and zero rows", dict(x=small, eps=1e-5))
    yield Case("NaN stays in its row", dict(x=_poisoned(draw(5, 64)), weight=draw(64)))


def _poisoned(x: Tensor) -> Tensor:
    x[..., 2, 3] = math.nan
    return x


def _poisoned_ends(x: Tensor) -> Tensor:
    x = x.clone()
    x[0, -1], x[1, 0] = math.nan, math.inf
    return x


def ada_norm() -> Iterator[Case]:
    draw = _Random()
    for kind in ("layer", "rms"):
        for b, s, n in ((1, 7, 64), (2, 5, 72), (2, 3, 3072)):
            x = draw(b, s, n) + 0.5
            yield Case(f"{kind} {b, s, n}", dict(x=x, shift=draw(b, n), scale=draw(b, n), kind=kind))
        yield Case(f"{kind}, a row each", dict(x=draw(2, 5, 64), shift=draw(2, 5, 64), scale=draw(2, 5, 64), kind=kind))
        yield Case(f"{kind}, neither", dict(x=draw(2, 5, 64), shift=None, scale=None, kind=kind))
    yield Case("NaN stays in its row", dict(x=_poisoned(draw(1, 5, 64)), shift=draw(1, 64), scale=draw(1, 64)))


def gate_add() -> Iterator[Case]:
    draw = _Random()
    for shape in ((1, 1, 1), (2, 5, 72), (2, 33, 3072), (2, 0, 64)):
        yield Case(f"x {shape}", dict(x=draw(*shape), y=draw(*shape), gate=draw(shape[0], shape[2])))
    yield Case("a gate a row", dict(x=draw(2, 5, 64), y=draw(2, 5, 64), gate=draw(2, 5, 64)))


def qk_norm_rope() -> Iterator[Case]:
    draw = _Random()

    def qk(d: int, turned: int, *batch: int) -> dict[str, Any]:
        angle = draw(*batch, 9, turned // 2)
        weights = dict(q_weight=draw(d), k_weight=draw(d))
        return dict(q=draw(2, 4, 9, d), k=draw(2, 2, 9, d), cos=angle.cos(), sin=angle.sin()) | weights

    for interleaved in (False, True):
        for d in (16, 64, 72, 128):
            yield Case(f"heads of {d}, interleaved {interleaved}", qk(d, d) | dict(interleaved=interleaved))
        yield Case(f"half turned, interleaved {interleaved}", qk(64, 32) | dict(interleaved=interleaved))
    yield Case("an angle for each of a batch", qk(64, 64, 2))
    yield Case("no norm", qk(64, 64) | dict(eps=None, q_weight=None, k_weight=None))
    yield Case("no weights", qk(64, 64) | dict(q_weight=None, k_weight=None))
    yield Case("positions", qk(64, 64) | dict(positions=torch.tensor([3, 0, 8, 1, 1, 7, 2, 5, 4])))


def _gated() -> Iterator[dict[str, Any]]:
    draw = _Random()
    for shape in ((1,), (7, 64), (2, 5, 1000), (0, 8)):
        yield dict(gate=draw(*shape) * 3, value=draw(*shape))
    both = draw(7, 128)
    yield dict(gate=both[:, :64], value=both[:, 64:])
    yield dict(gate=torch.linspace(-60, 60, 64, dtype=F64), value=draw(64))


def swiglu() -> Iterator[Case]:
    yield from (Case(f"case {i}", call) for i, call in enumerate(_gated()))


def geglu() -> Iterator[Case]:
    for tanh in (True, False):
        yield from (Case(f"case {i}, tanh {tanh}", call | dict(tanh=tanh)) for i, call in enumerate(_gated()))


def sample() -> Iterator[Case]:
    draw = _Random()
    logits = draw(16, 1000) * 3
    seeds = dict(seed=torch.arange(16), offset=torch.arange(16) * 7)
    settings: list[dict[str, Any]] = [
        {},
        dict(temperature=0.0),
        dict(temperature=0.7),
        dict(top_k=5),
        dict(top_p=0.8),
        dict(min_p=0.1),
        dict(temperature=1.3, top_k=50, top_p=0.9, min_p=0.02),
        dict(top_k=1),
        dict(top_k=2000),
    ]
    for how in settings:
        yield Case(", ".join(f"{k} {v}" for k, v in how.items()) or "as it is", dict(logits=logits) | seeds | how)
    hidden = logits.clone()
    hidden[:, 10:] = -math.inf
    yield Case("hidden tokens", dict(logits=hidden) | seeds)
    yield Case("one token", dict(logits=draw(3, 1)))
    yield Case("equal tokens", dict(logits=torch.zeros(3, 50, dtype=F64), temperature=0.0))


CASES: Final[dict[str, Callable[[], Iterator[Case]]]] = {
    "attention": attention,
    "attention_varlen": attention_varlen,
    "merge_attention": merge_attention,
    "paged_decode": paged_decode,
    "kv_append": kv_append,
    "linear": linear,
    "grouped_linear": grouped_linear,
    "quantize_rows": quantize_rows,
    "rms_norm": rms_norm,
    "ada_norm": ada_norm,
    "gate_add": gate_add,
    "qk_norm_rope": qk_norm_rope,
    "swiglu": swiglu,
    "geglu": geglu,
    "sample": sample,
}
"""Op -> its cases."""
