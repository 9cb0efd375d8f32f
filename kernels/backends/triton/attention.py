"""Attention by tiles with online softmax (FlashAttention-2, arXiv 2307.08691): any strides, dense or of many sequences.

A program computes BM query rows of one head. Head sizes that are no power of two are cut into a large tile and a small
one (72 = 64 + 8 of 16), so that little work is wasted. Keys that all rows of a program attend to are processed without
masks; at the edges of a causal band and under a mask, NaN is kept from rows that may not attend to it.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.backends.torch.attention_reference import Result

from .attention_parts import LN_2, LOG2_E, in_base_2, is_bad, key_range, load_rows, online_softmax, start
from .available import architecture
from .configs_attention import attention_config, split
from .linear_parts import columns_last


@triton.jit
def _tiles(
    acc0, acc1, l_i, m_i, q0, q1, K, V, MASK, BIAS, skn, svn, smm, smn, sbm, sbn, first, last, rows, sq, skv, window,
    before, after, D: tl.constexpr, D0: tl.constexpr, D1: tl.constexpr, E: tl.constexpr, E0: tl.constexpr,
    E1: tl.constexpr, BN: tl.constexpr, EDGE: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Attend to the keys of [first, last), a tile at a time; EDGE: some row may not see some of them."""
    d0 = tl.arange(0, D0)
    e0 = tl.arange(0, E0)
    n = tl.arange(0, BN)
    HIDES: tl.constexpr = EDGE and (CAUSAL or MASK is not None or BIAS is not None)
    for n0 in tl.range(first, last, BN, num_stages=STAGES):
        left = skv - n0
        k_tile = K + tl.cast(n0, tl.int64) * skn
        scores = tl.dot(q0, tl.trans(load_rows(k_tile, n, d0, skn, left, D, EDGE, D < D0)), input_precision="ieee")
        if D1 > 0:
            k1 = load_rows(k_tile, n, D0 + tl.arange(0, D1), skn, left, D, EDGE, D < D0 + D1)
            scores = tl.dot(q1, tl.trans(k1), scores, input_precision="ieee")
        scores = in_base_2(scores, before, after, SOFTCAP)
        v_tile = V + tl.cast(n0, tl.int64) * svn
        v0 = load_rows(v_tile, n, e0, svn, left, E, EDGE, E < E0)
        if E1 > 0:
            v1 = load_rows(v_tile, n, E0 + tl.arange(0, E1), svn, left, E, EDGE, E < E0 + E1)
        if BIAS is not None:
            inside = (rows < sq)[:, None] & (n < left)[None, :]
            at = BIAS + rows.to(tl.int64)[:, None] * sbm + (n0 + n).to(tl.int64)[None, :] * sbn
            bias = tl.load(at, mask=inside, other=0.0).to(tl.float32)
            scores += bias * LOG2_E
        if EDGE:
            allowed = (n < left)[None, :]
            if CAUSAL:
                behind = rows[:, None] + (skv - sq) - (n0 + n)[None, :]
                allowed = allowed & (behind >= 0)
                if WINDOW:
                    allowed = allowed & (behind < window)
            if MASK is not None:
                at = MASK + rows.to(tl.int64)[:, None] * smm + (n0 + n).to(tl.int64)[None, :] * smn
                allowed = tl.load(at, mask=allowed & (rows < sq)[:, None], other=0) != 0
            if BIAS is not None:
                allowed = allowed & (bias != float("-inf"))
            if HIDES:
                bad = is_bad(v0)
                if E1 > 0:
                    bad = bad | is_bad(v1)
                    v1 = tl.where(bad[:, None], 0.0, v1)
                v0 = tl.where(bad[:, None], 0.0, v0)
                scores = tl.where(bad[None, :], float("nan"), scores)
            scores = tl.where(allowed, scores, float("-inf"))
        weights, alpha, l_i, m_i = online_softmax(scores, m_i, l_i)
        weights = weights.to(V.dtype.element_ty)
        acc0 = tl.dot(weights, v0, acc0 * alpha[:, None], input_precision="ieee")
        if E1 > 0:
            acc1 = tl.dot(weights, v1, acc1 * alpha[:, None], input_precision="ieee")
    return acc0, acc1, l_i, m_i


