"""Subjects of benchmarks: calls of ops in shapes of real models, and tiny ones on a CPU as a smoke test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from pipegraph.kernels.ops.ada_norm import ada_norm
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.gated import swiglu
from pipegraph.kernels.ops.linear import linear
from pipegraph.kernels.ops.paged import paged_decode
from pipegraph.kernels.ops.qk_norm_rope import qk_norm_rope
from pipegraph.kernels.ops.quantize_rows import QRows, quantize_rows
from pipegraph.kernels.ops.rms_norm import rms_norm
from pipegraph.kernels.weights.qweight import QWeight

from .timing import Call, rotate

L2: Final = 256 << 20
"""Bytes of weights that are gone through before the first is read again: more than any cache."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One call in one shape, made by several back ends."""

    op: str
    shape: str
    make: Callable[[str], Call]
    """Back end -> the call."""
    want: Callable[[], Tensor]
    """Expected result in float64: all of it, or the part of ``part``."""
    bound: float
    """Relative error that is let through."""
    part: Callable[[Any], Tensor] = lambda result: result
    flops: float = 0.0
    bytes: float = 0.0
    product: str = "half"
    """Which matrix product sets the floor: ``half``, ``int8`` or ``fp8``."""
    only: tuple[str, ...] = ()
    """Back ends to measure; all if empty."""
    graph: bool = False
    """Short: measure inside a CUDA graph."""


