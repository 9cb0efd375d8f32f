"""Shared parts of matrix products: tile order and epilogue."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.weights.linear_values import Activation, LowRank


@triton.jit
def tile_of(pid, m, n, BM: tl.constexpr, BN: tl.constexpr, BAND: tl.constexpr):
    """Which row and column tile a program has: BAND row tiles share their columns of weights."""
    high = tl.cdiv(m, BM)
    wide = tl.cdiv(n, BN)
    band = pid // (BAND * wide)
    first = band * BAND
    height = min(high - first, BAND)
    return first + (pid % (BAND * wide)) % height, (pid % (BAND * wide)) // height


@triton.jit
def activate(y, ACT: tl.constexpr):
    """silu, gelu_tanh, gelu or nothing; tanh(u) = 2 sigmoid(2u) - 1."""
    if ACT == "silu":
        y = y / (1.0 + tl.exp(-y))
    elif ACT == "gelu_tanh":
        y = y / (1.0 + tl.exp(-1.5957691216057308 * (y + 0.044715 * y * y * y)))
    elif ACT == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    return y


@triton.jit
def finish(
    acc, rows, columns, m, n, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, ACT: tl.constexpr,
    BR: tl.constexpr,
):  # fmt: skip
    """act(acc + H U^T + bias) * gate + residual, stored where rows < m and columns < n."""
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    row = (rows % m).to(tl.int64)
    column = columns % n
    if H is not None:
        k = tl.arange(0, BR)
        for r0 in range(0, r, BR):
            left = k < r - r0
            h = tl.load(H + row[:, None] * shm + (r0 + k)[None, :], mask=left[None, :], other=0.0)
            u = tl.load(U + column.to(tl.int64)[None, :] * sun + (r0 + k)[:, None], mask=left[:, None], other=0.0)
            acc = tl.dot(h, u, acc, input_precision="ieee")
    if BIAS is not None:
        acc += tl.load(BIAS + column).to(tl.float32)[None, :]
    acc = activate(acc, ACT)
    if GATE is not None:
        acc *= tl.load(GATE + (row // gate_rows)[:, None] * sgm + column[None, :]).to(tl.float32)
    if RES is not None:
        acc += tl.load(RES + row[:, None] * srm + column[None, :]).to(tl.float32)
    tl.store(OUT + row[:, None] * som + column[None, :], acc.to(OUT.dtype.element_ty), mask=inside)


class Finish(NamedTuple):
    """The arguments of ``finish`` from ``out`` on."""

    out: Tensor
    som: int
    bias: Tensor | None
    h: Tensor | None
    shm: int
    u: Tensor | None
    sun: int
    rank: int
    gate: Tensor | None
    sgm: int
    gate_rows: int
    residual: Tensor | None
    srm: int


def prepare(
    x: Tensor, n: int, bias: Tensor | None, low_rank: LowRank | None, gate: Tensor | None, residual: Tensor | None
) -> Finish:
    """Allocate the result (rows of x, N) and reshape gate and residual for the kernels."""
    out = torch.empty((x.shape[:-1].numel(), n), dtype=x.dtype, device=x.device)
    h = u = None
    if low_rank is not None and low_rank.rank:
        h = F.linear(flat(x), low_rank.down.to(x))
        u = columns_last(low_rank.up.to(x))
    shape = (*x.shape[:-1], n)
    rows, gate_rows = (None, 1) if gate is None else _gate(gate, shape)
    added = None if residual is None else flat(residual)
    return Finish(
        out,
        out.stride(0),
        None if bias is None else bias.contiguous(),
        h,
        h.stride(0) if h is not None else 0,
        u,
        u.stride(0) if u is not None else 0,
        low_rank.rank if low_rank else 0,
        rows,
        rows.stride(0) if rows is not None else 0,
        gate_rows,
        added,
        added.stride(0) if added is not None else 0,
    )


def _gate(gate: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, int]:
    """A gate as (G, N) and how many rows of the result share one of its rows."""
    n = shape[-1]
    gate = gate.reshape((1,) * (len(shape) - gate.ndim) + gate.shape)
    lead = gate.shape[:-1]
    shared = len(lead)
    while shared and lead[shared - 1] == 1:
        shared -= 1
    if gate.shape[-1] != n or lead[:shared] != torch.Size(shape[:shared]):
        gate, shared = gate.expand(shape), len(lead)
    rows = columns_last(gate.reshape(-1, n))
    return rows, max(1, torch.Size(shape[shared:-1]).numel())


def flat(x: Tensor) -> Tensor:
    """(..., K) as rows (M, K) whose elements lie side by side; a copy only if they do not."""
    return columns_last(x.reshape(x.shape[:-1].numel(), x.shape[-1]))


def columns_last(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] <= 1 else x.contiguous()


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, warps: int, **constants: Any) -> None:
    """Launch a kernel, unless the grid is empty."""
    if all(grid):
        kernel[grid](*args, **constants, num_warps=warps, enable_fp_fusion=True)


__all__ = ["Activation", "Finish", "activate", "columns_last", "finish", "flat", "launch", "prepare", "tile_of"]
