"""Draw a token from logits, one row per program: rules are thresholds on logits, found by bisection, not by sorting."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .available import interpreting
from .linear_parts import columns_last, launch


@triton.jit
def _keys(z):
    """Map float32 to uint32 of the same order; NaN as -inf, -0 as 0."""
    z = tl.where(z != z, float("-inf"), z + 0.0)
    bits = z.to(tl.uint32, bitcast=True)
    return tl.where((bits >> 31) != 0, ~bits, bits | 0x80000000)


@triton.jit
def _weights(z, top, temperature):
    """Weights exp((z - top) / temperature); 0 for -inf and NaN."""
    return tl.where(z > float("-inf"), tl.exp((z - top) / temperature), 0.0)


@triton.jit
def _threshold(ROW, v, top, temperature, least, wanted, COUNT: tl.constexpr, BV: tl.constexpr, BITS: tl.constexpr):
    """The largest key such that the elements at or above it, of those at or above ``least``, are at least ``wanted``.

    By count, or by sum of weights. BITS bits of the key are settled in each pass over the row.
    """
    NT: tl.constexpr = 1 << BITS
    step = tl.arange(0, NT)
    prefix = tl.zeros([1], dtype=tl.uint32)
    for shift in range(32 - BITS, -1, -BITS):
        tries = prefix + (step.to(tl.uint32) << shift)
        total = tl.zeros([NT], dtype=tl.float32)
        for v0 in range(0, v, BV):
            column = v0 + tl.arange(0, BV)
            z = tl.load(ROW + column, mask=column < v, other=float("-inf")).to(tl.float32)
            key = _keys(z)
            weight = tl.where((column < v) & (key >= least), 1.0, 0.0)
            if not COUNT:
                weight *= _weights(z, top, temperature)
            total += tl.sum(tl.where(key[None, :] >= tries[:, None], weight[None, :], 0.0), 1)
        best = tl.max(tl.where(total >= wanted, step, 0), 0)
        prefix += best.to(tl.uint32) << shift
    return tl.max(prefix, 0)


@triton.jit
def sample_kernel(
    LOGITS, TEMPERATURE, TOP_K, TOP_P, MIN_P, SEED, OFFSET, OUT, v, slm, BV: tl.constexpr, BITS: tl.constexpr
):
    """One row of ``sample``."""
    row = tl.program_id(0).to(tl.int64)
    ROW = LOGITS + row * slm
    top = float("-inf")
    best = 0
    for v0 in range(0, v, BV):
        column = v0 + tl.arange(0, BV)
        z = tl.load(ROW + column, mask=column < v, other=float("-inf")).to(tl.float32)
        block_max = tl.max(z, 0)
        first = tl.min(tl.where(z == block_max, column, v), 0)
        best = tl.where(block_max > top, first, best)
        top = tl.maximum(top, block_max)
    chosen = best
    temperature = tl.load(TEMPERATURE + row)
    if temperature > 0:
        least = tl.zeros([1], dtype=tl.uint32)
        least = tl.max(least, 0)
        top_k = tl.load(TOP_K + row)
        if (top_k > 0) & (top_k < v):
            least = _threshold(ROW, v, top, temperature, least, top_k.to(tl.float32), True, BV, BITS)
        top_p = tl.load(TOP_P + row)
        if top_p < 1.0:
            total = 0.0
            for v0 in range(0, v, BV):
                column = v0 + tl.arange(0, BV)
                z = tl.load(ROW + column, mask=column < v, other=float("-inf")).to(tl.float32)
                total += tl.sum(tl.where(_keys(z) >= least, _weights(z, top, temperature), 0.0), 0)
            wanted = tl.maximum(top_p, 1e-30) * total
            least = tl.maximum(least, _threshold(ROW, v, top, temperature, least, wanted, False, BV, BITS))
        min_p = tl.load(MIN_P + row)
        total = 0.0
        for v0 in range(0, v, BV):
            column = v0 + tl.arange(0, BV)
            z = tl.load(ROW + column, mask=column < v, other=float("-inf")).to(tl.float32)
            p = _weights(z, top, temperature)
            total += tl.sum(tl.where((_keys(z) >= least) & (p >= min_p), p, 0.0), 0)
        seed = tl.load(SEED + row)
        offset = tl.load(OFFSET + row)
        low = (offset & 0xFFFFFFFF).to(tl.uint32)
        high = ((offset >> 32) & 0xFFFFFFFF).to(tl.uint32)
        word, _, _, _ = tl.philox(seed, low, high, low * 0, low * 0)
        target = (word.to(tl.uint32, bitcast=True) >> 8).to(tl.float32) * 5.9604644775390625e-08 * total
        before = 0.0
        drawn = v
        last = best
        for v0 in range(0, v, BV):
            column = v0 + tl.arange(0, BV)
            z = tl.load(ROW + column, mask=column < v, other=float("-inf")).to(tl.float32)
            p = _weights(z, top, temperature)
            p = tl.where((_keys(z) >= least) & (p >= min_p), p, 0.0)
            running = before + tl.cumsum(p, 0)
            passed = (running > target) & (p > 0)
            drawn = tl.minimum(drawn, tl.min(tl.where(passed, column, v), 0))
            last = tl.maximum(last, tl.max(tl.where(p > 0, column, 0), 0))
            before += tl.sum(p, 0)
        chosen = tl.where(drawn < v, drawn, last)
    tl.store(OUT + row, tl.cast(chosen, tl.int64))


def sample(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor, seed: Tensor, offset: Tensor
) -> Tensor:
    """The op ``sample``."""
    logits = columns_last(logits)
    b, v = logits.shape
    out = torch.empty(b, dtype=torch.int64, device=logits.device)
    settings = [t.contiguous() for t in (temperature, top_k, top_p, min_p, seed, offset)]
    # the interpreter pays for every pass, a GPU for every register
    wide, bits = (min(16384, max(16, triton.next_power_of_2(v))), 8) if interpreting() else (1024, 4)
    launch(sample_kernel, (b,), logits, *settings, out, v, logits.stride(0), BV=wide, BITS=bits, warps=8)
    return out