@triton.jit(do_not_specialize=["sq", "skv", "window", "tiles"])
def attention_kernel(
    Q, K, V, OUT, LSE, MASK, BIAS, SINKS, CU_Q, CU_K, before, after, sqb, sqh, sqm, skb, skh, skn, svb, svh, svn, sob,
    soh, som, slb, slh, slm, smb, smh, smm, smn, sbb, sbh, sbm, sbn, heads, group, sq, skv, window, tiles,
    D: tl.constexpr, D0: tl.constexpr, D1: tl.constexpr, E: tl.constexpr, E0: tl.constexpr, E1: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    BY_8: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """OUT = softmax(scores of Q and K) V; D and E are the head sizes of keys and values, s** strides in elements.

    With CU_Q and CU_K, the starts of sequences that lie one after the other in Q and K, the batch is one of sequences.
    """
    if BY_8:  # 8 divides the strides, 16 does not (head size 72): unless told so, loads are narrow and not asynchronous
        sqb, sqh, sqm = sqb // 8 * 8, sqh // 8 * 8, sqm // 8 * 8
        skb, skh, skn = skb // 8 * 8, skh // 8 * 8, skn // 8 * 8
        svb, svh, svn = svb // 8 * 8, svh // 8 * 8, svn // 8 * 8
        sob, soh, som = sob // 8 * 8, soh // 8 * 8, som // 8 * 8
    batch_head = tl.program_id(0) // tiles
    first_row = (tiles - 1 - tl.program_id(0) % tiles) * BM  # under `causal` the last rows see most: they start first
    b = (batch_head // heads).to(tl.int64)
    h = (batch_head % heads).to(tl.int64)
    if CU_Q is not None:
        start_q = tl.load(CU_Q + b).to(tl.int64)
        start_k = tl.load(CU_K + b).to(tl.int64)
        sq = (tl.load(CU_Q + b + 1) - start_q).to(tl.int32)
        skv = (tl.load(CU_K + b + 1) - start_k).to(tl.int32)
        Q += start_q * sqm
        OUT += start_q * som
        row_sums = start_q * slm
        K += start_k * skn
        V += start_k * svn
    else:
        Q += b * sqb
        OUT += b * sob
        row_sums = b * slb
        K += b * skb
        V += b * svb
    Q += h * sqh + tl.cast(first_row, tl.int64) * sqm
    K += h // group * skh
    V += h // group * svh
    OUT += h * soh + tl.cast(first_row, tl.int64) * som
    if MASK is not None:
        MASK += b * smb + h * smh
    if BIAS is not None:
        BIAS += b * sbb + h * sbh
    m = tl.arange(0, BM)
    rows = first_row + m
    rows_left = sq - first_row
    d0 = tl.arange(0, D0)
    q0 = load_rows(Q, m, d0, sqm, rows_left, D, True, D < D0)
    q1 = q0
    if D1 > 0:
        q1 = load_rows(Q, m, D0 + tl.arange(0, D1), sqm, rows_left, D, True, D < D0 + D1)
    acc0 = tl.zeros([BM, E0], dtype=tl.float32)
    acc1 = acc0
    if E1 > 0:
        acc1 = tl.zeros([BM, E1], dtype=tl.float32)
    m_i, l_i = start(SINKS, h, BM)
    lo, full_lo, full_hi, hi = key_range(first_row, sq, skv, window, BM, BN, CAUSAL, WINDOW)
    if CU_Q is not None:
        hi = tl.where(rows_left > 0, hi, 0)
        full_hi = tl.where(rows_left > 0, full_hi, 0)
    if MASK is not None or BIAS is not None:
        full_hi = lo
    elif WINDOW:
        acc0, acc1, l_i, m_i = _tiles(
            acc0, acc1, l_i, m_i, q0, q1, K, V, MASK, BIAS, skn, svn, smm, smn, sbm, sbn, lo, full_lo, rows, sq, skv,
            window, before, after, D, D0, D1, E, E0, E1, BN, True, CAUSAL, WINDOW, SOFTCAP, STAGES,
        )  # fmt: skip
    if MASK is None and BIAS is None:
        acc0, acc1, l_i, m_i = _tiles(
            acc0, acc1, l_i, m_i, q0, q1, K, V, MASK, BIAS, skn, svn, smm, smn, sbm, sbn, full_lo, full_hi, rows, sq,
            skv, window, before, after, D, D0, D1, E, E0, E1, BN, False, CAUSAL, WINDOW, SOFTCAP, STAGES,
        )  # fmt: skip
    acc0, acc1, l_i, m_i = _tiles(
        acc0, acc1, l_i, m_i, q0, q1, K, V, MASK, BIAS, skn, svn, smm, smn, sbm, sbn, full_hi, hi, rows, sq, skv,
        window, before, after, D, D0, D1, E, E0, E1, BN, True, CAUSAL, WINDOW, SOFTCAP, STAGES,
    )  # fmt: skip
    share = tl.where(l_i == 0.0, 0.0, 1.0 / l_i)
    inside = (rows < sq)[:, None]
    e0 = tl.arange(0, E0)
    at = OUT + m[:, None] * som
    tl.store(at + e0[None, :], (acc0 * share[:, None]).to(OUT.dtype.element_ty), mask=inside & (e0 < E)[None, :])
    if E1 > 0:
        e1 = E0 + tl.arange(0, E1)
        tl.store(at + e1[None, :], (acc1 * share[:, None]).to(OUT.dtype.element_ty), mask=inside & (e1 < E)[None, :])
    if LSE is not None:
        LSE += row_sums + h * slh + tl.cast(first_row, tl.int64) * slm
        tl.store(LSE + m * slm, (m_i + tl.math.log2(l_i)) * LN_2, mask=rows < sq)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
) -> Result:
    """(B, H, S, D) tensors of float32, float16 or bfloat16; the output lies in memory as (B, S, H, D)."""
    b, h, sq, _ = q.shape
    out = q.new_empty(b, sq, h, v.shape[3]).transpose(1, 2)
    lse = q.new_empty(b, h, sq, dtype=torch.float32) if return_lse else None
    scores = (b, h, sq, k.shape[2])
    mask = None if mask is None else mask.view(torch.uint8).expand(scores)
    bias = None if bias is None else _no_double(bias).expand(scores)
    _launch(q, k, v, out, lse, mask, bias, sinks, None, sq, k.shape[2], causal, window, scale, softcap)
    return out if lse is None else (out, lse)


def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
) -> Result:
    """(T, H, D) tensors of many sequences, one after the other; lengths are read on the device only."""
    tokens, h, _ = q.shape
    out = q.new_empty(tokens, h, v.shape[2])
    lse = q.new_empty(tokens, h, dtype=torch.float32) if return_lse else None
    q, k, v, filled = (x.transpose(0, 1)[None] for x in (q, k, v, out))
    sums = None if lse is None else lse.transpose(0, 1)[None]
    _launch(q, k, v, filled, sums, None, None, sinks, (cu_q, cu_k), max_q, max_k, causal, window, scale, softcap)
    return out if lse is None else (out, lse)


