"""What is compiled ahead of time: representative calls of every op that has a Triton back end, on meta tensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from pipegraph.kernels.backends.triton.ahead import SHARED
from pipegraph.kernels.ops.ada_norm import ada_norm, gate_add
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.attention_varlen import attention_varlen
from pipegraph.kernels.ops.gated import geglu, swiglu
from pipegraph.kernels.ops.grouped_linear import grouped_linear
from pipegraph.kernels.ops.linear import LowRank, linear
from pipegraph.kernels.ops.merge_attention import merge_attention
from pipegraph.kernels.ops.paged import kv_append, paged_decode
from pipegraph.kernels.ops.qk_norm_rope import qk_norm_rope
from pipegraph.kernels.ops.quantize_rows import quantize_rows
from pipegraph.kernels.ops.rms_norm import rms_norm
from pipegraph.kernels.ops.sample import sample
from pipegraph.kernels.weights.qweight import QWeight

Product = Literal["", "half", "int8", "fp8"]
BF16, F16, F32, I8, FP8 = torch.bfloat16, torch.float16, torch.float32, torch.int8, torch.float8_e4m3fn
TMA = ("sm_90", "sm_100", "sm_120")
FP8_NATIVE = ("sm_89", "sm_90", "sm_100", "sm_120", "gfx950", "gfx1201")
EVERY = tuple(SHARED)
LONG = tuple(arch for arch, size in SHARED.items() if size < 100)
"""Where long rows have little shared memory."""
SOME = ("sm_80", "sm_90")
"""Where variants are compiled: the representative case of a kernel is compiled for every architecture."""


@dataclass(frozen=True)
class Case:
    """One call."""

    name: str
    call: Callable[[], Any]
    product: Product = ""
    """Which matrix instructions the first kernel named by ``kernel`` must have."""
    on: tuple[str, ...] = SOME
    """Architectures that it is for."""
    small: bool = False
    """Few rows: the small matrix instructions of an architecture will do."""


def meta(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def _attention(d: int, hq: int = 24, hkv: int = 24, s: int = 4096, dtype: torch.dtype = BF16, **how: Any) -> Any:
    backend = how.pop("backend", "triton")
    dv = how.pop("dv", d)

    def call() -> Any:
        q, k, v = meta(1, s, hq, d, dtype=dtype), meta(1, s, hkv, d, dtype=dtype), meta(1, s, hkv, dv, dtype=dtype)
        given: dict[str, Any] = {k: (meta(*x[0], dtype=x[1]) if isinstance(x, tuple) else x) for k, x in how.items()}
        return attention(*(t.transpose(1, 2) for t in (q, k, v)), backend=backend, **given)

    return call


def _attentions() -> Iterator[Case]:
    for d in (64, 72, 80, 96, 128, 256):
        yield Case(f"attention D{d}", _attention(d), "half")
    yield Case("attention D64 float16", _attention(64, dtype=F16), "half")
    yield Case("attention D64 float32", _attention(64, dtype=F32))
    yield Case("attention D128 grouped causal lse", _attention(128, 32, 8, causal=True, return_lse=True), "half")
    yield Case("attention D128 window", _attention(128, 32, 8, causal=True, window=1024), "half")
    yield Case("attention D128 mask", _attention(128, mask=((1, 1, 4096, 4096), torch.bool)), "half")
    yield Case("attention D64 bias", _attention(64, bias=((1, 24, 4096, 4096), BF16)), "half")
    yield Case("attention D256 softcap", _attention(256, 8, 4, causal=True, softcap=50.0), "half")
    yield Case("attention D64 sinks", _attention(64, 64, 8, causal=True, window=128, sinks=((64,), BF16)), "half")
    for d in (64, 128, 256):
        on = TMA if d < 256 else TMA[:2]  # sm_120 has too few registers
        yield Case(f"attention TMA D{d}", _attention(d, backend="triton-tma"), "half", on)
    yield Case(
        "attention TMA D128 grouped causal", _attention(128, 32, 8, causal=True, backend="triton-tma"), "half", TMA
    )

    def varlen() -> Any:
        ends = meta(9, dtype=torch.int32)
        q, k, v = (meta(8192, h, 128) for h in (32, 8, 8))
        return attention_varlen(q, k, v, ends, ends, 2048, 2048, causal=True, backend="triton")

    def merge() -> Any:
        return merge_attention([(meta(2, 24, 4096, 128), meta(2, 24, 4096, dtype=F32))] * 2, backend="triton")

    yield Case("attention_varlen D128", varlen, "half")
    yield Case("merge_attention", merge)


def _pages() -> Iterator[Case]:
    b, pages, page, heads, d = 16, 4096, 16, 8, 128

    def decode(kind: torch.dtype) -> Any:
        def call() -> Any:
            cache, scale = meta(pages, page, heads, d, dtype=kind), meta(pages, page, heads, dtype=F16)
            scales: dict[str, Any] = dict(k_scale=scale, v_scale=scale) if kind == I8 else {}
            table, lengths = meta(b, 512, dtype=torch.int32), meta(b, dtype=torch.int32)
            return paged_decode(meta(b, 32, d), cache, cache, table, lengths, backend="triton", **scales)

        return call

    def append(kind: torch.dtype) -> Any:
        def call() -> Any:
            cache, scale = meta(pages, page, heads, d, dtype=kind), meta(pages, page, heads, dtype=F16)
            scales: dict[str, Any] = dict(k_scale=scale, v_scale=scale) if kind == I8 else {}
            new, slots = meta(b, heads, d), meta(b, dtype=torch.int32)
            return kv_append(new, new, cache, cache, slots, backend="triton", **scales)

        return call

    for kind, name in ((BF16, ""), (I8, " int8")):
        yield Case(f"paged_decode D128{name}", decode(kind), "half", small=True)
        yield Case(f"kv_append{name}", append(kind))


def weight(format: str, n: int, k: int, group: int | None = None, rotate: int | None = None) -> QWeight:
    """A packed weight without memory."""
    match format:
        case "w4":
            scale = meta(n, k // (group or 32), dtype=F16)
            data = meta(n, k // 2, dtype=torch.uint8)
            return QWeight("w4", (n, k), data, scale, scale.clone(), group or 32)
        case "q8":
            scale = meta(n, k // group, dtype=F16) if group else meta(n, dtype=F32)
            return QWeight("q8", (n, k), meta(n, k, dtype=I8), scale, None, group, rotate)
    return QWeight("fp8", (n, k), meta(n, k, dtype=FP8), meta(n, dtype=F32))


def _linear(
    m: int,
    format: str,
    *,
    k: int = 3072,
    rank: int = 0,
    precision: str = "exact",
    full: bool = False,
    dtype: torch.dtype = BF16,
    **how: Any,
) -> Any:
    n = 3072

    def call() -> Any:
        low = LowRank(meta(rank, k), meta(n, rank)) if rank else None
        ends: dict[str, Any] = dict(act="gelu_tanh", gate=meta(n), residual=meta(m, n)) if full else {}
        packed = weight(format, n, k, **how)
        name = "triton-w8a8" if precision == "fast" else "triton"
        return linear(meta(m, k, dtype=dtype), packed, meta(n), low_rank=low, precision=precision, backend=name, **ends)

    return call


def _linears() -> Iterator[Case]:
    for m in (16, 4608):
        small = m < 64
        yield Case(f"linear w8a8 int8 M{m}", _linear(m, "q8", precision="fast"), "int8", small=small)
        yield Case(f"linear w8a8 fp8 M{m}", _linear(m, "fp8", precision="fast"), "fp8", FP8_NATIVE, small)
        yield Case(f"linear q8 M{m}", _linear(m, "q8", rotate=256), "half", small=small)
        yield Case(f"linear fp8 M{m}", _linear(m, "fp8"), "half", FP8_NATIVE, small)
        for group in (32, 64, 128):
            yield Case(f"linear w4 g{group} M{m}", _linear(m, "w4", group=group), "half", small=small)
    yield Case("linear w8a8 int8 M4608 rank 32", _linear(4608, "q8", precision="fast", rank=32), "int8")
    yield Case("linear w8a8 fp8 M4608 rank 32", _linear(4608, "fp8", precision="fast", rank=32), "fp8", FP8_NATIVE)
    yield Case("linear w8a8 int8 M4608 all", _linear(4608, "q8", precision="fast", rank=32, full=True), "int8")
    yield Case("linear w4 g32 M1", _linear(1, "w4", group=32), small=True)
    yield Case("linear w4 g32 M16 rank 32", _linear(16, "w4", group=32, rank=32), "half", small=True)
    yield Case("linear w4 g32 M4608 rank 32", _linear(4608, "w4", group=32, rank=32), "half")
    yield Case("linear q8 g32 M16", _linear(16, "q8", group=32), "half", small=True)

    yield Case("linear q8 M16 K28672", _linear(16, "q8", rotate=256, k=28672), "half", LONG, True)
    for format, g in (("w4", 32), ("q8", 32), ("q8", None)):
        what = f"{format} g{g}" if g else format
        yield Case(f"linear {what} float32 M512", _linear(512, format, dtype=F32, group=g), on=EVERY)

    def grouped(format: str) -> Any:
        def call() -> Any:
            packed = [weight(format, 1536, 2048) for _ in range(8)] if format else meta(8, 1536, 2048)
            return grouped_linear(meta(4096, 2048), packed, meta(9, dtype=torch.int32), backend="triton")

        return call

    yield Case("grouped_linear", grouped(""), "half")


def _passes() -> Iterator[Case]:
    x, wide = meta(1, 4608, 3072), meta(1, 4608, 24576)
    heads = meta(1, 4608, 24, 128).transpose(1, 2)
    vector, angle = meta(1, 3072), meta(4608, 64, dtype=F32)
    logits, b = meta(4, 151936), "triton"
    yield Case("quantize_rows int8", lambda: quantize_rows(x, backend=b))
    yield Case("quantize_rows int8 rotated", lambda: quantize_rows(x, rotate=256, backend=b))
    for k in (16384, 21504, 27648, 28672):
        long = meta(1, 512, k)
        call = lambda long=long: quantize_rows(long, rotate=256, backend=b)  # noqa: E731
        yield Case(f"quantize_rows int8 rotated K{k}", call, on=LONG)
    yield Case("quantize_rows fp8", lambda: quantize_rows(x, "fp8", backend=b), on=FP8_NATIVE)
    yield Case("rms_norm", lambda: rms_norm(x, meta(3072), residual=x, backend=b))
    yield Case("ada_norm", lambda: ada_norm(x, vector, vector, backend=b))
    yield Case("gate_add", lambda: gate_add(x, x, vector, backend=b))
    for pairs in (False, True):
        yield Case(
            f"qk_norm_rope{' interleaved' * pairs}",
            lambda pairs=pairs: qk_norm_rope(  # type: ignore[misc]
                heads, heads, meta(128), meta(128), angle, angle, interleaved=pairs, backend=b
            ),
        )
    yield Case("swiglu", lambda: swiglu(wide[..., :12288], wide[..., 12288:], backend=b))
    yield Case("geglu", lambda: geglu(wide[..., :12288], wide[..., 12288:], backend=b))
    yield Case("sample", lambda: sample(logits, 0.8, 50, 0.9, seed=meta(4, dtype=torch.int64), backend=b))


def _cases() -> Iterator[Case]:
    for case in (*_attentions(), *_pages(), *_linears(), *_passes()):
        every = case.on == SOME and (case.name in REPRESENTATIVE or case.name.startswith(("attention", "paged")))
        yield dataclasses.replace(case, on=EVERY) if every else case


REPRESENTATIVE = (
    "attention D128",
    "attention D64",
    "attention TMA D128",
    "attention_varlen D128",
    "merge_attention",
    "paged_decode D128 int8",
    "kv_append int8",
    "linear w8a8 int8 M4608 rank 32",
    "linear w8a8 fp8 M4608",
    "linear q8 M16",
    "linear w4 g32 M4608",
    "linear w4 g32 M1",
    "grouped_linear",
    "quantize_rows int8 rotated",
    "rms_norm",
    "ada_norm",
    "gate_add",
    "qk_norm_rope interleaved",
    "swiglu",
    "geglu",
    "sample",
)
"""One or two cases of each kernel: compiled for every architecture, as all cases of attention are."""
CASES = {case.name: case for case in _cases()}
FAST = {name: CASES[name].on[-1 - i % len(CASES[name].on)] for i, name in enumerate(REPRESENTATIVE)}
FAST["quantize_rows int8 rotated K28672"] = FAST["linear q8 M16 K28672"] = "sm_89"
"""Case -> the architecture that it is compiled for on each commit: each its own, in turn."""
