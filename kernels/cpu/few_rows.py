"""x W^T for a few rows of x and a packed weight, on a CPU: each weight is read once, as packed as it is.

One-token decoding is bound by memory: a matrix product that unpacks W first moves four bytes a weight and more, this
moves one (q8) or a half (w4). Exact: float32 products and sums, x is not rounded. Compiled by numba, cached on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import config, njit, prange, set_num_threads
from numpy.typing import NDArray
from torch import Tensor

from ..qweight import QWeight
from .dots import COLUMNS, dot_q8, dot_w4

Array = NDArray[Any]


def product(x: Tensor, weight: QWeight) -> Tensor:
    """Multiply a few rows with a packed weight.

    Args:
        x: (M, K), any float dtype, M small.
        weight: (N, K), ``q8`` or ``w4``; groups are 32 columns times a power of two. Its own low-rank part is left out.

    Returns:
        (M, N) in float32.
    """
    rows = np.array(x.float().numpy(), order="C")  # a copy, to be rotated in place
    if weight.rotate:
        _rotate(rows, weight.rotate)
    y = torch.empty(x.shape[0], weight.shape[0])
    if y.numel() == 0 or x.shape[1] == 0:
        return y.zero_()
    set_num_threads(min(torch.get_num_threads(), config.NUMBA_NUM_THREADS))
    data = weight.data.numpy()
    if weight.group is None:
        scale = weight.scale.float().expand(weight.shape[0]).contiguous()
        _q8_rows(rows, data, scale.numpy(), y.numpy())
        return y
    shift = (weight.group // COLUMNS).bit_length() - 1
    if weight.zero is None:
        _q8_groups(rows, data, _readable(weight.scale), shift, y.numpy())
        return y
    scale_, zero, words = _readable(weight.scale), _readable(weight.zero), data.view(np.int32)
    if words.shape[1] % 8:  # an odd number of blocks: one of zeros more
        words = np.pad(words, ((0, 0), (0, 4)))
        more = (words.shape[1] // 4 - 1 >> shift) + 1 - scale_.shape[1]
        scale_, zero = (np.pad(a, ((0, 0), (0, more))) for a in (scale_, zero))
    mixed, sums = (
        np.zeros((len(rows), words.shape[1] * 8), np.float32),
        np.zeros((len(rows), words.shape[1] // 4), np.float32),
    )
    _interleave(rows, mixed, sums)
    _w4(mixed, sums, words, scale_, zero, shift, y.numpy())
    return y


def _readable(scale: Tensor) -> Array:
    """float16 as its bits: numba has no such type on a CPU."""
    halves = scale.dtype == torch.float16
    bits: Array = scale.view(torch.int16).numpy().view(np.uint16) if halves else scale.float().numpy()
    return np.ascontiguousarray(bits)


_F, _U = "float32[:,::1]", "uint16[:,::1]"
_HALF = np.float32(0.7071067811865476)
_OPTIONS: dict[str, Any] = dict(fastmath={"reassoc", "contract"}, parallel=True, nogil=True, cache=True)
"""Sums may be reordered and multiply-adds fused; NaN and Inf keep their meaning."""


@njit(f"void({_F},int64)", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _rotate(x: Array, block: int) -> None:
    """``hadamard.rotate`` in place, with the same bits."""
    rows, columns = x.shape
    for m in range(rows):
        width = 1
        while width * 4 <= block:
            for start in range(0, columns, 4 * width):
                for i in range(start, start + width):
                    a, b, c, d = x[m, i], x[m, i + width], x[m, i + 2 * width], x[m, i + 3 * width]
                    s = ((a + b) + (c + d)) * np.float32(0.5)
                    x[m, i], x[m, i + width], x[m, i + 2 * width], x[m, i + 3 * width] = s - d, s - c, s - b, s - a
            width *= 4
        if width < block:
            for start in range(0, columns, 2 * width):
                for i in range(start, start + width):
                    a, b = x[m, i], x[m, i + width]
                    x[m, i], x[m, i + width] = (a + b) * _HALF, (a - b) * _HALF


@njit(f"void({_F},{_F},{_F})", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _interleave(x: Array, mixed: Array, sums: Array) -> None:
    """The order in which ``dot_w4`` meets the columns: of each 64, by byte of a word, half of a byte, block, then word.

    column = 32 block + 16 half + 4 word + byte; the four words of two blocks make eight lanes. ``sums`` get those of
    each 32 columns.
    """
    rows, columns = x.shape
    for m in range(rows):
        for k in range(columns):
            block, rest = k // 32, k % 32
            at = block // 2 * 64 + rest % 4 * 16 + rest // 16 * 8 + block % 2 * 4 + rest // 4 % 4
            mixed[m, at] = x[m, k]
            sums[m, block] += x[m, k]


@njit(f"void({_F},int8[:,::1],float32[::1],{_F})", **_OPTIONS)  # type: ignore[untyped-decorator]
def _q8_rows(x: Array, w: Array, scale: Array, y: Array) -> None:
    rows, columns = x.shape
    for n in prange(len(w)):
        for m in range(rows):
            total = np.float32(0)
            for k in range(columns):
                total += x[m, k] * np.float32(w[n, k])
            y[m, n] = total * scale[n]


@njit([f"void({_F},int8[:,::1],{s},int64,{_F})" for s in (_U, _F)], **_OPTIONS)  # type: ignore[untyped-decorator]
def _q8_groups(x: Array, w: Array, scale: Array, shift: int, y: Array) -> None:
    for n in prange(len(w)):
        for m in range(len(x)):
            y[m, n] = dot_q8(x, m, w, n, scale, shift)


@njit([f"void({_F},{_F},int32[:,::1],{s},{s},int64,{_F})" for s in (_U, _F)], **_OPTIONS)  # type: ignore[untyped-decorator]
def _w4(x: Array, sums: Array, w: Array, scale: Array, zero: Array, shift: int, y: Array) -> None:
    for n in prange(len(w)):
        for m in range(len(x)):
            y[m, n] = dot_w4(x, m, sums, w, n, scale, zero, shift)