def _launch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor | None,
    mask: Tensor | None,
    bias: Tensor | None,
    sinks: Tensor | None,
    cu: tuple[Tensor, Tensor] | None,
    sq: int,
    skv: int,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
) -> None:
    """Fill ``out`` and ``lse``; with ``cu`` the tensors are (1, H, T, D), ``sq`` and ``skv`` the longest sequences."""
    sequences = q.shape[0] if cu is None else len(cu[0]) - 1
    if not (out.numel() and sequences and sq):
        return
    q, k, v = columns_last(q), columns_last(k), columns_last(v)
    if window is not None and window >= skv:
        window = None
    if causal and sq == 1 and window is None and cu is None:
        causal = False  # the last query sees all keys
    dim, value_dim, heads = q.shape[3], v.shape[3], q.shape[1]
    masked = mask is not None or bias is not None
    config = attention_config(architecture(), q.element_size(), max(dim, value_dim), sq, masked)
    (d0, d1), (e0, e1) = split(dim), split(value_dim)
    tiles = triton.cdiv(sq, config.rows)
    before, after = scale_and_cap(scale, softcap)
    strides: list[int] = [s for x in (q, k, v, out) for s in x.stride()[:3]]
    by_8 = any(s % 16 for s in strides) and not any(s % 8 for s in strides)
    attention_kernel[(tiles * sequences * heads,)](
        q, k, v, out, lse, mask, bias, sinks, *(cu or (None, None)), before, after, *strides,
        *_strides(lse, 3), *_strides(mask, 4), *_strides(bias, 4), heads, heads // k.shape[1], sq, skv, window or 0,
        tiles, D=dim, D0=d0, D1=d1, E=value_dim, E0=e0, E1=e1, BM=config.rows, BN=config.keys, CAUSAL=causal,
        WINDOW=window is not None, SOFTCAP=softcap is not None, BY_8=by_8,
        STAGES=config.stages, num_warps=config.warps,
        num_stages=config.stages, enable_fp_fusion=True,
    )  # fmt: skip


def scale_and_cap(scale: float, softcap: float | None) -> tuple[float, float]:
    """The two factors of :func:`in_base_2`."""
    log2_e = LOG2_E.value
    return (scale * log2_e, 1.0) if softcap is None else (scale / softcap, softcap * log2_e)


def _strides(x: Tensor | None, n: int) -> tuple[int, ...]:
    return (0,) * n if x is None else x.stride()


def _no_double(x: Tensor) -> Tensor:
    return x.float() if x.dtype == torch.float64 else x
