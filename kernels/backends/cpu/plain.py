"""GEMV: x W^T for a few rows of x and a plain float32 weight on a CPU; W is read once, at memory speed.

torch's product takes 1.5 times as long for one row, and twice as long for some.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit, prange
from numpy.typing import NDArray
from torch import Tensor

from .few_rows import Ready, threads_of_numba

Array = NDArray[Any]
_F = "float32[:,::1]"


def product(x: Tensor, weight: Tensor) -> Tensor:
    """(M, K) times a contiguous (N, K), both float32: (M, N)."""
    y = torch.empty(x.shape[0], weight.shape[0])
    prepare(weight)(x.contiguous().numpy(), y.numpy(), threads_of_numba())
    return y


def prepare(weight: Tensor) -> Ready:
    """The multiplication with a weight, which views its memory."""
    w = weight.detach().numpy()
    return lambda x, y, threads: _plain(x, w, y, threads)


@njit(f"void({_F},{_F},{_F},int64,int64)", fastmath={"reassoc", "contract"}, nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _part(x: Array, w: Array, y: Array, first: int, end: int) -> None:
    rows, columns = x.shape
    for n in range(first, end):
        m = 0
        while m + 4 <= rows:  # each number of W is loaded once for four rows
            a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for k in range(columns):
                value = w[n, k]
                a += x[m, k] * value
                b += x[m + 1, k] * value
                c += x[m + 2, k] * value
                d += x[m + 3, k] * value
            y[m, n], y[m + 1, n], y[m + 2, n], y[m + 3, n] = a, b, c, d
            m += 4
        while m < rows:
            total = np.float32(0)
            for k in range(columns):
                total += x[m, k] * w[n, k]
            y[m, n] = total
            m += 1


@njit(f"void({_F},{_F},{_F},int64)", parallel=True, nogil=True, cache=True)  # type: ignore[untyped-decorator]
def _plain(x: Array, w: Array, y: Array, threads: int) -> None:
    size = len(w)
    if threads == 1:  # nothing is handed to other threads, which takes longer than a small product
        _part(x, w, y, 0, size)
        return
    for i in prange(threads):
        _part(x, w, y, i * size // threads, (i + 1) * size // threads)
