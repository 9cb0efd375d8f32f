"""Norms that a condition shifts and scales (DiT's adaLN, arXiv 2212.09748), and the gated sum that closes a block.

ada_norm: norm(x) * (1 + scale) + shift        gate_add: x + y * gate
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from .linear import broadcasts
from .rms_norm import refuses_triton

Kind = Literal["layer", "rms"]


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    dtype: torch.dtype
    device: str
    kind: str
    precision: str = "exact"


def ada_norm(
    x: Tensor,
    shift: Tensor | None,
    scale: Tensor | None,
    eps: float = 1e-6,
    *,
    kind: Kind = "layer",
    backend: str | None = None,
) -> Tensor:
    """Normalize the last dimension, then scale by 1 + ``scale`` and add ``shift``; in float32 at least.

    Args:
        x: (B, S, N), float, any strides.
        shift: Float, (B, N), or anything that broadcasts to (B, S, N); none is 0.
        scale: Likewise.
        eps: Added to the variance (mean square for ``rms``).
        kind: ``layer`` subtracts the mean first.
        backend: Name of the back end to use.

    Returns:
        (B, S, N) in the dtype of x.
    """
    shapes = None if shift is None else shift.shape, None if scale is None else scale.shape
    out: Tensor = OP.pick((x.shape, x.dtype, x.device, *shapes, kind), backend).fn(
        x, _rows(shift), _rows(scale), eps, kind
    )
    return out


def _rows(t: Tensor | None) -> Tensor | None:
    """Insert the sequence axis: (B, N) -> (B, 1, N)."""
    return t[:, None] if t is not None and t.ndim == 2 else t


def _describe(key: Any) -> Signature:
    shape, dtype, device, shift, scale, kind = key
    if len(shape) != 3 or not dtype.is_floating_point:
        raise KernelError(f"ada_norm: needs a float (B, S, N), not {dtype} {tuple(shape)}")
    for name, part in (("shift", shift), ("scale", scale)):
        if part is not None and not broadcasts((part[0], 1, part[1]) if len(part) == 2 else part, shape):
            raise KernelError(f"ada_norm: {name} {tuple(part)} does not fit x {tuple(shape)}")
    if kind not in ("layer", "rms"):
        raise KernelError(f"ada_norm: kind is layer or rms, not {kind!r}")
    return Signature(tuple(shape), dtype, device.type, kind)


def reference(x: Tensor, shift: Tensor | None, scale: Tensor | None, eps: float, kind: Kind) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    if kind == "layer":
        wide = wide - wide.mean(-1, keepdim=True)
    y = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    if scale is not None:
        y = y * (1 + scale.to(y))
    if shift is not None:
        y = y + shift.to(y)
    return y.to(x.dtype)


def fused(x: Tensor, shift: Tensor | None, scale: Tensor | None, eps: float, kind: Kind) -> Tensor:
    """PyTorch's norms; in float32 where another rounding would be added."""
    wide = x.float() if x.dtype.itemsize == 2 else x
    norm = torch.nn.functional.layer_norm if kind == "layer" else torch.nn.functional.rms_norm
    y = norm(wide, x.shape[-1:], eps=eps)
    if scale is not None:
        y = y * (1 + scale.to(y))
    if shift is not None:
        y = y + shift.to(y)
    return y.to(x.dtype)


def _triton(x: Tensor, shift: Tensor | None, scale: Tensor | None, eps: float, kind: Kind) -> Tensor:
    from ..backends.triton.norms import ada_norm

    return ada_norm(x, shift, scale, eps, kind)


class GateSignature(NamedTuple):
    """Signature of a call of ``gate_add``, for the choice of a back end."""

    x: tuple[int, ...]
    dtype: torch.dtype
    device: str
    precision: str = "exact"


def gate_add(x: Tensor, y: Tensor, gate: Tensor, *, backend: str | None = None) -> Tensor:
    """Compute x + y * gate, rounded once.

    Args:
        x: (B, S, N), float, any strides.
        y: Like x.
        gate: Float, (B, N), or anything that broadcasts to (B, S, N).
        backend: Name of the back end to use.

    Returns:
        (B, S, N) in the dtype of x.
    """
    key = (x.shape, x.dtype, x.device, y.shape, gate.shape)
    out: Tensor = GATE_ADD.pick(key, backend).fn(x, y, _rows(gate))
    return out


def _describe_gate(key: Any) -> GateSignature:
    shape, dtype, device, other, gate = key
    fits = broadcasts((gate[0], 1, gate[1]) if len(gate) == 2 else gate, shape)
    if len(shape) != 3 or not dtype.is_floating_point or other != shape or not fits:
        raise KernelError(f"gate_add: x {dtype} {tuple(shape)}, y {tuple(other)} and gate {tuple(gate)} do not fit")
    return GateSignature(tuple(shape), dtype, device.type)


def reference_gate(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    return (x.to(work) + y.to(work) * gate.to(work)).to(x.dtype)


def fused_gate(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    """One pass of torch, which computes in float32."""
    if y.dtype != x.dtype or gate.dtype != x.dtype:
        return reference_gate(x, y, gate)
    return torch.addcmul(x, y, gate)


def _triton_gate(x: Tensor, y: Tensor, gate: Tensor) -> Tensor:
    from ..backends.triton.norms import gate_add

    return gate_add(x, y, gate)


def _refuses_gate(s: GateSignature) -> str:
    return "computes in float32" if s.dtype == torch.float64 else available.refuses(s.device)


OP = define(
    Op(
        "ada_norm",
        _describe,
        lambda device, dtype: Signature((1, 4096, 3072), getattr(torch, dtype), device, "layer"),
    )
)
GATE_ADD = define(
    Op(
        "gate_add",
        _describe_gate,
        lambda device, dtype: GateSignature((1, 4096, 3072), getattr(torch, dtype), device),
    )
)
register(Backend("ada_norm", "reference", reference, rank=lambda s: 0))
register(Backend("ada_norm", "torch", fused, rank=lambda s: 10))
register(
    Backend(
        "ada_norm",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=refuses_triton,
        missing=available.missing,
    )
)
register(Backend("gate_add", "reference", reference_gate, rank=lambda s: 0))
register(Backend("gate_add", "torch", fused_gate, rank=lambda s: 10))
register(
    Backend(
        "gate_add",
        "triton",
        _triton_gate,
        rank=lambda s: available.rank(5),  # torch makes one pass as well
        refuses=_refuses_gate,
        missing=available.missing,
    )
)
