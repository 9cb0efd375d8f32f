"""Attention of one token per sequence over pages of keys and values, and the writing of pages.

The keys of a sequence are cut into parts (split-K, Flash-Decoding) so that few sequences still fill a GPU; the parts
are merged in a fixed order. The query heads that share a key head are the rows of one program, which reads each key
once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.backends.torch.attention_reference import Result
from pipegraph.kernels.backends.torch.paged import smallest

from .attention import scale_and_cap
from .attention_parts import LN_2, in_base_2, online_softmax
from .available import architecture, processors
from .configs_attention import decode_config, decode_splits
from .linear_parts import columns_last
from .merge import merge


@triton.jit(do_not_specialize=["window", "splits", "blocks"])
def decode_kernel(
    Q, K, V, K_SCALE, V_SCALE, TABLE, LENGTHS, PARTS, SUMS, before, after, sqb, sqh, skp, skt, skh, svp, svt, svh, ssp,
    sst, ssh, szp, szt, szh, stb, batch, key_heads, window, splits, blocks, D: tl.constexpr, DP: tl.constexpr,
    E: tl.constexpr, EP: tl.constexpr, GROUP: tl.constexpr, G: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr,
    WINDOW: tl.constexpr, SOFTCAP: tl.constexpr, BY_8: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One part of the keys for up to G query heads of a sequence: PARTS (splits, B, Hq, E) and SUMS (splits, B, Hq)."""
    if BY_8:  # see attention_kernel
        skp, skt, skh = skp // 8 * 8, skt // 8 * 8, skh // 8 * 8
        svp, svt, svh = svp // 8 * 8, svt // 8 * 8, svh // 8 * 8
    program = tl.program_id(0)
    part = program % splits
    block = program // splits % blocks
    hk = (program // (splits * blocks) % key_heads).to(tl.int64)
    b = (program // (splits * blocks * key_heads)).to(tl.int64)
    length = tl.load(LENGTHS + b)
    first = 0
    if WINDOW:
        first = tl.maximum(length - window, 0)
    step = tl.cdiv(tl.cdiv(length - first, splits), BN) * BN
    lo = first + part * step
    hi = tl.minimum(lo + step, length)
    in_group = block * G + tl.arange(0, G)
    head = hk * GROUP + in_group
    d = tl.arange(0, DP)
    e = tl.arange(0, EP)
    is_head = in_group < GROUP
    q = tl.load(Q + b * sqb + head[:, None] * sqh + d[None, :], mask=is_head[:, None] & (d < D)[None, :], other=0.0)
    acc = tl.zeros([G, EP], dtype=tl.float32)
    l_i = tl.zeros([G], dtype=tl.float32)
    m_i = tl.full([G], float("-inf"), dtype=tl.float32)
    for n0 in tl.range(lo, hi, BN, num_stages=STAGES):
        n = n0 + tl.arange(0, BN)
        in_range = n < hi
        page = tl.load(TABLE + b * stb + n // PAGE, mask=in_range, other=0).to(tl.int64)
        token = n % PAGE
        at = page * skp + token * skt + hk * skh
        k = tl.load(K + at[:, None] + d[None, :], mask=in_range[:, None] & (d < D)[None, :], other=0)
        scores = tl.dot(q, tl.trans(k.to(q.dtype)), input_precision="ieee")
        if K_SCALE is not None:
            k_scale = tl.load(K_SCALE + page * ssp + token * sst + hk * ssh, mask=in_range, other=0.0)
            scores *= k_scale.to(tl.float32)[None, :]
        scores = tl.where(in_range[None, :], in_base_2(scores, before, after, SOFTCAP), float("-inf"))
        weights, alpha, l_i, m_i = online_softmax(scores, m_i, l_i)
        at = page * svp + token * svt + hk * svh
        v = tl.load(V + at[:, None] + e[None, :], mask=in_range[:, None] & (e < E)[None, :], other=0)
        acc *= alpha[:, None]
        if V_SCALE is not None:  # weights times scales, but at most 1, so that float16 holds them
            v_scale = tl.load(V_SCALE + page * szp + token * szt + hk * szh, mask=in_range, other=0.0).to(tl.float32)
            largest = tl.max(v_scale, 0)
            weights *= (v_scale / tl.where(largest > 0, largest, 1.0))[None, :]
            acc += tl.dot(weights.to(q.dtype), v.to(q.dtype), input_precision="ieee") * largest
        else:
            acc = tl.dot(weights.to(q.dtype), v, acc, input_precision="ieee")
    acc *= tl.where(l_i == 0.0, 0.0, 1.0 / l_i)[:, None]
    row = (part.to(tl.int64) * batch + b) * (key_heads * GROUP) + head
    tl.store(PARTS + row[:, None] * E + e[None, :], acc, mask=is_head[:, None] & (e < E)[None, :])
    tl.store(SUMS + row, (m_i + tl.math.log2(l_i)) * LN_2, mask=is_head)


def paged_decode(
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
    """The op ``paged_decode``; the last dimension of q and of the caches must be side by side in memory."""
    batch, heads, dim = q.shape
    _, page, key_heads, value_dim = v_cache.shape
    out = q.new_empty(batch, heads, value_dim)
    lse = q.new_empty(batch, heads, dtype=torch.float32) if return_lse else None
    if not out.numel():
        return out if lse is None else (out, lse)
    q, k_cache, v_cache, block_table = (columns_last(x) for x in (q, k_cache, v_cache, block_table))
    config = decode_config(architecture(), q.element_size(), max(dim, value_dim))
    group = heads // key_heads
    per_program = min(config.rows, max(16, triton.next_power_of_2(group)))
    blocks = triton.cdiv(group, per_program)
    programs = batch * key_heads * blocks
    splits = decode_splits(block_table.shape[1] * page, config, programs, processors())
    parts = q.new_empty(splits, batch, heads, value_dim, dtype=torch.float32)
    sums = q.new_empty(splits, batch, heads, dtype=torch.float32)
    strides = [s for x in (k_cache, v_cache) for s in x.stride()[:3]]
    decode_kernel[(programs * splits,)](
        q, k_cache, v_cache, k_scale, v_scale, block_table, seq_lens.contiguous(), parts, sums,
        *scale_and_cap(scale, softcap), *q.stride()[:2], *strides, *_strides(k_scale), *_strides(v_scale),
        block_table.stride(0), batch, key_heads, window or 0, splits, blocks, D=dim,
        DP=max(16, triton.next_power_of_2(dim)), E=value_dim, EP=max(16, triton.next_power_of_2(value_dim)),
        GROUP=group, G=per_program, PAGE=page, BN=config.keys, WINDOW=window is not None,
        SOFTCAP=softcap is not None, BY_8=any(s % 16 for s in strides) and not any(s % 8 for s in strides),
        STAGES=config.stages, num_warps=config.warps,
        num_stages=config.stages, enable_fp_fusion=True,
    )  # fmt: skip
    merge(parts, sums, out, lse, sinks, heads)
    return out if lse is None else (out, lse)


@triton.jit
def _write(x, CACHE, SCALE, to, scale_to, d, size, valid, SMALLEST: tl.constexpr):
    """Store a token of one head, quantized if there are scales; nothing if it is not ``kept``."""
    inside = d < tl.where(valid, size, 0)
    if SCALE is None:
        tl.store(CACHE + to + d, x, mask=inside)
    else:
        wide = x.to(tl.float32)
        scale = tl.maximum(tl.div_rn(tl.max(tl.abs(wide), 0), 127.0), SMALLEST)
        wrong = tl.sum(wide - wide, 0)  # NaN if one is NaN or Inf
        stored = (scale + wrong).to(SCALE.dtype.element_ty)
        steps = tl.div_rn(wide, tl.zeros_like(wide) + scale.to(SCALE.dtype.element_ty).to(tl.float32))
        steps = (steps + 12582912.0) - 12582912.0  # 1.5 * 2**23: to nearest even
        steps = tl.where(wrong == 0.0, tl.minimum(tl.maximum(steps, -127.0), 127.0), 0.0)
        tl.store(CACHE + to + d, steps.to(tl.int8), mask=inside)
        tl.store(SCALE + scale_to, stored, mask=valid)


@triton.jit
def append_kernel(
    X_K, X_V, K, V, K_SCALE, V_SCALE, SLOTS, sxt, sxh, syt, syh, skp, skt, skh, svp, svt, svh, ssp, sst, ssh, szp, szt,
    szh, heads, D: tl.constexpr, DP: tl.constexpr, E: tl.constexpr, EP: tl.constexpr, PAGE: tl.constexpr,
    SMALLEST: tl.constexpr,
):  # fmt: skip
    """Write one token of one head."""
    t = (tl.program_id(0) // heads).to(tl.int64)
    h = (tl.program_id(0) % heads).to(tl.int64)
    slot = tl.load(SLOTS + t).to(tl.int64)
    valid = slot >= 0
    page = slot // PAGE
    place = slot % PAGE
    d = tl.arange(0, DP)
    x = tl.load(X_K + t * sxt + h * sxh + d, mask=d < D, other=0.0)
    to = page * skp + place * skt + h * skh
    _write(x, K, K_SCALE, to, page * ssp + place * sst + h * ssh, d, D, valid, SMALLEST)
    e = tl.arange(0, EP)
    y = tl.load(X_V + t * syt + h * syh + e, mask=e < E, other=0.0)
    to = page * svp + place * svt + h * svh
    _write(y, V, V_SCALE, to, page * szp + place * szt + h * szh, e, E, valid, SMALLEST)


def kv_append(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> None:
    """The op ``kv_append``; the last dimension of the caches must be side by side in memory."""
    tokens, heads, dim = k.shape
    value_dim = v.shape[2]
    if not (tokens and heads):
        return
    k, v = columns_last(k), columns_last(v)
    append_kernel[(tokens * heads,)](
        k, v, k_cache, v_cache, k_scale, v_scale, slots.contiguous(), *k.stride()[:2], *v.stride()[:2],
        *k_cache.stride()[:3], *v_cache.stride()[:3], *_strides(k_scale), *_strides(v_scale), heads, D=dim,
        DP=triton.next_power_of_2(dim), E=value_dim, EP=triton.next_power_of_2(value_dim), PAGE=k_cache.shape[1],
        SMALLEST=0.0 if k_scale is None else smallest(k_scale.dtype), num_warps=1, enable_fp_fusion=True,
    )  # fmt: skip


def _strides(scale: Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0) if scale is None else scale.stride()
