"""Merge attention over parts of the keys into attention over all of them: for chunks, rings and shared prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register

MOST = 64
"""Parts that the Triton kernel holds at once."""


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    o: tuple[int, ...]
    parts: int
    dtype: torch.dtype
    device: str
    precision: str = "exact"


def merge_attention(parts: Sequence[tuple[Tensor, Tensor]], *, backend: str | None = None) -> tuple[Tensor, Tensor]:
    """Merge results of ``attention(..., return_lse=True)`` and similar ops with the same queries and other keys.

    Sinks are keys, too: give them to one of the parts only.

    Args:
        parts: (o, lse) of each part: o (..., Dv), float, and lse (...), natural log, float32 or float64. A row without
            keys has the lse -inf and is ignored, for any o.
        backend: Name of the back end to use.

    Returns:
        (o, lse) over all keys, in the dtypes of the parts.

    Raises:
        KernelError: no parts, or parts that do not fit together.
    """
    key = tuple((o.shape, o.dtype, lse.shape, lse.dtype) for o, lse in parts), parts[0][0].device if parts else None
    out: tuple[Tensor, Tensor] = OP.pick(key, backend).fn(parts)
    return out


def _describe(key: Any) -> Signature:
    parts, device = key
    if not parts:
        raise KernelError("merge_attention: there are no parts")
    shape, dtype, sums, sums_dtype = parts[0]
    if not (shape[:-1] == sums and dtype.is_floating_point and sums_dtype.is_floating_point and len(shape)):
        raise KernelError(
            f"merge_attention: a part is o (..., Dv) and lse (...), float; got {dtype} {tuple(shape)} and {sums_dtype} "
            f"{tuple(sums)}"
        )
    if len(set(parts)) > 1:
        raise KernelError("merge_attention: the parts differ in shape or dtype")
    return Signature(tuple(shape), len(parts), dtype, device.type)


def merge_reference(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The definition: each part weighs exp(its lse)."""
    sums = torch.stack([lse for _, lse in parts])
    total = sums.logsumexp(0)
    work = torch.promote_types(parts[0][0].dtype, torch.float32)
    out = torch.zeros(parts[0][0].shape, dtype=work, device=total.device)
    for o, lse in parts:
        weight = (lse - total).exp()[..., None]
        out = torch.where(lse[..., None] == -torch.inf, out, out + weight * o)
    return out.to(parts[0][0].dtype), total


def merge_torch(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """All parts at once, as one product."""
    sums = torch.stack([lse for _, lse in parts], -1)
    total = sums.logsumexp(-1)
    work = torch.promote_types(parts[0][0].dtype, torch.float32)
    weights = torch.where(sums == -torch.inf, 0, (sums - total[..., None]).exp()).to(work)
    values = torch.stack([o for o, _ in parts], -2).to(work).masked_fill((sums == -torch.inf)[..., None], 0)
    out = (weights[..., None, :] @ values).squeeze(-2)
    return out.to(parts[0][0].dtype), total


def _triton(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    from ..backends.triton.merge import merge_attention as run

    return run(parts)


def _refuses_triton(s: Signature) -> str:
    if s.dtype == torch.float64:
        return "computes in float32"
    if s.parts > MOST or s.o[-1] > 1024:
        return f"at most {MOST} parts and 1024 columns"
    return available.refuses(s.device)


def _sample(device: str, dtype: str) -> Signature:
    return Signature((1, 24, 4096, 128), 2, getattr(torch, dtype), device)


OP = define(Op("merge_attention", _describe, _sample))
register(Backend("merge_attention", "reference", merge_reference, rank=lambda s: 0))
register(Backend("merge_attention", "torch", merge_torch, rank=lambda s: 10))
register(
    Backend(
        "merge_attention",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
