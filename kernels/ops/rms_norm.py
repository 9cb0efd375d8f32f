"""RMS norm, with an optional residual added first: x / sqrt(mean(x^2) + eps) * weight (arXiv 1910.07467)."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple, TypeAlias, overload

import torch
from torch import Tensor

from ..backends import cpu
from ..backends.torch.linear import recorded
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register

Result: TypeAlias = Tensor | tuple[Tensor, Tensor]


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    dtype: torch.dtype
    device: str
    weight: bool
    residual: bool
    precision: str = "exact"


@overload
def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, residual: None = None, backend: str | None = None
) -> Tensor: ...
@overload
def rms_norm(
    x: Tensor, weight: Tensor | None = None, eps: float = 1e-6, *, residual: Tensor, backend: str | None = None
) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    residual: Tensor | None = None,
    backend: str | None = None,
) -> Result:
    """Normalize over the last dimension, in float32 at least.

    Args:
        x: (..., N), float, any strides.
        weight: (N,), float.
        eps: Added to the mean square.
        residual: Like x. The sum x + residual is rounded to the dtype of x, normalized, and given back as well.
        backend: Name of the back end to use.

    Returns:
        (..., N) in the dtype of x, and with ``residual`` also the sum.
    """
    key = (
        x.shape,
        x.dtype,
        x.device,
        None if weight is None else weight.shape,
        None if residual is None else (residual.shape, residual.dtype),
    )
    out: Result = OP.pick(key, backend).fn(x, weight, eps, residual)
    return out


def _describe(key: Any) -> Signature:
    shape, dtype, device, weight, residual = key
    if not shape or not dtype.is_floating_point:
        raise KernelError(f"rms_norm: needs a float (..., N), not {dtype} {tuple(shape)}")
    if weight is not None and tuple(weight) != (shape[-1],):
        raise KernelError(f"rms_norm: weight {tuple(weight)} does not fit x {tuple(shape)}")
    if residual is not None and (residual[0] != shape or residual[1] != dtype):
        raise KernelError(f"rms_norm: residual {residual[1]} {tuple(residual[0])} is not like x {dtype} {tuple(shape)}")
    return Signature(tuple(shape), dtype, device.type, weight is not None, residual is not None)


def reference(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None) -> Result:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    total = x if residual is None else x + residual
    wide = total.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    y = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    if weight is not None:
        y = y * weight.to(y)
    return y.to(x.dtype) if residual is None else (y.to(x.dtype), total)


def fused(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None) -> Result:
    """PyTorch's norm, which computes in float32; weights of another dtype take a few steps more."""
    if weight is not None and weight.dtype != x.dtype:
        return reference(x, weight, eps, residual)
    if residual is None:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
    total = x + residual
    return torch.nn.functional.rms_norm(total, x.shape[-1:], weight, eps), total


def few_rows(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None) -> Result:
    """On a CPU, compiled: for decoding a token or a few, and prompts of some."""
    from ..backends.cpu import rows

    assert weight is not None
    if weight.dtype != x.dtype:
        return reference(x, weight, eps, residual)
    if recorded(x, weight, residual):
        return fused(x, weight, eps, residual)
    y, total = rows.rms_norm(x, weight, eps, residual)
    return y if residual is None else (y, total)


def _refuses_few_rows(s: Signature) -> str:
    if s.device != "cpu" or s.dtype != torch.float32:
        return "is for float32 on a CPU"
    return "" if s.weight else "needs a weight"


def _rank_few_rows(s: Signature) -> float:
    """One thread makes one pass, torch's threads several; short rows are not worth loading the kernel."""
    some = s.x[-1] >= 512 and prod(s.x) <= 1 << 17
    return 20 if some or prod(s.x[:-1]) <= cpu.FEW else 5


def _triton(x: Tensor, weight: Tensor | None, eps: float, residual: Tensor | None) -> Result:
    from ..backends.triton.norms import rms_norm

    return rms_norm(x, weight, eps, residual)


def refuses_triton(s: Any) -> str:
    """Why the Triton norms do not support a call; also for ``ada_norm``."""
    if s.dtype == torch.float64:
        return "computes in float32"
    return available.refuses(s.device) or ("at most 65536 columns" if s.x[-1] > 65536 else "")


OP = define(
    Op(
        "rms_norm",
        _describe,
        lambda device, dtype: Signature((1, 4096, 3072), getattr(torch, dtype), device, True, False),
    )
)
register(Backend("rms_norm", "reference", reference, rank=lambda s: 0))
register(Backend("rms_norm", "torch", fused, rank=lambda s: 10))
register(Backend("rms_norm", "few-rows", few_rows, rank=_rank_few_rows, refuses=_refuses_few_rows, missing=cpu.missing))
register(
    Backend(
        "rms_norm",
        "triton",
        _triton,
        rank=lambda s: available.rank(20 if s.residual else 5),  # without, torch makes one pass as well
        refuses=refuses_triton,
        missing=available.missing,
    )
)
