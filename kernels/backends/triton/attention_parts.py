"""Shared parts of attention kernels: scores in base 2, online softmax, key ranges, masked NaN."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def load_rows(base, rows, cols, stride, n_rows, N_COLS: tl.constexpr, CHECK: tl.constexpr, PAD: tl.constexpr):
    """(rows, cols) elements at base + rows * stride + cols; 0 from n_rows on if CHECK, from N_COLS on if PAD."""
    at = base + rows[:, None] * stride + cols[None, :]
    if CHECK and PAD:
        tile = tl.load(at, mask=(rows < n_rows)[:, None] & (cols < N_COLS)[None, :], other=0.0)
    elif CHECK:
        tile = tl.load(at, mask=(rows < n_rows)[:, None], other=0.0)
    elif PAD:
        tile = tl.load(at, mask=(cols < N_COLS)[None, :], other=0.0)
    else:
        tile = tl.load(at)
    return tile


@triton.jit
def in_base_2(scores, before, after, SOFTCAP: tl.constexpr):
    """Raw products as scores for exp2: ``before`` * x, with SOFTCAP ``after`` * tanh(``before`` * x).

    tanh is a polynomial near 0, where the quotient of exponentials would lose digits.
    """
    x = scores * before
    if SOFTCAP:
        shrunk = tl.math.exp2(tl.abs(x) * -2.8853900817779268)
        far = (1.0 - shrunk) / (1.0 + shrunk)
        far = tl.where(x < 0, -far, far)
        y = x * x
        near = x + x * y * (-1 / 3 + y * (2 / 15 + y * (-17 / 315 + y * (62 / 2835 - y * (1382 / 155925)))))
        x = after * tl.where(tl.abs(x) < 0.25, near, far)
    return x


@triton.jit
def online_softmax(scores, m_i, l_i):
    """Online softmax over one more tile of base-2 scores: (weights, alpha, new l_i, new m_i) of each row."""
    new_m_i = tl.maximum(m_i, tl.max(scores, 1))
    base = tl.where(new_m_i == float("-inf"), 0.0, new_m_i)
    weights = tl.math.exp2(scores - base[:, None])
    alpha = tl.math.exp2(m_i - base)
    return weights, alpha, l_i * alpha + tl.sum(weights, 1), new_m_i


@triton.jit
def start(SINKS, head, rows: tl.constexpr):
    """Initial m_i (maximum) and l_i (sum): empty, or the sink."""
    m_i = tl.full([rows], float("-inf"), dtype=tl.float32)
    l_i = tl.zeros([rows], dtype=tl.float32)
    if SINKS is not None:
        m_i = tl.zeros([rows], dtype=tl.float32) + tl.load(SINKS + head).to(tl.float32) * LOG2_E
        l_i = tl.where(m_i == float("-inf"), 0.0, 1.0)
    return m_i, l_i


@triton.jit
def is_bad(tile):
    """Which rows of a tile hold NaN or Inf: an exponent of all ones (looking at bits takes fewer registers)."""
    if tile.dtype == tl.float32:
        exponents = tile.to(tl.int32, bitcast=True) & 0x7F800000
        bad = tl.max(exponents, 1) == 0x7F800000
    elif tile.dtype == tl.float16:
        bad = tl.max(tile.to(tl.int16, bitcast=True) & 0x7C00, 1) == 0x7C00
    else:
        tl.static_assert(tile.dtype == tl.bfloat16)
        bad = tl.max(tile.to(tl.int16, bitcast=True) & 0x7F80, 1) == 0x7F80
    return bad


@triton.jit
def key_range(
    first_row, sq, skv, window, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr
):
    """For BM query rows: they see keys of [lo, hi), and every one of them sees all of [full_lo, full_hi)."""
    ahead = skv - sq
    lo = 0
    hi = skv
    full_hi = skv // BN * BN
    if CAUSAL:
        hi = tl.maximum(tl.minimum(skv, first_row + BM + ahead), 0)
        full_hi = tl.minimum(full_hi, tl.maximum(first_row + ahead + 1, 0) // BN * BN)
    full_lo = 0
    if WINDOW:
        lo = tl.maximum(0, first_row + ahead - window + 1) // BN * BN
        full_lo = tl.cdiv(tl.maximum(0, first_row + BM + ahead - window), BN) * BN
        full_lo = tl.minimum(full_lo, tl.cdiv(hi, BN) * BN)
    full_hi = tl.maximum(full_hi, full_lo)
    return lo, full_lo, full_hi, hi