class Maker:
    """Makes random tensors on the device, in its dtype: bfloat16 on a GPU, float32 on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tiny = device.type == "cpu"
        self.dtype = torch.float32 if self.tiny else torch.bfloat16
        self.bound = 1e-5 if self.tiny else 1e-2

    def __call__(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(dtype or self.dtype)


def attentions(make: Maker) -> Iterator[Subject]:
    shapes = [(1, 24, 24, 4608, 128), (1, 24, 24, 4096, 64), (1, 32, 8, 8192, 128), (1, 16, 16, 4096, 72)]
    for shape in [(1, 2, 1, 100, 64)] if make.tiny else shapes:
        yield _attention(make, *shape)
        if shape[-1] != 72:
            yield _attention(make, *shape, causal=True)
            yield _attention(make, *shape, causal=True, window=32 if make.tiny else 1024)


def _attention(make: Maker, b: int, hq: int, hkv: int, s: int, d: int, **how: Any) -> Subject:
    q, k, v = (make(b, s, h, d).transpose(1, 2) for h in (hq, hkv, hkv))
    few = hq // hkv  # the query heads of the first key head
    window = how.get("window", s)
    pairs = window * s - window * (window - 1) / 2 if how else s * s

    def want() -> Tensor:
        few_heads = q[:, :few].double(), k[:, :1].double(), v[:, :1].double()
        expected: Tensor = attention(*few_heads, backend="reference", **how)
        return expected

    return Subject(
        "attention",
        f"{b}x{hq}/{hkv}x{s}x{d} {' '.join(how)}".strip(),
        lambda name: lambda: attention(q, k, v, backend=name, **how),
        want,
        make.bound,
        lambda o: o[:, :few],
        flops=4 * b * hq * pairs * d,
        bytes=2 * q.element_size() * b * s * d * (hq + hkv),
    )


def linears(make: Maker) -> Iterator[Subject]:
    """8-bit weights with 8-bit inputs, against the 16-bit product."""
    shapes = [(4608, 3072, 3072), (4608, 12288, 3072), (4608, 3072, 12288), (512, 3072, 3072)]
    for m, n, k in [(32, 64, 128)] if make.tiny else shapes:
        x, weight = make(m, k), make(n, k)
        yield _linear(make, x, weight, "half", ("torch", "triton"))
        for format, product in (("q8", "int8"), ("fp8", "fp8")):
            packed = QWeight.quantize(weight, format)  # type: ignore[arg-type]
            yield _linear(make, x, packed, product, ("triton-w8a8", "scaled-mm", "triton", "torch"))


def _linear(make: Maker, x: Tensor, weight: Tensor | QWeight, product: str, only: tuple[str, ...]) -> Subject:
    (m, k), n = x.shape, weight.shape[0]
    some = slice(0, 256)  # rows that are checked
    return Subject(
        "linear",
        f"{m}x{n}x{k} {_kind(weight)}",
        lambda name: lambda: linear(x, weight, precision="fast", backend=name),
        lambda: x[some].double() @ _wide(weight).T,
        make.bound,
        lambda y: y[some],
        flops=2 * m * n * k,
        bytes=x.element_size() * (m * k + m * n) + weight.nbytes,
        product=product,
        only=only,
    )


def few_rows(make: Maker) -> Iterator[Subject]:
    """Few rows times a weight that is read once: bound by memory."""
    for n, k in [(64, 256)] if make.tiny else [(4096, 4096), (12288, 3072)]:
        plain = [make(n, k) for _ in range(1 if make.tiny else L2 // (2 * n * k) + 1)]
        packed = [QWeight.quantize(weight, "w4", group=64) for weight in plain]
        for m in (5,) if make.tiny else (1, 16, 64):
            yield _few_rows(make, make(m, k), plain)
            yield _few_rows(make, make(m, k), packed)


def _few_rows(make: Maker, x: Tensor, weights: Sequence[Tensor | QWeight]) -> Subject:
    def turns(name: str) -> Call:
        return rotate([partial(linear, x, weight, backend=name) for weight in weights])

    (m, k), n = x.shape, weights[0].shape[0]
    return Subject(
        "linear",
        f"{m}x{n}x{k} {_kind(weights[0])}",
        turns,
        lambda: x.double() @ _wide(weights[0]).T,
        make.bound,
        flops=2 * m * n * k,
        bytes=weights[0].nbytes + x.element_size() * (m * k + m * n),
        only=("torch", "triton", "few-rows"),
        graph=True,
    )


def _kind(weight: Tensor | QWeight) -> str:
    if isinstance(weight, Tensor):
        return f"{8 * weight.element_size()}-bit"
    return weight.format + (f" g{weight.group}" if weight.group else "")


def _wide(weight: Tensor | QWeight) -> Tensor:
    return weight.double() if isinstance(weight, Tensor) else weight.dequantize(torch.float64)


def decodes(make: Maker) -> Iterator[Subject]:
    for shape in [(2, 4, 2, 64, 40)] if make.tiny else [(1, 32, 8, 128, 32768), (16, 32, 8, 128, 8192)]:
        yield _decode(make, *shape)


def _decode(make: Maker, b: int, hq: int, hkv: int, d: int, length: int, page: int = 16) -> Subject:
    per = (length + page - 1) // page
    k, v, q = make(b * per, page, hkv, d), make(b * per, page, hkv, d), make(b, hq, d)
    table = torch.randperm(b * per, device=make.device).int().view(b, per)
    lengths = torch.full((b,), length, dtype=torch.int32, device=make.device)

    def want() -> Tensor:
        first = table[0].long()
        own = torch.arange(per, dtype=torch.int32, device=make.device)[None]
        return paged_decode(q[:1].double(), k[first].double(), v[first].double(), own, lengths[:1], backend="reference")

    return Subject(
        "paged_decode",
        f"{b}x{hq}/{hkv}x{length}x{d}",
        lambda name: lambda: paged_decode(q, k, v, table, lengths, backend=name),
        want,
        make.bound,
        lambda o: o[:1],
        bytes=2 * b * length * hkv * d * k.element_size(),
        graph=True,
    )


def fused(make: Maker) -> Iterator[Subject]:
    """Ops that go over memory once."""
    s, h, d = (8, 2, 64) if make.tiny else (4608, 24, 128)
    n = h * d
    x, vector, weight = make(1, s, n), make(1, n), make(n)
    heads, angle = make(1, s, h, d).transpose(1, 2), make(s, d // 2, dtype=torch.float32)
    wide, nbytes = make(1, s, 4 * n), x.nbytes
    turned = (heads, heads, make(d), make(d), angle.cos(), angle.sin())
    rows = x.numel() + nbytes
    yield _fused(make, "rms_norm", rms_norm, (x, weight), 2 * nbytes)
    yield _fused(make, "ada_norm", ada_norm, (x, vector, vector), 2 * nbytes)
    yield _fused(make, "swiglu", swiglu, (wide[..., : 2 * n], wide[..., 2 * n :]), 6 * nbytes)
    yield _fused(make, "qk_norm_rope", qk_norm_rope, turned, 4 * nbytes)
    yield _fused(make, "quantize_rows", quantize_rows, (x,), rows)
    yield _fused(make, "quantize_rows", quantize_rows, (x,), rows, rotate=64)


def _fused(
    make: Maker, name: str, op: Callable[..., Any], args: tuple[Tensor, ...], moved: float, **how: Any
) -> Subject:
    return Subject(
        name,
        "x".join(map(str, args[0].shape)) + "".join(f" {k} {v}" for k, v in how.items()),
        lambda backend: lambda: op(*args, **how, backend=backend),
        lambda: _first(op(*(t.double() for t in args), **how, backend="reference")),
        5e-2 if name == "quantize_rows" else make.bound,
        _first,
        bytes=moved,
    )


def _first(result: Any) -> Tensor:
    """The tensor to check of what an op gives."""
    if isinstance(result, QRows):
        return result.dequantize(torch.float64)
    first: Tensor = result[0] if isinstance(result, tuple) else result
    return first


SUITES: Final[dict[str, Callable[[Maker], Iterator[Subject]]]] = {
    "attention": attentions,
    "linear": linears,
    "few-rows": few_rows,
    "decode": decodes,
    "fused": fused,
}
"""Name -> its subjects, made one after the other."""
