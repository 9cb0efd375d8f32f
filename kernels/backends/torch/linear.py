"""``linear`` in torch: its definition, torch's fastest way, and packed weights on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from pipegraph.kernels.weights.hadamard import rotate
from pipegraph.kernels.weights.linear_values import Activation, LowRank, PackedWeight, Signature

if TYPE_CHECKING:
    from pipegraph.kernels.weights.qweight import QWeight


def _plain(weight: Tensor | PackedWeight, dtype: torch.dtype) -> Tensor:
    return _as(weight, dtype) if isinstance(weight, Tensor) else weight.dequantize(dtype)


def _as(t: Tensor, dtype: torch.dtype) -> Tensor:
    return t if t.dtype is dtype else t.to(dtype)  # even a `to` that does nothing takes 2 us


def activate(y: Tensor, act: Activation | None) -> Tensor:
    """Apply an activation."""
    if act is None:
        return y
    return F.silu(y) if act == "silu" else F.gelu(y, approximate="tanh")


def finish(y: Tensor, act: Activation | None, gate: Tensor | None, residual: Tensor | None) -> Tensor:
    """Apply activation, gate and residual in the dtype of y."""
    y = activate(y, act)
    if gate is not None:
        y = y * _as(gate, y.dtype)
    return y if residual is None else y + _as(residual, y.dtype)


def reference(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide = x.to(work)
    y = wide @ _plain(weight, work).T
    return _finish_wide(y, wide, bias, side_paths(None, low_rank), act, gate, residual).to(x.dtype)


def _finish_wide(
    y: Tensor,
    x: Tensor,
    bias: Tensor | None,
    parts: list[LowRank],
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    if bias is not None:
        y = y + bias.to(y)
    for part in parts:
        y = y + (x @ part.down.to(y).T) @ part.up.to(y).T
    return finish(y, act, gate, residual)


def gemm(
    x: Tensor,
    weight: Tensor | PackedWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """PyTorch's matrix product in the dtype of x; a quantized weight is unpacked for it."""
    added = None if bias is None else _as(bias, x.dtype)
    if isinstance(weight, Tensor):
        y, parts = product(x, _as(weight, x.dtype), added), side_paths(None, low_rank)
    elif getattr(weight, "layout", None) is None:
        y, parts = product(x, weight.dequantize(x.dtype), added), side_paths(None, low_rank)
    else:  # x is turned, not the weight: x has fewer elements, or is as large
        q: QWeight = weight  # type: ignore[assignment]
        turned = x if q.rotate is None else rotate(x, q.rotate).to(x.dtype)
        y, parts = _unpacked(turned, q, added), side_paths(q, low_rank)
    for part in parts:
        y = y + product(product(x, part.down.to(x)), part.up.to(x))
    return finish(y, act, gate, residual)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``F.linear`` whose bytes do not depend on the number of threads of a CPU.

    MKL sums 4 to 15 rows of small products in an order that depends on it, on which rows depends on the CPU; 16 rows it
    does not: zeros are added up to that. Of large products, and on CPUs without AVX-512, more depends on it.
    """
    rows = x.numel() // max(x.shape[-1], 1)
    if x.device.type != "cpu" or x.dtype != torch.float32 or not 3 < rows < 16:
        return F.linear(x, weight, bias)
    padded = F.pad(x.reshape(rows, -1), (0, 0, 0, 16 - rows))
    return F.linear(padded, weight, bias)[:rows].view(*x.shape[:-1], -1)


_LARGE, _PART = 1 << 22, 1 << 18
"""Elements above which a weight is unpacked in parts on a CPU, and elements of a part."""


def _unpacked(x: Tensor, weight: QWeight, bias: Tensor | None) -> Tensor:
    """Multiply x with the codes; on a CPU a large weight is unpacked in parts that fit the cache."""
    n, k = weight.shape
    if not x.is_cpu or n * k <= _LARGE:
        return F.linear(x, weight.codes(x.dtype), bias)
    y = x.new_empty(*x.shape[:-1], n)
    step = max(1, _PART // k)
    for start in range(0, n, step):
        part = slice(start, start + step)
        y[..., part] = F.linear(x, weight.rows(part).codes(x.dtype), None if bias is None else bias[part])
    return y


def few_rows(
    x: Tensor,
    weight: Tensor | QWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """GEMV on a CPU with packed codes or float32, for decoding a few tokens."""
    n, k = weight.shape
    q: QWeight | None = None
    if isinstance(weight, Tensor):
        if not weight.is_contiguous() or recorded(x, weight):
            return gemm(x, weight, bias, low_rank, act, gate, residual)
        from pipegraph.kernels.backends.cpu import plain

        y = plain.product(x.reshape(-1, k), weight)
    else:
        from pipegraph.kernels.backends.cpu.few_rows import product

        q, y = weight, product(x.reshape(-1, k), weight)
    y = y.view(*x.shape[:-1], n)
    more = bias is not None or low_rank is not None or (q is not None and q.low_rank is not None)
    if not (more or act or gate is not None or residual is not None):  # a token has hundreds of such products
        return _as(y, x.dtype)
    return _finish_wide(y, x.float(), bias, side_paths(q, low_rank), act, gate, residual).to(x.dtype)


def recorded(*tensors: Tensor | None) -> bool:
    """Whether torch records operations on these tensors for autograd."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def refuses_few_rows(s: Signature) -> str:
    if s.device != "cpu" or s.dtype == torch.float64:
        return "is for float32 and narrower on a CPU"
    if s.stored == s.dtype == torch.float32:
        return ""
    if s.layout is None:
        return "reads float32 and packed q8 and w4 weights"
    if s.layout.group and (s.layout.group % 32 or s.layout.group & (s.layout.group - 1)):
        return f"reads groups of 32, 64, 128, ... columns, not {s.layout.group}"
    return "" if s.format in ("q8", "w4") else f"reads q8 and w4, not {s.format}"


def joined(weight: QWeight, low_rank: LowRank | None) -> LowRank | None:
    """Concatenate the low-rank parts of a weight and of a call; ranks add up."""
    parts = side_paths(weight, low_rank)
    return LowRank.stack(parts) if parts else None


def side_paths(weight: QWeight | None, low_rank: LowRank | None) -> list[LowRank]:
    """The low-rank parts of a weight and of a call, kept apart so that zeros change no bit."""
    own = None if weight is None else weight.low_rank
    return [part for part in (own, low_rank) if part is not None]


def w8a8(
    x: Tensor,
    weight: QWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """The definition of 8-bit weights times 8-bit inputs.

    Rows of x, rotated as the weight is, are quantized as ``quantize_rows`` does. Products are summed without rounding;
    all else is in float32. The low-rank part gets x unquantized.
    """
    from pipegraph.kernels.ops.quantize_rows import reference as quantize

    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = quantize(x, "int8" if weight.format == "q8" else "fp8", weight.rotate)
    y = rows.data.double() @ weight.data.double().T
    y = (y.to(work) * rows.scale[..., None].to(work)) * weight.scale.to(work)
    return _finish_wide(y, x.to(work), bias, side_paths(weight, low_rank), act, gate, residual).to(x.dtype)


def refuses_w8a8(s: Signature) -> str:
    """Why a call does not support 8-bit inputs."""
    if s.layout is None or s.format not in ("q8", "fp8") or s.layout.group:
        return "needs a q8 or fp8 weight with a scale a row or one for all"
    if s.layout.dtype == torch.float8_e5m2:
        return "takes e4m3fn, not e5m2"
    return ""
