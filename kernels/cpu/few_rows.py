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

from ..hadamard import rotate
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
    x = (rotate(x, weight.rotate) if weight.rotate else x.float()).contiguous()
    y = torch.empty(x.shape[0], weight.shape[0])
    if y.numel() == 0 or x.shape[1] == 0:
        return y.zero_()
    set_num_threads(min(torch.get_num_threads(), config.NUMBA_NUM_THREADS))
    data = weight.data.numpy()
    if weight.group is None:
        scale = weight.scale.float().expand(weight.shape[0]).contiguous()
        _q8_rows(x.numpy(), data, scale.numpy(), y.numpy())
        return y
    shift = (weight.group // COLUMNS).bit_length() - 1
    if weight.zero is None:
        _q8_groups(x.numpy(), data, _readable(weight.scale), shift, y.numpy())
        return y
    sums, words, x = x.view(len(x), -1, COLUMNS).sum(-1), data.view(np.int32), _interleave(x)
    scale_, zero = _readable(weight.scale), _readable(weight.zero)
    if words.shape[1] % 8:  # an odd number of blocks
        (words, sums), last = _even(words, sums), weight.shape[1] // COLUMNS >> shift
        scale_, zero = (np.pad(a, ((0, 0), (0, last + 1 - a.shape[1]))) for a in (scale_, zero))
    _w4(x.numpy(), sums.numpy(), words, scale_, zero, shift, y.numpy())
    return y


def _readable(scale: Tensor) -> Array:
    """float16 as its bits: numba has no such type on a CPU."""
    halves = scale.dtype == torch.float16
    bits: Array = scale.view(torch.int16).numpy().view(np.uint16) if halves else scale.float().numpy()
    return np.ascontiguousarray(bits)


def _interleave(x: Tensor) -> Tensor:
    """The order in which ``dot_w4`` meets the columns: of each 64, by byte of a word, half of a byte, then word."""
    x = torch.nn.functional.pad(x, (0, -x.shape[1] % 64))
    # column = 32 block + 16 half + 4 word + byte; the four words of two blocks make eight lanes
    return x.view(len(x), -1, 2, 2, 4, 4).permute(0, 1, 5, 3, 2, 4).reshape(len(x), -1)


def _even(words: Array, sums: Tensor) -> tuple[Array, Tensor]:
    """A block of zeros more."""
    return np.pad(words, ((0, 0), (0, 4))), torch.nn.functional.pad(sums, (0, 1))


_F, _U = "float32[:,::1]", "uint16[:,::1]"
_OPTIONS: dict[str, Any] = dict(fastmath={"reassoc", "contract"}, parallel=True, nogil=True, cache=True)
"""Sums may be reordered and multiply-adds fused; NaN and Inf keep their meaning."""


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
