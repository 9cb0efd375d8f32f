"""Norm and rotation of the heads of a few tokens on a CPU, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from . import threads  # noqa: F401

Array = NDArray[Any]
NONE = np.ones(0, np.float32)


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
) -> tuple[Tensor, Tensor]:
    """The op in float32: q (B, Hq, S, D), k (B, Hk, S, D), cos and sin (S, R/2) or (1 or B, S, R/2)."""
    angles = [(x if x.ndim == 3 else x[None]).contiguous().numpy() for x in (cos, sin)]
    squares = -1.0 if eps is None else eps
    out = []
    for x, weight in ((q, q_weight), (k, k_weight)):
        b, h, s, d = x.shape
        rotated = torch.empty(b, s, h, d).transpose(1, 2)
        scale = NONE if weight is None else weight.contiguous().numpy()
        turn(x.numpy(), scale, *angles, squares, interleaved, rotated.numpy())
        out.append(rotated)
    return out[0], out[1]


_X = "float32[:,:,:,:]"
_SIGNATURE = f"void({_X},float32[::1],float32[:,:,::1],float32[:,:,::1],float64,boolean,{_X})"


@njit(_SIGNATURE, fastmath={"reassoc", "contract"}, nogil=True, cache=True)  # type: ignore[untyped-decorator]
def turn(x: Array, weight: Array, cos: Array, sin: Array, eps: float, interleaved: bool, y: Array) -> None:
    batch, heads, tokens, size = x.shape
    half = cos.shape[2]
    for b in range(batch):
        row = min(b, len(cos) - 1)
        for h in range(heads):
            for t in range(tokens):
                factor = np.float32(1)
                if eps >= 0:
                    squares = np.float32(0)
                    for d in range(size):
                        squares += x[b, h, t, d] * x[b, h, t, d]
                    factor = np.float32(1 / np.sqrt(squares / size + eps))
                for d in range(size):
                    value = x[b, h, t, d] * factor
                    y[b, h, t, d] = value * weight[d] if len(weight) else value
                for i in range(half):
                    first = 2 * i if interleaved else i
                    second = first + 1 if interleaved else i + half
                    a, c = y[b, h, t, first], y[b, h, t, second]
                    y[b, h, t, first] = a * cos[row, t, i] - c * sin[row, t, i]
                    y[b, h, t, second] = c * cos[row, t, i] + a * sin[row, t, i]
