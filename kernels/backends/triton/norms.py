"""Norms and rotary embedding, a row a program, in float32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .configs_linear import row_warps
from .linear_parts import columns_last, flat, launch


@triton.jit
def rms_kernel(X, RES, W, OUT, SUM, eps, n, sxm, srm, BN: tl.constexpr):
    """One row of ``rms_norm``."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BN)
    inside = column < n
    x = tl.load(X + row * sxm + column, mask=inside, other=0.0).to(tl.float32)
    if RES is not None:
        x += tl.load(RES + row * srm + column, mask=inside, other=0.0).to(tl.float32)
        rounded = x.to(SUM.dtype.element_ty)
        tl.store(SUM + row * n + column, rounded, mask=inside)
        x = rounded.to(tl.float32)
    y = x / tl.sqrt_rn(tl.sum(x * x, 0) / n + eps)
    if W is not None:
        y *= tl.load(W + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(OUT + row * n + column, y.to(OUT.dtype.element_ty), mask=inside)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None) -> Tensor | tuple[Tensor, Tensor]:
    """The op ``rms_norm``."""
    rows = flat(x)
    m, n = rows.shape
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    added = None if residual is None else flat(residual)
    total = None if residual is None else torch.empty_like(out)
    wide = max(16, triton.next_power_of_2(n))
    launch(
        rms_kernel,
        (m,),
        rows,
        added,
        None if weight is None else weight.contiguous(),
        out,
        total,
        eps,
        n,
        rows.stride(0),
        0 if added is None else added.stride(0),
        BN=wide,
        warps=row_warps(wide),
    )
    return out.view(x.shape) if total is None else (out.view(x.shape), total.view(x.shape))


