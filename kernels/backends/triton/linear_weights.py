"""x W^T with x as it is (16 or 32 bits) and W plain or packed: unpacked in registers on the way to the product."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.backends.torch.linear import joined
from pipegraph.kernels.weights.linear_values import Activation, LowRank
from pipegraph.kernels.weights.qweight import QWeight

from .available import architecture, processors
from .configs_linear import weights_config, weights_splits
from .linear_parts import columns_last, finish, flat, launch, prepare, tile_of

BLOCK = tl.constexpr(32)
"""Least columns of W per scale, and columns in 16 bytes of w4."""


@triton.jit
def _unpack(b, KIND: tl.constexpr):
    """Bytes of float8 as float16, exactly: e5m2 is its upper half; e4m3 has its bits at another exponent."""
    wide = b.to(tl.uint16)
    if KIND == "e5m2":
        return (wide << 8).to(tl.float16, bitcast=True)
    value = (((wide & 0x80) << 8) | ((wide & 0x7F) << 7)).to(tl.float16, bitcast=True) * 256.0
    return tl.where((b & 0x7F) == 0x7F, float("nan"), value).to(tl.float16)


@triton.jit
def _spread(q, s, COLUMNS: tl.constexpr, BN: tl.constexpr, EACH: tl.constexpr):
    """Repeat each row of s (COLUMNS / EACH, BN) EACH times."""
    return tl.reshape(
        tl.broadcast_to(tl.reshape(s, [COLUMNS // EACH, 1, BN]), [COLUMNS // EACH, EACH, BN]), [COLUMNS, BN]
    )


@triton.jit
def product(
    X,
    W,
    S,
    Z,
    first,
    last,
    k,
    KIND: tl.constexpr,
    GROUP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    EVEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Sum of x w over [first, last) of k columns; both are multiples of BK, or the end.

    X (BM,) and W, S, Z (BN,) are pointers to the starts of rows; a scale per row is left out.
    """
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    if KIND == "w4":
        # byte j of a tile holds two columns of W: those of x are 16 apart
        byte = tl.arange(0, BK // 2)
        low = byte // 16 * 32 + byte % 16
        blocks = tl.arange(0, BK // BLOCK) * BLOCK
        for k0 in tl.range(first, last, BK, num_stages=STAGES):
            at = (k0 + blocks)[:, None] // GROUP
            if EVEN:
                b = tl.load(W[None, :] + (k0 // 2 + byte)[:, None])
                x0 = tl.load(X[:, None] + (k0 + low)[None, :])
                x1 = tl.load(X[:, None] + (k0 + low + 16)[None, :])
                s = tl.load(S[None, :] + at).to(tl.float32)
                z = tl.load(Z[None, :] + at).to(tl.float32)
            else:
                left = low < k - k0
                b = tl.load(W[None, :] + (k0 // 2 + byte)[:, None], mask=left[:, None], other=0)
                x0 = tl.load(X[:, None] + (k0 + low)[None, :], mask=left[None, :], other=0.0)
                x1 = tl.load(X[:, None] + (k0 + low + 16)[None, :], mask=left[None, :], other=0.0)
                some = (blocks < k - k0)[:, None]
                s = tl.load(S[None, :] + at, mask=some, other=0.0).to(tl.float32)
                z = tl.load(Z[None, :] + at, mask=some, other=0.0).to(tl.float32)
            s = _spread(b, s, BK // 2, BN, 16)
            z = _spread(b, z, BK // 2, BN, 16)
            w0 = ((b & 15).to(tl.float32) * s + z).to(x0.dtype)
            w1 = ((b >> 4).to(tl.float32) * s + z).to(x0.dtype)
            acc = tl.dot(x0, w0, acc, input_precision="ieee")
            acc = tl.dot(x1, w1, acc, input_precision="ieee")
    else:
        step = tl.arange(0, BK)
        for k0 in tl.range(first, last, BK, num_stages=STAGES):
            if EVEN:
                x = tl.load(X[:, None] + (k0 + step)[None, :])
                w = tl.load(W[None, :] + (k0 + step)[:, None])
            else:
                left = step < k - k0
                x = tl.load(X[:, None] + (k0 + step)[None, :], mask=left[None, :], other=0.0)
                w = tl.load(W[None, :] + (k0 + step)[:, None], mask=left[:, None], other=0)
            if KIND == "e4m3" or KIND == "e5m2":
                w = _unpack(w, KIND)
            elif KIND == "int8-groups":
                blocks = tl.arange(0, BK // BLOCK) * BLOCK
                at = (k0 + blocks)[:, None] // GROUP
                s = tl.load(S[None, :] + at, mask=(blocks < k - k0)[:, None], other=0.0).to(tl.float32)
                w = w.to(tl.float32) * _spread(w, s, BK, BN, BLOCK)
            acc = tl.dot(x, w.to(x.dtype), acc, input_precision="ieee")
    return acc


@triton.jit(do_not_specialize=["m", "gate_rows"])
def linear_weights(
    X, W, S, Z, PARTS, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, m, n, k, each, sxm, swn, ssn,
    KIND: tl.constexpr, GROUP: tl.constexpr, ACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    BR: tl.constexpr, BAND: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of act(x W^T + H U^T + bias) * gate + residual.

    With PARTS (splits, m, n), program (i, s) sums ``each`` columns of x only and stores that.
    """
    i, j = tile_of(tl.program_id(0), m, n, BM, BN, BAND)
    rows = i * BM + tl.arange(0, BM)
    columns = j * BN + tl.arange(0, BN)
    column = (columns % n).to(tl.int64)
    s = S
    z = Z
    if GROUP > 0:
        s = S + column * ssn
        z = Z + column * ssn if Z is not None else s
    first = tl.program_id(1) * each
    last = tl.minimum(first + each, k)
    acc = product(
        X + (rows % m).to(tl.int64) * sxm, W + column * swn, s, z, first, last, k, KIND, GROUP, BM, BN, BK, EVEN, STAGES
    )
    if GROUP == 0 and S is not None:
        acc *= tl.load(S + column * ssn).to(tl.float32)[None, :]
    if PARTS is not None:
        at = PARTS + (tl.program_id(1) * m + rows).to(tl.int64)[:, None] * n + columns[None, :]
        tl.store(at, acc, mask=(rows < m)[:, None] & (columns < n)[None, :])
    else:
        finish(acc, rows, columns, m, n, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, ACT, BR)


@triton.jit(do_not_specialize=["m", "gate_rows", "splits"])
def linear_sum(
    PARTS, splits, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, m, n, ACT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """Add up what ``linear_weights`` left in parts, in order, and finish one tile."""
    wide = tl.cdiv(n, BN)
    rows = tl.program_id(0) // wide * BM + tl.arange(0, BM)
    columns = tl.program_id(0) % wide * BN + tl.arange(0, BN)
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for s in range(0, splits):
        at = PARTS + (s * m + rows).to(tl.int64)[:, None] * n + columns[None, :]
        acc += tl.load(at, mask=inside, other=0.0)
    finish(acc, rows, columns, m, n, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, ACT, BR)


@triton.jit(do_not_specialize=["experts"])
def linear_experts(
    X, W, OFFSETS, OUT, BIAS, experts, n, k, sxm, som, swe, swn, sbe, ACT: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of the rows of one expert; program (i, j) has the i-th row tile of all experts' one after the other."""
    i = tl.program_id(0)
    expert = 0
    before = 0  # row tiles of the experts before
    first = 0
    last = 0
    for e in range(0, experts):
        start = tl.load(OFFSETS + e)
        end = tl.load(OFFSETS + e + 1)
        tiles = tl.cdiv(end - start, BM)
        owned = (i >= before) & (i < before + tiles)
        expert = tl.where(owned, e, expert)
        first = tl.where(owned, start + (i - before) * BM, first)
        last = tl.where(owned, end, last)
        before += tiles
    if first < last:
        rows = first + tl.arange(0, BM)
        columns = tl.program_id(1) * BN + tl.arange(0, BN)
        row = tl.minimum(rows, last - 1).to(tl.int64)
        column = (columns % n).to(tl.int64)
        weights = W + tl.cast(expert, tl.int64) * swe + column * swn
        acc = product(X + row * sxm, weights, None, None, 0, k, k, "plain", 0, BM, BN, BK, EVEN, STAGES)
        biases = BIAS + expert * sbe if BIAS is not None else None
        finish(acc, rows, columns, last, n, OUT, som, biases, None, 0, None, 0, 0, None, 0, 1, None, 0, ACT, 16)


def linear(
    x: Tensor,
    weight: Any,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """The op ``linear`` for plain and quantized weights; x is never quantized."""
    n, k = weight.shape
    scale = zero = None
    flat_x = flat(x)
    if isinstance(weight, QWeight):
        low_rank, scale, zero = joined(weight, low_rank), weight.scale, weight.zero
        if weight.rotate is not None:
            from .quantize import rotate_rows

            flat_x = rotate_rows(flat_x, weight.rotate)
    kind, data = _kind(weight)
    config = weights_config(architecture(), kind, x.element_size(), len(flat_x))
    end = prepare(x, n, bias, low_rank, gate, residual)
    group = weight.group or 0 if isinstance(weight, QWeight) else 0
    if scale is not None and group:
        scale, zero = scale.contiguous(), None if zero is None else zero.contiguous()
    m = len(flat_x)
    tiles = triton.cdiv(m, config.rows) * triton.cdiv(n, config.columns)
    splits = weights_splits(processors(), tiles, config, k)
    each = triton.cdiv(triton.cdiv(k, splits), config.depth) * config.depth
    splits = max(1, triton.cdiv(k, each)) if k else 1
    parts = torch.empty((splits, m, n), dtype=torch.float32, device=x.device) if splits > 1 else None
    launch(
        linear_weights, (tiles, splits), flat_x, data, scale, zero, parts, *end, m, n, k, each, flat_x.stride(0),
        data.stride(0), scale.stride(0) if scale is not None and scale.ndim else 0, KIND=kind, GROUP=group, ACT=act,
        BM=config.rows, BN=config.columns, BK=config.depth, BR=16, BAND=config.band, EVEN=k % config.depth == 0,
        STAGES=config.stages, warps=config.warps,
    )  # fmt: skip
    if parts is not None:
        launch(
            linear_sum,
            (tiles,),
            parts,
            splits,
            *end,
            m,
            n,
            ACT=act,
            BM=config.rows,
            BN=config.columns,
            BR=16,
            warps=4,
        )
    return end.out.view(*x.shape[:-1], n)


def _kind(weight: Any) -> tuple[str, Tensor]:
    """How the kernel reads a weight, and its data as the kernel wants it; float8 comes as bytes."""
    if not isinstance(weight, QWeight):
        data, kind = columns_last(weight), "plain"
    else:
        data, kind = weight.data, {"q8": "int8-groups" if weight.group else "int8", "w4": "w4"}.get(weight.format, "")
    if data.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return ("e4m3" if data.dtype == torch.float8_e4m3fn else "e5m2"), data.view(torch.uint8)
    return kind, data


def grouped(x: Tensor, weights: Tensor, offsets: Tensor, bias: Tensor | None, act: Activation | None) -> Tensor:
    """The op ``grouped_linear`` for plain weights in the dtype of x."""
    experts, n, k = weights.shape
    x, weights = columns_last(x), columns_last(weights)
    out = x.new_zeros(len(x), n)
    if not (len(x) and experts and n):
        return out
    config = weights_config(architecture(), "plain", x.element_size(), -(-len(x) // experts))
    bias = None if bias is None else columns_last(bias)
    grid = (triton.cdiv(len(x), config.rows) + experts, triton.cdiv(n, config.columns))
    linear_experts[grid](
        x, weights, offsets, out, bias, experts, n, k, x.stride(0), out.stride(0), weights.stride(0),
        weights.stride(1), 0 if bias is None else bias.stride(0), ACT=act, BM=config.rows, BN=config.columns,
        BK=config.depth, EVEN=k % config.depth == 0, STAGES=config.stages, num_warps=config.warps,
        enable_fp_fusion=True,
    )  # fmt: skip
    return out
