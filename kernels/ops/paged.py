"""Keys and values in pages: attention of one new token per sequence, and the writing of new tokens.

A cache is (pages, page, Hkv, D): page p of a sequence is the row ``block_table[sequence, p]`` of it. An int8 cache has
a scale per token and head: the value is ``integer * scale``.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from ..backends import cpu
from ..backends.torch.paged import append_reference, append_torch, decode_reference, decode_torch
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from .attention import beyond_torch, check_scores

Result = Tensor | tuple[Tensor, Tensor]
Pair = tuple[tuple[int, ...], torch.dtype]
SCALES = (torch.float16, torch.float32, torch.float64)
"""Dtypes of scales; the last is for tests."""


class Signature(NamedTuple):
    """Signature of a call of ``paged_decode``, for the choice of a back end."""

    q: tuple[int, ...]
    k_cache: tuple[int, ...]
    v_cache: tuple[int, ...]
    dtype: torch.dtype
    cache_dtype: torch.dtype
    device: str
    pages: int
    """Columns of the block table."""
    window: int | None
    lse: bool
    softcap: bool
    sinks: bool
    precision: str = "exact"


class AppendSignature(NamedTuple):
    """Signature of a call of ``kv_append``, for the choice of a back end."""

    k: tuple[int, ...]
    v: tuple[int, ...]
    page: int
    dtype: torch.dtype
    cache_dtype: torch.dtype
    device: str
    precision: str = "exact"


@overload
def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[False] = False,
    backend: str | None = None,
) -> Tensor: ...
@overload
def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[True],
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...
def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
    backend: str | None = None,
) -> Result:
    """Attend from the last token of each sequence to all of its tokens, its own included.

    Args:
        q: (B, Hq, D), float.
        k_cache: (pages, page, Hkv, D), the dtype of q or int8; Hq is a multiple of Hkv.
        v_cache: (pages, page, Hkv, Dv), likewise.
        block_table: (B, pages of the longest sequence), int32; entries beyond a sequence's pages are not read.
        seq_lens: (B,), int32: tokens of each sequence; 0 gives 0.
        k_scale: (pages, page, Hkv), float16 or float32, for an int8 cache.
        v_scale: Likewise.
        window: Most tokens to attend to.
        scale: As in ``attention``.
        softcap: As in ``attention``.
        sinks: As in ``attention``.
        return_lse: Give (output, log-sum-exp (B, Hq)).
        backend: Name of the back end to use.

    Returns:
        (B, Hq, Dv) in the dtype of q.

    Raises:
        KernelError: invalid shapes, dtypes or flags, or a requested back end that does not support the call.
    """
    key = (
        q.shape,
        q.dtype,
        q.device,
        *(_pair(x) for x in (k_cache, v_cache, block_table, seq_lens, k_scale, v_scale)),
        window,
        softcap,
        _pair(sinks),
        return_lse,
    )
    run = DECODE.pick(key, backend).fn
    if scale is None:
        scale = q.shape[-1] ** -0.5
    out: Result = run(
        q,
        k_cache,
        v_cache,
        block_table,
        seq_lens,
        k_scale=k_scale,
        v_scale=v_scale,
        window=window,
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        return_lse=return_lse,
    )
    return out


def kv_append(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    backend: str | None = None,
) -> None:
    """Write new tokens into a cache, in place; into an int8 cache quantized, with their scales.

    Per token and head, scale = max |x| / 127 (at least the smallest normal number of the scale's dtype); the stored
    value is x / scale, rounded to nearest even, within +-127. With NaN or Inf in it, the scale is NaN.

    Args:
        k: (T, Hkv, D), float.
        v: (T, Hkv, Dv), the dtype of k.
        k_cache: (pages, page, Hkv, D), the dtype of k or int8.
        v_cache: (pages, page, Hkv, Dv), likewise.
        slots: (T,), int32 or int64: page * page size + place in the page, no two alike; a negative one is left out.
        k_scale: (pages, page, Hkv), float16 or float32, for an int8 cache.
        v_scale: Likewise.
        backend: Name of the back end to use.

    Raises:
        KernelError: invalid shapes or dtypes, or a requested back end that does not support the call.
    """
    key = k.shape, k.dtype, k.device, *(_pair(x) for x in (v, k_cache, v_cache, slots, k_scale, v_scale))
    APPEND.pick(key, backend).fn(k, v, k_cache, v_cache, slots, k_scale=k_scale, v_scale=v_scale)


def _pair(x: Tensor | None) -> Pair | None:
    return None if x is None else (x.shape, x.dtype)


def _describe(key: Any) -> Signature:
    q, dtype, device, k_cache, v_cache, table, lens, k_scale, v_scale, window, softcap, sinks, lse = key
    if not (len(q) == 3 and dtype.is_floating_point):
        raise KernelError(f"paged_decode: q is (B, Hq, D), float; got {dtype} {tuple(q)}")
    _check_cache("paged_decode", dtype, q[2], k_cache, v_cache, k_scale, v_scale)
    heads = k_cache[0][2]
    if not heads or q[1] % heads:
        raise KernelError(f"paged_decode: {q[1]} query heads are no multiple of {heads} key heads")
    for name, (shape, kind), dims in (("block_table", table, 2), ("seq_lens", lens, 1)):
        if kind != torch.int32 or len(shape) != dims or shape[0] != q[0]:
            raise KernelError(f"paged_decode: {name} is int32 with {dims} dimensions, {q[0]} rows; got {kind} {shape}")
    if window is not None and window < 1:
        raise KernelError(f"paged_decode: a window is at least 1, not {window}")
    check_scores(softcap, sinks, q[1], "paged_decode")
    return Signature(
        tuple(q),
        tuple(k_cache[0]),
        tuple(v_cache[0]),
        dtype,
        k_cache[1],
        device.type,
        table[0][1],
        window,
        lse,
        softcap is not None,
        sinks is not None,
    )


def _describe_append(key: Any) -> AppendSignature:
    k, dtype, device, (v, v_dtype), k_cache, v_cache, slots, k_scale, v_scale = key
    if not (len(k) == len(v) == 3 and k[:2] == v[:2] and dtype == v_dtype and dtype.is_floating_point):
        raise KernelError(f"kv_append: k and v are (T, Hkv, D), float; got {dtype} {tuple(k)} and {v_dtype} {tuple(v)}")
    _check_cache("kv_append", dtype, k[2], k_cache, v_cache, k_scale, v_scale)
    if k_cache[0][2:] != k[1:] or v_cache[0][2:] != v[1:]:
        raise KernelError(f"kv_append: {tuple(k)} and {tuple(v)} do not fit caches {k_cache[0]} and {v_cache[0]}")
    if tuple(slots[0]) != (k[0],) or slots[1] not in (torch.int32, torch.int64):
        raise KernelError(f"kv_append: slots are ({k[0]},) and int32 or int64; got {slots[1]} {tuple(slots[0])}")
    return AppendSignature(tuple(k), tuple(v), k_cache[0][1], dtype, k_cache[1], device.type)


def _check_cache(
    op: str, dtype: torch.dtype, size: int, k: Pair, v: Pair, k_scale: Pair | None, v_scale: Pair | None
) -> None:
    if not (len(k[0]) == len(v[0]) == 4 and k[0][:3] == v[0][:3] and k[0][3] == size):
        raise KernelError(f"{op}: caches are (pages, page, Hkv, {size} | Dv); got {tuple(k[0])} and {tuple(v[0])}")
    if k[1] != v[1] or k[1] not in (dtype, torch.int8):
        raise KernelError(f"{op}: caches are int8 or {dtype} like the other tensors; got {k[1]} and {v[1]}")
    if k[1] != torch.int8:
        if k_scale or v_scale:
            raise KernelError(f"{op}: scales are for int8 caches only")
    elif k_scale != v_scale or not k_scale or k_scale[0] != k[0][:3] or k_scale[1] not in SCALES:
        raise KernelError(f"{op}: an int8 cache needs k_scale and v_scale {tuple(k[0][:3])}, float16 or float32")


def _decode_few_rows(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    return_lse: bool,
) -> Result:
    from ..backends.cpu.paged import paged_decode as run

    ks, vs = (x if x is None else x.float().contiguous() for x in (k_scale, v_scale))
    k, v, table, lengths = (x.contiguous() for x in (k_cache, v_cache, block_table, seq_lens))
    out, lse = run(q, k, v, table, lengths, ks, vs, window, scale, softcap, sinks)
    return (out, lse) if return_lse else out


def _refuses_few_rows(s: Any) -> str:
    if s.device != "cpu" or s.dtype != torch.float32:
        return "is for float32 on a CPU"
    return "writes no int8" if isinstance(s, AppendSignature) and s.cache_dtype == torch.int8 else ""


def _rank_few_rows(s: Signature) -> float:
    """It is single-threaded, so large work is left to torch."""
    return 20 if s.q[0] * s.q[1] * s.q[2] * s.pages * s.k_cache[1] <= cpu.ATTENDED else 5


def _append_few_rows(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> None:
    if not (k_cache.is_contiguous() and v_cache.is_contiguous()):
        return append_torch(k, v, k_cache, v_cache, slots, k_scale=k_scale, v_scale=v_scale)
    from ..backends.cpu.paged import kv_append as run

    run(k, v, k_cache, v_cache, slots)


def _decode_triton(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_table: Tensor, seq_lens: Tensor, **options: Any
) -> Result:
    from ..backends.triton.paged import paged_decode as run

    return run(q, k_cache, v_cache, block_table, seq_lens, **options)


def _append_triton(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor, **scales: Any) -> None:
    from ..backends.triton.paged import kv_append as run

    run(k, v, k_cache, v_cache, slots, **scales)


def _refuses_triton(s: Any) -> str:
    if s.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"computes in float32, float16 and bfloat16, not {s.dtype}"
    sizes = (s.q[-1], s.v_cache[-1]) if isinstance(s, Signature) else (s.k[-1], s.v[-1])
    return "head sizes up to 256" if max(sizes) > 256 else available.refuses(s.device)


def _sample(device: str, dtype: str) -> Signature:
    cache = (1024, 64, 8, 128)
    kind = getattr(torch, dtype)
    return Signature((8, 32, 128), cache, cache, kind, kind, device, 64, None, False, False, False)


def _sample_append(device: str, dtype: str) -> AppendSignature:
    kind = getattr(torch, dtype)
    return AppendSignature((8, 8, 128), (8, 8, 128), 64, kind, kind, device)


DECODE = define(Op("paged_decode", _describe, _sample))
register(Backend("paged_decode", "reference", decode_reference, rank=lambda s: 0))
register(Backend("paged_decode", "torch", decode_torch, rank=lambda s: 10, refuses=beyond_torch))
register(
    Backend(
        "paged_decode",
        "few-rows",
        _decode_few_rows,
        rank=_rank_few_rows,
        refuses=_refuses_few_rows,
        missing=cpu.missing,
    )
)
register(
    Backend(
        "paged_decode",
        "triton",
        _decode_triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
APPEND = define(Op("kv_append", _describe_append, _sample_append))
register(Backend("kv_append", "reference", append_reference, rank=lambda s: 0))
register(Backend("kv_append", "torch", append_torch, rank=lambda s: 10))
register(
    Backend(
        "kv_append", "few-rows", _append_few_rows, rank=lambda s: 20, refuses=_refuses_few_rows, missing=cpu.missing
    )
)
register(
    Backend(
        "kv_append",
        "triton",
        _append_triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
