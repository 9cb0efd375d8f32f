"""Merge partial results of attention, each with its log-sum-exp, in a fixed order: the same bits each time."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit(do_not_specialize=["rows", "parts"])
def merge_kernel(
    PARTS,
    SUMS,
    SINKS,
    OUT,
    LSE,
    rows,
    parts,
    heads,
    E: tl.constexpr,
    EP: tl.constexpr,
    P: tl.constexpr,
):
    """Row i of OUT (rows, E) from PARTS (parts, rows, E) and SUMS (parts, rows); row i is of head i % heads.

    A part whose sum is -inf counts for nothing, whatever it holds.
    """
    row = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, P)
    e = tl.arange(0, EP)
    sums = tl.load(SUMS + p.to(tl.int64) * rows + row, mask=p < parts, other=float("-inf"))
    top = tl.max(sums, 0)
    if SINKS is not None:
        sink = tl.load(SINKS + row % heads).to(tl.float32)
        top = tl.maximum(top, sink)
    top = tl.where(top == float("-inf"), 0.0, top)
    weights = tl.exp(sums - top)
    total = tl.sum(weights, 0)
    if SINKS is not None:
        total += tl.exp(sink - top)
    counts = ((p < parts) & (sums != float("-inf")))[:, None] & (e < E)[None, :]
    at = PARTS + (p.to(tl.int64) * rows + row)[:, None] * E + e[None, :]
    values = tl.load(at, mask=counts, other=0.0).to(tl.float32)
    out = tl.sum(values * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(OUT + row * E + e, out.to(OUT.dtype.element_ty), mask=e < E)
    if LSE is not None:
        tl.store(LSE + row, top + tl.log(total))


def merge(
    parts: Tensor, sums: Tensor, out: Tensor, lse: Tensor | None = None, sinks: Tensor | None = None, heads: int = 1
) -> None:
    """Fill ``out`` (..., E) and ``lse`` (...), contiguous, from ``parts`` (P, ..., E) and ``sums`` (P, ...)."""
    size, rows = out.shape[-1], sums[0].numel()
    merge_kernel[(rows,)](
        parts,
        sums,
        sinks,
        out,
        lse,
        rows,
        len(parts),
        heads,
        E=size,
        EP=triton.next_power_of_2(size),
        P=triton.next_power_of_2(len(parts)),
        num_warps=4,
        enable_fp_fusion=True,
    )


def merge_attention(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The op ``merge_attention``."""
    values = torch.stack([o for o, _ in parts])
    sums = torch.stack([lse for _, lse in parts]).float()
    out, lse = torch.empty_like(values[0]), torch.empty_like(sums[0])
    if out.numel():
        merge(values, sums, out, lse)
    return out, lse.to(parts[0][1].dtype)
