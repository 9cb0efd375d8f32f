"""Rows to 8 bits and their rotation, one row a program; in one pass over memory up to 16384 columns."""

from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.weights.qweight import TINY

from .available import LARGEST_BLOCK
from .configs_linear import row_warps
from .linear_parts import flat, launch

_HALF = tl.constexpr(0.7071067811865476)
_TINY = tl.constexpr(TINY)
WHOLE: Final = 16384
"""A row of at most so many columns is held at once; of a longer one, ``LARGEST_BLOCK`` columns at a time."""


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
def rotate(y, BN: tl.constexpr, BLOCK: tl.constexpr, FOURS: tl.constexpr):
    """``hadamard.rotate`` of BN elements, a power of two; the same bits. BLOCK is 4**FOURS or twice that."""
    for i in tl.static_range(FOURS):
        y = _fours(y, BN, 1 << (2 * i))
    if BLOCK > 1 << (2 * FOURS):
        y = _twos(y, BN, BLOCK // 2)
    return y


@triton.jit
def _part(X, n0, n, BN: tl.constexpr, BLOCK: tl.constexpr, FOURS: tl.constexpr):
    """Columns n0 to n0 + BN of a row of n, rotated; 0 beyond the row."""
    column = n0 + tl.arange(0, BN)
    return rotate(tl.load(X + column, mask=column < n, other=0.0).to(tl.float32), BN, BLOCK, FOURS)


@triton.jit
def _bytes(y, scale, FP8: tl.constexpr):
    """Scale y / scale into the range of 8 bits; whole numbers for int8, to the nearest even."""
    value = tl.div_rn(y, tl.zeros_like(y) + scale)
    if FP8:
        return tl.where(value != value, value, tl.minimum(tl.maximum(value, -448.0), 448.0))
    value = tl.where(value != value, 0.0, value)  # before `maximum`, which passes over NaN
    return tl.minimum(tl.maximum((value + 12582912.0) - 12582912.0, -127.0), 127.0)


@triton.jit
def quantize_kernel(
    X, DATA, SCALE, n, sxm, BN: tl.constexpr, BLOCK: tl.constexpr, FOURS: tl.constexpr, FP8: tl.constexpr
):
    """One row of ``quantize_rows``; of more than BN elements all but the first BN are read and rotated twice."""
    row = tl.program_id(0).to(tl.int64)
    X += row * sxm
    DATA += row * n
    y = _part(X, 0, n, BN, BLOCK, FOURS)
    top = tl.maximum(tl.max(tl.abs(y), 0), _TINY)
    wrong = tl.sum(tl.where(y != y, y, 0.0), 0)  # `max` passes over NaN; the scale must not
    for n0 in range(BN, n, BN):
        more = _part(X, n0, n, BN, BLOCK, FOURS)
        top = tl.maximum(top, tl.max(tl.abs(more), 0))
        wrong += tl.sum(tl.where(more != more, more, 0.0), 0)
    scale = tl.div_rn(top + wrong, 448.0 if FP8 else 127.0)
    tl.store(SCALE + row, scale)
    column = tl.arange(0, BN)
    tl.store(DATA + column, _bytes(y, scale, FP8).to(DATA.dtype.element_ty), mask=column < n)
    for n0 in range(BN, n, BN):
        more = _bytes(_part(X, n0, n, BN, BLOCK, FOURS), scale, FP8)
        tl.store(DATA + n0 + column, more.to(DATA.dtype.element_ty), mask=n0 + column < n)


@triton.jit
def rotate_kernel(X, OUT, n, sxm, BN: tl.constexpr, BLOCK: tl.constexpr, FOURS: tl.constexpr):
    """BN columns of a row of ``rotate_rows``."""
    row = tl.program_id(0).to(tl.int64)
    n0 = tl.program_id(1) * BN
    column = n0 + tl.arange(0, BN)
    y = _part(X + row * sxm, n0, n, BN, BLOCK, FOURS)
    tl.store(OUT + row * n + column, y.to(OUT.dtype.element_ty), mask=column < n)


def _tile(n: int, block: int) -> dict[str, int]:
    """How many columns to hold at a time (rotated, each takes 4 bytes of shared memory), and by how many warps."""
    whole = max(16, triton.next_power_of_2(n))
    wide = whole if whole <= WHOLE else LARGEST_BLOCK
    return dict(BN=wide, BLOCK=block, FOURS=(block.bit_length() - 1) // 2, warps=row_warps(wide))


def quantize_rows(x: Tensor, format: str, block: int | None) -> tuple[Tensor, Tensor]:
    """The op ``quantize_rows``."""
    rows = flat(x)
    m, n = rows.shape
    fp8 = format == "fp8"
    data = torch.empty((m, n), dtype=torch.float8_e4m3fn if fp8 else torch.int8, device=x.device)
    scale = torch.empty(m, dtype=torch.float32, device=x.device)
    args: tuple[Any, ...] = (rows, data, scale, n, rows.stride(0))
    launch(quantize_kernel, (m,), *args, FP8=fp8, **_tile(n, block or 1))
    return data.view(x.shape), scale.view(x.shape[:-1])


def rotate_rows(x: Tensor, block: int) -> Tensor:
    """``hadamard.rotate`` of (M, K), rounded to the dtype of x."""
    m, n = x.shape
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    tile = _tile(n, block)
    launch(rotate_kernel, (m, triton.cdiv(n, tile["BN"])), x, out, n, x.stride(0), **tile)
    return out
