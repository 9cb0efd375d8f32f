"""x @ W.T + bias with a low-rank side path: the one matrix product that every network layer goes through.

    y = act(x @ W.T + bias + (x @ down.T) @ up.T) * gate + residual

The side path is how a LoRA is applied: W is never edited, so it may be memory-mapped or quantized. It is also the
low-rank branch of quantized formats.

A back end is a function ``fn(x, weight, bias, low_rank, act, gate, residual)``. It gives what
``backends.torch.linear.reference`` gives; a `reduced` one may also quantize x, as
``backends.torch.linear.w8a8`` defines it. It unpacks weights of unknown formats
with ``dequantize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import torch
from torch import Tensor

from ..backends import cpu
from ..backends.torch.linear import few_rows, gemm, reference, refuses_few_rows, refuses_w8a8, w8a8
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from ..weights.linear_values import Activation, LowRank, PackedWeight, Signature

if TYPE_CHECKING:
    from ..weights.qweight import QWeight

__all__ = ["Activation", "LowRank", "PackedWeight", "Signature", "linear"]


def linear(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None = None,
    *,
    low_rank: LowRank | None = None,
    act: Activation | None = None,
    gate: Tensor | None = None,
    residual: Tensor | None = None,
    precision: str = "exact",
    backend: str | None = None,
) -> Tensor:
    """Apply a linear layer.

    Args:
        x: (..., K), float, any strides.
        weight: (N, K), a tensor of any float dtype (cast to that of x as it is used) or a packed weight.
        bias: (N,).
        low_rank: Added to the weight as a side path; cast to the dtype of x.
        act: Applied to all of that.
        gate: Then multiplied by; float, broadcasts to (..., N).
        residual: Then added; float, (..., N).
        precision: ``fast`` allows back ends that quantize x.
        backend: Name of the back end to use.

    Returns:
        (..., N) in the dtype of x.

    Raises:
        KernelError: invalid shapes or dtypes, or a requested back end that does not support the call.
    """
    key = (
        x.shape,
        x.dtype,
        x.device,
        weight.shape,
        weight.dtype if isinstance(weight, Tensor) else (weight.format, getattr(weight, "layout", None)),
        None if bias is None else bias.shape,
        low_rank and (low_rank.down.shape, low_rank.up.shape),
        act,
        None if gate is None else gate.shape,
        None if residual is None else residual.shape,
        precision,
    )
    out: Tensor = OP.pick(key, backend).fn(x, weight, bias, low_rank, act, gate, residual)
    return out


def _describe(key: Any) -> Signature:
    """Check a call and describe it to the back ends."""
    x, dtype, device, weight, kind, bias, low_rank, act, gate, residual, precision = key
    if len(weight) != 2 or not x or x[-1] != weight[1]:
        raise KernelError(f"linear: x {tuple(x)} does not fit a weight (N, K) = {tuple(weight)}")
    if not dtype.is_floating_point:
        raise KernelError(f"linear: x must be float, not {dtype}")
    stored = kind if isinstance(kind, torch.dtype) else None
    if stored and not stored.is_floating_point:
        raise KernelError(f"linear: a {stored} tensor is no weight by itself; its scales are missing")
    if bias is not None and tuple(bias) != (weight[0],):
        raise KernelError(f"linear: bias {tuple(bias)} does not fit {weight[0]} outputs")
    if low_rank:
        (rank, k), (n, rank2) = low_rank
        if (n, k) != tuple(weight) or rank != rank2:
            raise KernelError(f"linear: low rank {tuple(low_rank[1])} x {tuple(low_rank[0])} is no {tuple(weight)}")
    if act not in (None, *get_args(Activation)):
        raise KernelError(f"linear: there is no activation {act!r}; there are {', '.join(get_args(Activation))}")
    out = (*x[:-1], weight[0])
    if gate is not None and not broadcasts(gate, out):
        raise KernelError(f"linear: gate {tuple(gate)} does not broadcast to the result {out}")
    if residual is not None and tuple(residual) != out:
        raise KernelError(f"linear: residual {tuple(residual)} is not of the shape of the result {out}")
    if precision not in ("exact", "fast"):
        raise KernelError(f"linear: precision is `exact` or `fast`, not {precision!r}")
    format, layout = ("plain", None) if stored else kind
    return Signature(
        tuple(x),
        tuple(weight),
        dtype,
        format,
        stored,
        layout,
        device.type,
        bias is not None,
        low_rank[0][0] if low_rank else 0,
        act,
        gate and tuple(gate),
        residual is not None,
        precision,
    )


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of a shape broadcasts to another without making it larger."""
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _sample(device: str, dtype: str) -> Signature:
    kind = getattr(torch, dtype)
    return Signature(
        (1, 4096, 3072), (3072, 3072), kind, "plain", kind, None, device, True, 0, None, None, False, "exact"
    )


def _triton(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    from ..backends.triton.linear_weights import linear

    return linear(x, weight, bias, low_rank, act, gate, residual)


def _rank_few_rows(s: Signature) -> float:
    """A small plain weight is not worth loading the compiled kernels."""
    few = s.rows <= cpu.FEW if s.layout else s.rows <= cpu.FEW_PLAIN and s.weight[0] * s.weight[1] >= cpu.LARGE
    return 20 if few else 5


def _refuses_triton(s: Signature) -> str:
    if s.dtype == torch.float64 or s.stored == torch.float64:
        return "computes in float32"
    if not s.stored and not s.layout:
        return f"cannot read a weight of the format {s.format}"
    if s.format == "q8" and s.layout and s.layout.group and s.layout.group % 32:
        return "needs groups of a multiple of 32"
    return available.refuses(s.device) or available.refuses_rotation(s.layout.rotate if s.layout else None)


def _rank_triton(s: Signature) -> float:
    """Unpacking on the fly saves memory traffic for few rows; many rows are faster with torch's product."""
    return available.rank(20 if s.layout and s.rows <= 1024 else 5)


def _triton_w8a8(
    x: Tensor,
    weight: QWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    from ..backends.triton.linear_q8 import linear

    return linear(x, weight, bias, low_rank, act, gate, residual)


def _refuses_triton_w8a8(s: Signature) -> str:
    if s.dtype == torch.float64:
        return "computes in float32"
    rotate = s.layout.rotate if s.layout else None
    if reason := refuses_w8a8(s) or available.refuses(s.device) or available.refuses_rotation(rotate):
        return reason
    return available.without_e4m3() if s.format == "fp8" else ""


def _rank_triton_w8a8(s: Signature) -> float:
    """Pays where the product is the bottleneck, not memory."""
    return available.rank(30 if s.rows > 256 else 15)


OP = define(Op("linear", _describe, _sample))
register(Backend("linear", "reference", reference, rank=lambda s: 0))
register(Backend("linear", "torch", gemm, rank=lambda s: 10))
register(Backend("linear", "reference-w8a8", w8a8, rank=lambda s: -1, refuses=refuses_w8a8, numerics="reduced"))
register(Backend("linear", "few-rows", few_rows, rank=_rank_few_rows, refuses=refuses_few_rows, missing=cpu.missing))
register(Backend("linear", "triton", _triton, rank=_rank_triton, refuses=_refuses_triton, missing=available.missing))
register(
    Backend(
        "linear",
        "triton-w8a8",
        _triton_w8a8,
        rank=_rank_triton_w8a8,
        refuses=_refuses_triton_w8a8,
        missing=available.missing,
        numerics="reduced",
    )
)
