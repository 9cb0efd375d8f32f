"""Attention with tensor descriptors (TMA) of Hopper and newer.

As ``attention`` without masks and biases, for head sizes of one tile. Reads outside a tensor give 0.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from pipegraph.kernels.backends.torch.attention_reference import Result

from .attention import scale_and_cap
from .attention_parts import LN_2, in_base_2, is_bad, key_range, online_softmax, start
from .available import architecture
from .configs_attention import tma_config


@triton.jit
def _tiles(
    acc, l_i, m_i, q, K, V, b, hk, first, last, rows, sq, skv, window, before, after, D: tl.constexpr,
    E: tl.constexpr, BN: tl.constexpr, EDGE: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    SOFTCAP: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Attend to the keys of [first, last), a tile at a time; EDGE: some row may not see some of them."""
    n = tl.arange(0, BN)
    for n0 in tl.range(first, last, BN, num_stages=STAGES):
        k = K.load([b, hk, n0, 0]).reshape([BN, D])
        scores = in_base_2(tl.dot(q, tl.trans(k)), before, after, SOFTCAP)
        v = V.load([b, hk, n0, 0]).reshape([BN, E])
        if EDGE:
            allowed = (n0 + n < skv)[None, :]
            if CAUSAL:
                behind = rows[:, None] + (skv - sq) - (n0 + n)[None, :]
                allowed = allowed & (behind >= 0)
                if WINDOW:
                    allowed = allowed & (behind < window)
                bad = is_bad(v)
                v = tl.where(bad[:, None], 0.0, v)
                scores = tl.where(bad[None, :], float("nan"), scores)
            scores = tl.where(allowed, scores, float("-inf"))
        weights, alpha, l_i, m_i = online_softmax(scores, m_i, l_i)
        acc = tl.dot(weights.to(v.dtype), v, acc * alpha[:, None])
    return acc, l_i, m_i


@triton.jit(do_not_specialize=["sq", "skv", "window", "tiles"])
def attention_tma_kernel(
    Q, K, V, OUT, LSE, SINKS, before, after, heads, group, sq, skv, window, tiles, D: tl.constexpr, E: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SOFTCAP: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Q, K, V, OUT are descriptors of (B, H, S, D) with blocks of (1, 1, BM or BN, D); LSE is (B, H, S)."""
    batch_head = tl.program_id(0) // tiles
    first_row = (tiles - 1 - tl.program_id(0) % tiles) * BM  # under `causal` the last rows see most: they start first
    b = batch_head // heads
    h = batch_head % heads
    rows = first_row + tl.arange(0, BM)
    q = Q.load([b, h, first_row, 0]).reshape([BM, D])
    acc = tl.zeros([BM, E], dtype=tl.float32)
    m_i, l_i = start(SINKS, h, BM)
    lo, full_lo, full_hi, hi = key_range(first_row, sq, skv, window, BM, BN, CAUSAL, WINDOW)
    if WINDOW:
        acc, l_i, m_i = _tiles(
            acc, l_i, m_i, q, K, V, b, h // group, lo, full_lo, rows, sq, skv, window, before, after, D, E, BN, True,
            CAUSAL, WINDOW, SOFTCAP, STAGES,
        )  # fmt: skip
    acc, l_i, m_i = _tiles(
        acc, l_i, m_i, q, K, V, b, h // group, full_lo, full_hi, rows, sq, skv, window, before, after, D, E, BN,
        False, CAUSAL, WINDOW, SOFTCAP, STAGES,
    )  # fmt: skip
    acc, l_i, m_i = _tiles(
        acc, l_i, m_i, q, K, V, b, h // group, full_hi, hi, rows, sq, skv, window, before, after, D, E, BN, True,
        CAUSAL, WINDOW, SOFTCAP, STAGES,
    )  # fmt: skip
    share = tl.where(l_i == 0.0, 0.0, 1.0 / l_i)
    OUT.store([b, h, first_row, 0], (acc * share[:, None]).to(OUT.dtype).reshape([1, 1, BM, E]))
    if LSE is not None:
        at = LSE + batch_head.to(tl.int64) * sq + rows
        tl.store(at, (m_i + tl.math.log2(l_i)) * LN_2, mask=rows < sq)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    return_lse: bool,
) -> Result:
    """(B, H, S, D) tensors of float16 or bfloat16, D and Dv of 64, 128 or 256; the output lies as (B, S, H, D)."""
    b, h, sq, dim = q.shape
    skv, value_dim = k.shape[2], v.shape[3]
    out = q.new_empty(b, sq, h, value_dim).transpose(1, 2)
    lse = q.new_empty(b, h, sq, dtype=torch.float32) if return_lse else None
    if not out.numel():
        return out if lse is None else (out, lse)
    if not skv:  # a descriptor of nothing is none
        k, v, skv, causal, window = (*(x.new_zeros(*x.shape[:2], 1, x.shape[3]) for x in (k, v)), 0, False, None)
    if window is not None and window >= skv:
        window = None
    config = tma_config(architecture(), max(dim, value_dim))
    tiles = triton.cdiv(sq, config.rows)
    attention_tma_kernel[(tiles * b * h,)](
        _tiled(q, config.rows), _tiled(k, config.keys), _tiled(v, config.keys), _tiled(out, config.rows), lse,
        sinks, *scale_and_cap(scale, softcap), h, h // k.shape[1], sq, skv, window or 0, tiles, D=dim, E=value_dim,
        BM=config.rows, BN=config.keys, CAUSAL=causal, WINDOW=window is not None, SOFTCAP=softcap is not None,
        STAGES=config.stages, num_warps=config.warps, num_stages=config.stages, enable_fp_fusion=True,
    )  # fmt: skip
    return out if lse is None else (out, lse)


def _tiled(x: Tensor, rows: int) -> TensorDescriptor:
    """A descriptor of (B, H, S, D); addresses must be multiples of 16, so other tensors are copied."""
    strides = [s if n > 1 else 8 for s, n in zip(x.stride()[:3], x.shape[:3], strict=True)]
    aligned = x.stride(3) == 1 and x.data_ptr() % 16 == 0 and all(s and s * x.element_size() % 16 == 0 for s in strides)
    if not aligned:
        x = x.clone(memory_format=torch.contiguous_format)
        strides = list(x.stride()[:3])
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, rows, x.shape[3]])
