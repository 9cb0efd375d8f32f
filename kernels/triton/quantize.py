"""Rows to 8 bits and their rotation, one row a program, in one pass over memory."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..qweight import TINY
from .configs_linear import row_warps
from .linear_parts import flat, launch

_HALF = tl.constexpr(0.7071067811865476)
_TINY = tl.constexpr(TINY)


@triton.jit
def _fours(y, BN: tl.constexpr, WIDTH: tl.constexpr):
    """Put the regular 4 x 4 matrix on the digit of weight WIDTH, adding in the order of ``hadamard.rotate``."""
    parts = tl.permute(tl.reshape(y, [BN // (4 * WIDTH), 2, 2, WIDTH]), [0, 3, 2, 1])
    ab, cd = tl.split(parts)  # the outer bit of the digit: (a, b), (c, d)
    a, b = tl.split(ab)
    c, d = tl.split(cd)
    s = ((a + b) + (c + d)) * 0.5
    turned = tl.join(tl.join(s - d, s - c), tl.join(s - b, s - a))
    return tl.reshape(tl.permute(turned, [0, 3, 2, 1]), [BN])


@triton.jit
def _twos(y, BN: tl.constexpr, WIDTH: tl.constexpr):
    """Put [[1, 1], [1, -1]] / sqrt(2) on the bit of weight WIDTH."""
    a, b = tl.split(tl.permute(tl.reshape(y, [BN // (2 * WIDTH), 2, WIDTH]), [0, 2, 1]))
    return tl.reshape(tl.permute(tl.join((a + b) * _HALF, (a - b) * _HALF), [0, 2, 1]), [BN])


@triton.jit
def rotate(y, BN: tl.constexpr, BLOCK: tl.constexpr):
    """``hadamard.rotate`` of a row of BN elements, a power of two; the same bits."""
    if BLOCK >= 4:
        y = _fours(y, BN, 1)
    if BLOCK >= 16:
        y = _fours(y, BN, 4)
    if BLOCK >= 64:
        y = _fours(y, BN, 16)
    if BLOCK >= 256:
        y = _fours(y, BN, 64)
    if BLOCK == 2:
        y = _twos(y, BN, 1)
    elif BLOCK == 8:
        y = _twos(y, BN, 4)
    elif BLOCK == 32:
        y = _twos(y, BN, 16)
    elif BLOCK == 128:
        y = _twos(y, BN, 64)
    return y


@triton.jit
def store_bytes(y, n, DATA, SCALE, BN: tl.constexpr, FP8: tl.constexpr):
    """Quantize a row of which n elements count (the others are 0) and store it with its scale."""
    column = tl.arange(0, BN)
    top = tl.maximum(tl.max(tl.abs(y), 0), _TINY)
    top += tl.sum(tl.where(y != y, y, 0.0), 0)  # `max` passes over NaN; the scale must not
    if FP8:
        scale = tl.div_rn(top, 448.0)
        value = tl.div_rn(y, tl.zeros_like(y) + scale)
        value = tl.where(value != value, value, tl.minimum(tl.maximum(value, -448.0), 448.0))
    else:
        scale = tl.div_rn(top, 127.0)
        value = tl.div_rn(y, tl.zeros_like(y) + scale)
        value = (value + 12582912.0) - 12582912.0  # to the nearest even whole number
        value = tl.minimum(tl.maximum(value, -127.0), 127.0)
        value = tl.where(value != value, 0.0, value)
    tl.store(DATA + column, value.to(DATA.dtype.element_ty), mask=column < n)
    tl.store(SCALE, scale)


@triton.jit
def quantize_kernel(X, DATA, SCALE, n, sxm, BN: tl.constexpr, BLOCK: tl.constexpr, FP8: tl.constexpr):
    """One row of ``quantize_rows``."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BN)
    y = tl.load(X + row * sxm + column, mask=column < n, other=0.0).to(tl.float32)
    store_bytes(rotate(y, BN, BLOCK), n, DATA + row * n, SCALE + row, BN, FP8)


@triton.jit
def rotate_kernel(X, OUT, n, sxm, BN: tl.constexpr, BLOCK: tl.constexpr):
    """One row of ``rotate_rows``."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BN)
    y = tl.load(X + row * sxm + column, mask=column < n, other=0.0).to(tl.float32)
    tl.store(OUT + row * n + column, rotate(y, BN, BLOCK).to(OUT.dtype.element_ty), mask=column < n)


def quantize_rows(x: Tensor, format: str, block: int | None) -> tuple[Tensor, Tensor]:
    """The op ``quantize_rows``."""
    rows = flat(x)
    m, n = rows.shape
    fp8 = format == "fp8"
    data = torch.empty((m, n), dtype=torch.float8_e4m3fn if fp8 else torch.int8, device=x.device)
    scale = torch.empty(m, dtype=torch.float32, device=x.device)
    wide = max(16, triton.next_power_of_2(n))
    args: tuple[Any, ...] = (rows, data, scale, n, rows.stride(0))
    launch(quantize_kernel, (m,), *args, BN=wide, BLOCK=block or 1, FP8=fp8, warps=row_warps(wide))
    return data.view(x.shape), scale.view(x.shape[:-1])


def rotate_rows(x: Tensor, block: int) -> Tensor:
    """``hadamard.rotate`` of (M, K), rounded to the dtype of x."""
    m, n = x.shape
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    wide = max(16, triton.next_power_of_2(n))
    launch(rotate_kernel, (m,), x, out, n, x.stride(0), BN=wide, BLOCK=block, warps=row_warps(wide))
    return out