@triton.jit
def ada_kernel(X, SHIFT, SCALE, OUT, eps, s, n, sxb, sxs, shb, shs, scb, scs, RMS: tl.constexpr, BN: tl.constexpr):
    """One row of ``ada_norm``."""
    row = tl.program_id(0).to(tl.int64)
    b = row // s
    i = row % s
    column = tl.arange(0, BN)
    inside = column < n
    x = tl.load(X + b * sxb + i * sxs + column, mask=inside, other=0.0).to(tl.float32)
    if not RMS:
        x = tl.where(inside, x - tl.sum(x, 0) / n, 0.0)
    y = x / tl.sqrt_rn(tl.sum(x * x, 0) / n + eps)
    if SCALE is not None:
        y *= 1.0 + tl.load(SCALE + b * scb + i * scs + column, mask=inside, other=0.0).to(tl.float32)
    if SHIFT is not None:
        y += tl.load(SHIFT + b * shb + i * shs + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(OUT + row * n + column, y.to(OUT.dtype.element_ty), mask=inside)


def ada_norm(x: Tensor, shift: Tensor | None, scale: Tensor | None, eps: float, kind: str) -> Tensor:
    """The op ``ada_norm``."""
    x = columns_last(x)
    b, s, n = x.shape
    out = torch.empty((b, s, n), dtype=x.dtype, device=x.device)
    shift, shb, shs = _spread(shift, x)
    scale, scb, scs = _spread(scale, x)
    wide = max(16, triton.next_power_of_2(n))
    launch(
        ada_kernel, (b * s,), x, shift, scale, out, eps, s, n, x.stride(0), x.stride(1), shb, shs, scb, scs,
        RMS=kind == "rms", BN=wide, warps=row_warps(wide),
    )  # fmt: skip
    return out


def _spread(part: Tensor | None, x: Tensor) -> tuple[Tensor | None, int, int]:
    """A tensor that broadcasts to (B, S, N) without copying its rows, and the strides of b and s."""
    if part is None:
        return None, 0, 0
    part = columns_last(part.expand(x.shape) if part.shape[-1:] == x.shape[-1:] else part.expand(x.shape).contiguous())
    return part, part.stride(0), part.stride(1)


@triton.jit
def gate_add_kernel(X, Y, GATE, OUT, s, n, sxb, sxs, syb, sys, sgb, sgs, BN: tl.constexpr):
    """BN elements of a row of ``gate_add``."""
    row = tl.program_id(0).to(tl.int64)
    b = row // s
    i = row % s
    for n0 in range(0, n, BN):
        column = n0 + tl.arange(0, BN)
        inside = column < n
        x = tl.load(X + b * sxb + i * sxs + column, mask=inside, other=0.0).to(tl.float32)
        y = tl.load(Y + b * syb + i * sys + column, mask=inside, other=0.0).to(tl.float32)
        gate = tl.load(GATE + b * sgb + i * sgs + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(OUT + row * n + column, (x + y * gate).to(OUT.dtype.element_ty), mask=inside)


def gate_add(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """The op ``gate_add``."""
    x, y = columns_last(x), columns_last(y)
    b, s, n = x.shape
    out = torch.empty((b, s, n), dtype=x.dtype, device=x.device)
    spread, sgb, sgs = _spread(gate, x)
    wide = min(4096, max(16, triton.next_power_of_2(n)))
    launch(
        gate_add_kernel, (b * s,), x, y, spread, out, s, n, x.stride(0), x.stride(1), y.stride(0), y.stride(1), sgb,
        sgs, BN=wide, warps=row_warps(wide),
    )  # fmt: skip
    return out


@triton.jit
def rope_kernel(
    X, W, COS, SIN, POSITIONS, OUT, eps, heads, s, d, half, sxb, sxh, sxs, sob, soh, sos, scb, scs, spb,
    NORM: tl.constexpr, INTERLEAVED: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """BH heads of one token: normalize d elements, rotate the first 2 half of them. BP covers half, BD the rest."""
    token = tl.program_id(0).to(tl.int64)
    b = token // s
    i = token % s
    head = tl.program_id(1) * BH + tl.arange(0, BH)
    x_at = X + b * sxb + i * sxs + head.to(tl.int64)[:, None] * sxh
    out_at = OUT + b * sob + i * sos + head.to(tl.int64)[:, None] * soh
    is_head = (head < heads)[:, None]
    pair = tl.arange(0, BP)
    some = is_head & (pair < half)[None, :]
    both = tl.arange(0, 2 * BP)
    within = is_head & (both < 2 * half)[None, :]
    if INTERLEAVED:  # neighbours are loaded together, side by side in memory
        whole = tl.load(x_at + both[None, :], mask=within, other=0.0).to(tl.float32)
        x0, x1 = tl.split(tl.reshape(whole, [BH, BP, 2]))
    else:
        x0 = tl.load(x_at + pair[None, :], mask=some, other=0.0).to(tl.float32)
        x1 = tl.load(x_at + (half + pair)[None, :], mask=some, other=0.0).to(tl.float32)
    left = is_head
    if BD > 0:
        rest = 2 * half + tl.arange(0, BD)
        left = is_head & (rest < d)[None, :]
        x2 = tl.load(x_at + rest[None, :], mask=left, other=0.0).to(tl.float32)
    if NORM:
        square = tl.sum(x0 * x0, 1) + tl.sum(x1 * x1, 1)
        if BD > 0:
            square += tl.sum(x2 * x2, 1)
        root = tl.sqrt_rn(square / d + eps)[:, None]
        x0 = x0 / root
        x1 = x1 / root
        if BD > 0:
            x2 = x2 / root
    if W is not None:
        if INTERLEAVED:
            whole = tl.load(W + both, mask=both < 2 * half, other=0.0).to(tl.float32)
            w0, w1 = tl.split(tl.reshape(whole, [BP, 2]))
        else:
            w0 = tl.load(W + pair, mask=pair < half, other=0.0).to(tl.float32)
            w1 = tl.load(W + half + pair, mask=pair < half, other=0.0).to(tl.float32)
        x0 *= w0[None, :]
        x1 *= w1[None, :]
        if BD > 0:
            x2 *= tl.load(W + rest, mask=rest < d, other=0.0).to(tl.float32)[None, :]
    place = i
    if POSITIONS is not None:
        place = tl.load(POSITIONS + b * spb + i).to(tl.int64)
    at = b * scb + place * scs + pair
    cos = tl.load(COS + at, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(SIN + at, mask=pair < half, other=0.0).to(tl.float32)[None, :]
    y0 = (x0 * cos - x1 * sin).to(OUT.dtype.element_ty)
    y1 = (x1 * cos + x0 * sin).to(OUT.dtype.element_ty)
    if INTERLEAVED:
        tl.store(out_at + both[None, :], tl.reshape(tl.join(y0, y1), [BH, 2 * BP]), mask=within)
    else:
        tl.store(out_at + pair[None, :], y0, mask=some)
        tl.store(out_at + (half + pair)[None, :], y1, mask=some)
    if BD > 0:
        tl.store(out_at + rest[None, :], x2.to(OUT.dtype.element_ty), mask=left)


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The op ``qk_norm_rope``."""
    cos, sin = cos.contiguous(), sin.contiguous()
    if positions is not None:
        positions = positions.contiguous()
    return (
        _rope(q, q_weight, cos, sin, eps, interleaved, positions),
        _rope(k, k_weight, cos, sin, eps, interleaved, positions),
    )


def _rope(
    x: Tensor,
    weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> Tensor:
    x = columns_last(x)
    b, heads, s, d = x.shape
    half = cos.shape[-1]
    out = torch.empty((b, s, heads, d), dtype=x.dtype, device=x.device).transpose(1, 2)
    if not out.numel():
        return out
    pairs, rest = max(8, triton.next_power_of_2(half)), d - 2 * half
    rest = max(8, triton.next_power_of_2(rest)) if rest else 0
    block = min(triton.next_power_of_2(heads), max(1, 2048 // (2 * pairs + rest)))
    rope_kernel[(b * s, triton.cdiv(heads, block))](
        x, None if weight is None else weight.contiguous(), cos, sin, positions, out, eps or 0.0, heads, s, d, half,
        x.stride(0), x.stride(1), x.stride(2), out.stride(0), out.stride(1), out.stride(2),
        cos.stride(0) if cos.ndim == 3 and len(cos) > 1 else 0, cos.stride(-2),
        positions.stride(0) if positions is not None and positions.ndim == 2 and len(positions) > 1 else 0,
        NORM=eps is not None, INTERLEAVED=interleaved, BH=block, BD=rest, BP=pairs, num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
    return out
