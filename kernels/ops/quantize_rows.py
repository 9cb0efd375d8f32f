"""Quantize rows to 8 bits, each with its own scale, after an optional rotation that spreads outliers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from ..weights.hadamard import check_block, rotate
from ..weights.qweight import fp8_rows, int8_rows

Format = Literal["int8", "fp8"]


class QRows(NamedTuple):
    """Rows in 8 bits: data * scale[..., None]."""

    data: Tensor
    """(..., K), int8 of -127..127 or float8_e4m3fn, contiguous."""
    scale: Tensor
    """(...,), float32 (float64 if made from float64 by the reference)."""

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """(..., K) in a float dtype; a rotation stays."""
        work = torch.float64 if dtype == torch.float64 else torch.float32
        return (self.data.to(work) * self.scale.to(work)[..., None]).to(dtype)


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    dtype: torch.dtype
    device: str
    format: str
    rotate: int | None
    precision: str = "exact"


def quantize_rows(
    x: Tensor, format: Format = "int8", *, rotate: int | None = None, backend: str | None = None
) -> QRows:
    """Quantize over the last dimension: scale = largest magnitude / 127 (448 for fp8), value = round(x / scale).

    A row of zeros gets zeros and a small scale; NaN in a row gives a scale of NaN.

    Args:
        x: (..., K), float, any strides.
        format: ``int8`` or ``fp8`` (e4m3fn).
        rotate: Rotate blocks of so many columns first (``hadamard.rotate``).
        backend: Name of the back end to use.

    Raises:
        KernelError: no float tensor, or a block that does not divide K.
    """
    out: QRows = OP.pick((x.shape, x.dtype, x.device, format, rotate), backend).fn(x, format, rotate)
    return out


def _describe(key: Any) -> Signature:
    shape, dtype, device, format, block = key
    if not shape or not dtype.is_floating_point:
        raise KernelError(f"quantize_rows: needs a float (..., K), not {dtype} {tuple(shape)}")
    if format not in get_args(Format):
        raise KernelError(f"quantize_rows: there is no format {format!r}; there are {', '.join(get_args(Format))}")
    if block is not None:
        check_block(block, shape[-1])
    return Signature(tuple(shape), dtype, device.type, format, block)


def reference(x: Tensor, format: Format, block: int | None) -> QRows:
    """The definition; in float32 (float64 for float64), values rounded to even."""
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    if block is not None:
        wide = rotate(wide, block)
    return QRows(*(int8_rows(wide) if format == "int8" else fp8_rows(wide)))


def quantize(x: Tensor, format: Format, block: int | None) -> QRows:
    """The same in torch, in float32 always."""
    data, scale = reference(x.float(), format, block)
    return QRows(data.contiguous(), scale)


def _triton(x: Tensor, format: Format, block: int | None) -> QRows:
    from ..backends.triton.quantize import quantize_rows

    return QRows(*quantize_rows(x, format, block))


def _refuses_triton(s: Signature) -> str:
    if s.dtype == torch.float64:
        return "computes in float32"
    if reason := available.refuses(s.device) or (available.without_e4m3() if s.format == "fp8" else ""):
        return reason
    return available.refuses_rotation(s.rotate)


OP = define(
    Op(
        "quantize_rows",
        _describe,
        lambda device, dtype: Signature((4096, 3072), getattr(torch, dtype), device, "int8", None),
    )
)
register(Backend("quantize_rows", "reference", reference, rank=lambda s: 0))
register(Backend("quantize_rows", "torch", quantize, rank=lambda s: 10))
register(
    Backend(
        "quantize_rows",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
