"""A rotation that spreads outliers: an orthonormal, symmetric Hadamard matrix on blocks of the last dimension.

For a block of 4**n it is the n-fold Kronecker power of the regular matrix

    [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]] / 2

(ConvRot, arXiv 2512.03673; files called int8_convrot), for 2 * 4**n that of [[1, 1], [1, -1]] / sqrt(2) and it. It is
its own inverse, so it is put on weights and on inputs alike: (x R) (W R)^T = x W^T.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError

MOST: Final = 256
"""The usual block."""
_HALF: Final = 0.7071067811865476


def rotation_block(k: int, most: int = MOST) -> int | None:
    """The largest power of two that divides ``k``, at most ``most``; None if that is below 4."""
    block = min(k & -k, most)
    return block if block >= 4 else None


def check_block(block: int, k: int) -> None:
    """Check that a block is a power of two of at least 2 that divides ``k``."""
    if block < 2 or block & (block - 1) or k % block:
        raise KernelError(f"a rotation's block is a power of two that divides K; {block} does not fit K = {k}")


def rotate(x: Tensor, block: int) -> Tensor:
    """Rotate each block of the last dimension.

    Args:
        x: (..., K), float, any strides.
        block: A power of two that divides K.

    Returns:
        (..., K), contiguous, in float32 (float64 for float64): the caller rounds the result. The order of
        additions is part of the definition, so that every back end gives the same bits.
    """
    check_block(block, x.shape[-1])
    y = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    width = 1
    while width * 4 <= block:
        a, b, c, d = y.reshape(*x.shape[:-1], -1, 4, width).unbind(-2)
        s = ((a + b) + (c + d)) * 0.5
        y = torch.stack((s - d, s - c, s - b, s - a), -2)
        width *= 4
    if width < block:
        a, b = y.reshape(*x.shape[:-1], -1, 2, width).unbind(-2)
        y = torch.stack(((a + b) * _HALF, (a - b) * _HALF), -2)
    return y.reshape(x.shape)
