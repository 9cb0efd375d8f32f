"""GEMV: x W^T for a few rows of x and a packed weight on a CPU; each weight is read once, in packed form.

One-token decoding is memory-bound: a matrix product that unpacks W first moves four bytes per weight and more, this
moves one (q8) or a half (w4). Exact: float32 products and sums, x is not rounded. Compiled by numba, cached on disk.
Facts of a weight are cached as long as the weight lives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numba import config, njit, prange, set_num_threads
from numpy.typing import NDArray
from torch import Tensor

from pipegraph.kernels.weights.qweight import QWeight

from . import threads as _started  # noqa: F401
from .dots import COLUMNS, dot_q8, dot_w4

Array = NDArray[Any]
Ready = Callable[[Array, Array, int], None]
"""(rows of x, of y, threads)"""
_ready: WeakKeyDictionary[QWeight, Ready] = WeakKeyDictionary()


def product(x: Tensor, weight: QWeight) -> Tensor:
    """Multiply a few rows with a packed weight.

    Args:
        x: (M, K), any float dtype, M small.
        weight: (N, K), ``q8`` or ``w4``; groups are 32 columns times a power of two. Its own low-rank part is left out.

    Returns:
        (M, N) in float32.
    """
    y = torch.empty(x.shape[0], weight.shape[0])
    if y.numel() == 0 or x.shape[1] == 0:
        return y.zero_()
    wide = x if x.dtype is torch.float32 else x.float()
    prepare(weight)(wide.contiguous().numpy(), y.numpy(), threads_of_numba())
    return y


def threads_of_numba() -> int:
    """Set numba's threads to torch's number."""
    threads = torch.get_num_threads()
    if threads > 1:
        threads = min(threads, config.NUMBA_NUM_THREADS)
        set_num_threads(threads)
    return threads


def prepare(weight: QWeight) -> Ready:
    """The multiplication with a weight, cached as long as the weight lives; holds its buffers, not the weight."""
    run = _ready.get(weight)
    if run is None:
        run = _ready[weight] = _prepare(weight)
    return run


def _prepare(weight: QWeight) -> Ready:
    block, data = weight.rotate or 0, weight.data.numpy()
    if weight.group is None:
        scale = weight.scale.float().expand(weight.shape[0]).contiguous().numpy()
        return lambda x, y, threads: _q8_rows(x, block, data, scale, y, threads)
    shift = (weight.group // COLUMNS).bit_length() - 1
    scale = _readable(weight.scale)
    if weight.zero is None:
        return lambda x, y, threads: _q8_groups(x, block, data, scale, shift, y, threads)
    zero, words = _readable(weight.zero), data.view(np.int32)
    if words.shape[1] % 8 == 0:
        return lambda x, y, threads: _w4(x, block, words, scale, zero, shift, y, threads)

    def padded(x: Array, y: Array, threads: int) -> None:
        """An odd number of blocks gets one more of zeros at each call, so that no second copy is kept."""
        wide = np.pad(words, ((0, 0), (0, 4)))
        more = (wide.shape[1] // 4 - 1 >> shift) + 1 - scale.shape[1]
        _w4(x, block, wide, *(np.pad(a, ((0, 0), (0, more))) for a in (scale, zero)), shift, y, threads)

    return padded


def _readable(scale: Tensor) -> Array:
    """View float16 as its bits: numba has no such type on a CPU."""
    halves = scale.dtype == torch.float16
    bits: Array = scale.view(torch.int16).numpy().view(np.uint16) if halves else scale.float().numpy()
    return np.ascontiguousarray(bits)


_F, _U = "float32[:,::1]", "uint16[:,::1]"
_HALF = np.float32(0.7071067811865476)
_FAST: Any = {"reassoc", "contract"}
"""Sums may be reordered and multiply-adds fused; NaN and Inf keep their meaning."""
_PART: dict[str, Any] = dict(fastmath=_FAST, nogil=True, cache=True)
_WHOLE: dict[str, Any] = dict(parallel=True, nogil=True, cache=True)


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


@njit(f"{_F}({_F},int64)", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _turned(x: Array, block: int) -> Array:
    """Rotate a copy of x; x itself if there is no rotation."""
    if block == 0:
        return x
    turned = x.copy()
    _rotate(turned, block)
    return turned


@njit(f"Tuple(({_F},{_F}))({_F},int64,int64)", nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _interleaved(x: Array, block: int, words: int) -> tuple[Array, Array]:
    """Reorder columns for ``dot_w4``: in each 64, by byte of a word, half of a byte, block, then word.

    column = 32 block + 16 half + 4 word + byte; the four words of two blocks make eight lanes. Then the sums of each 32
    columns. Missing columns are zero.
    """
    turned = _turned(x, block)
    rows, columns = x.shape
    mixed = np.zeros((rows, words * 8), np.float32)
    sums = np.zeros((rows, words // 4), np.float32)
    for m in range(rows):
        for at in range(columns // 32):
            total = np.float32(0)
            for half in range(2):
                for word in range(4):
                    for byte in range(4):
                        value = turned[m, 32 * at + 16 * half + 4 * word + byte]
                        mixed[m, at // 2 * 64 + byte * 16 + half * 8 + at % 2 * 4 + word] = value
                        total += value
            sums[m, at] = total
    return mixed, sums


@njit(f"void({_F},int8[:,::1],float32[::1],{_F},int64,int64)", **_PART)  # type: ignore[untyped-decorator]
def _q8_rows_part(x: Array, w: Array, scale: Array, y: Array, first: int, end: int) -> None:
    rows, columns = x.shape
    for n in range(first, end):
        for m in range(rows):
            total = np.float32(0)
            for k in range(columns):
                total += x[m, k] * np.float32(w[n, k])
            y[m, n] = total * scale[n]


@njit([f"void({_F},int8[:,::1],{s},int64,{_F},int64,int64)" for s in (_U, _F)], **_PART)  # type: ignore[untyped-decorator]
def _q8_groups_part(x: Array, w: Array, scale: Array, shift: int, y: Array, first: int, end: int) -> None:
    for n in range(first, end):
        for m in range(len(x)):
            y[m, n] = dot_q8(x, m, w, n, scale, shift)


@njit([f"void({_F},{_F},int32[:,::1],{s},{s},int64,{_F},int64,int64)" for s in (_U, _F)], **_PART)  # type: ignore[untyped-decorator]
def _w4_part(
    x: Array, sums: Array, w: Array, scale: Array, zero: Array, shift: int, y: Array, first: int, end: int
) -> None:
    for n in range(first, end):
        for m in range(len(x)):
            y[m, n] = dot_w4(x, m, sums, w, n, scale, zero, shift)


@njit(f"void({_F},int64,int8[:,::1],float32[::1],{_F},int64)", **_WHOLE)  # type: ignore[untyped-decorator]
def _q8_rows(x: Array, block: int, w: Array, scale: Array, y: Array, threads: int) -> None:
    turned, size = _turned(x, block), len(w)
    if threads == 1:  # nothing is handed to other threads, which takes longer than a small product
        _q8_rows_part(turned, w, scale, y, 0, size)
        return
    for i in prange(threads):
        _q8_rows_part(turned, w, scale, y, i * size // threads, (i + 1) * size // threads)


@njit([f"void({_F},int64,int8[:,::1],{s},int64,{_F},int64)" for s in (_U, _F)], **_WHOLE)  # type: ignore[untyped-decorator]
def _q8_groups(x: Array, block: int, w: Array, scale: Array, shift: int, y: Array, threads: int) -> None:
    turned, size = _turned(x, block), len(w)
    if threads == 1:
        _q8_groups_part(turned, w, scale, shift, y, 0, size)
        return
    for i in prange(threads):
        _q8_groups_part(turned, w, scale, shift, y, i * size // threads, (i + 1) * size // threads)


@njit([f"void({_F},int64,int32[:,::1],{s},{s},int64,{_F},int64)" for s in (_U, _F)], **_WHOLE)  # type: ignore[untyped-decorator]
def _w4(x: Array, block: int, w: Array, scale: Array, zero: Array, shift: int, y: Array, threads: int) -> None:
    size = len(w)
    mixed, sums = _interleaved(x, block, w.shape[1])
    if threads == 1:
        _w4_part(mixed, sums, w, scale, zero, shift, y, 0, size)
        return
    for i in prange(threads):
        _w4_part(mixed, sums, w, scale, zero, shift, y, i * size // threads, (i + 1) * size // threads)
