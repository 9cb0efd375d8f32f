"""x @ W.T + bias with a low-rank side path: the one matrix product that every network layer goes through.

    y = act(x @ W.T + bias + (x @ down.T) @ up.T) * gate + residual

The side path is how a LoRA is applied: W is never edited, so it may be memory-mapped or quantized. It is also the
low-rank branch of quantized formats.

A back end is a function ``fn(x, weight, bias, low_rank, act, gate, residual)``. It gives what :func:`reference` gives;
a `reduced` one may also quantize x, as :func:`w8a8` defines it. A packed weight of a format that it does not know it
unpacks with ``dequantize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from .dispatch import Backend, KernelError, Op, define, register
from .hadamard import rotate
from .triton import available

if TYPE_CHECKING:
    from .qweight import Layout, QWeight

Activation = Literal["silu", "gelu_tanh"]


@dataclass(frozen=True, eq=False, slots=True)
class LowRank:
    """A low-rank addition to a weight: up @ down, strengths folded into ``up``."""

    down: Tensor
    """(R, K)"""
    up: Tensor
    """(N, R)"""

    @property
    def rank(self) -> int:
        return self.down.shape[0]

    @staticmethod
    def stack(parts: Sequence[LowRank]) -> LowRank:
        """The sum of several, as one whose rank is the sum of theirs."""
        if len(parts) == 1:
            return parts[0]
        return LowRank(torch.cat([p.down for p in parts]), torch.cat([p.up for p in parts], 1))


@runtime_checkable
class PackedWeight(Protocol):
    """A weight kept in a packed format; a back end that knows ``format`` reads its buffers, any other unpacks it."""

    @property
    def format(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K) of the weight it stands for."""
        ...

    @property
    def device(self) -> torch.device: ...

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """The weight (N, K) in a float dtype."""
        ...


class Signature(NamedTuple):
    """What a back end may decide on."""

    x: tuple[int, ...]
    weight: tuple[int, int]
    dtype: torch.dtype
    """Of x and of the result."""
    format: str
    """``plain`` for a tensor, else the packed format."""
    stored: torch.dtype | None
    """Dtype of a plain weight; None if packed."""
    layout: Layout | None
    """How a ``QWeight`` is laid out; None for any other weight."""
    device: str
    bias: bool
    rank: int
    """Of the low-rank side path, 0 if none."""
    act: str | None
    gate: tuple[int, ...] | None
    residual: bool
    precision: str

    @property
    def rows(self) -> int:
        """Rows of x in all."""
        return prod(self.x[:-1])


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
        KernelError: shapes or dtypes that do not fit, or an asked-for back end that cannot serve.
    """
    key = (
        x.shape, x.dtype, x.device, weight.shape,
        weight.dtype if isinstance(weight, Tensor) else (weight.format, getattr(weight, "layout", None)),
        None if bias is None else bias.shape, low_rank and (low_rank.down.shape, low_rank.up.shape), act,
        None if gate is None else gate.shape, None if residual is None else residual.shape, precision,
    )  # fmt: skip
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
        tuple(x), tuple(weight), dtype, format, stored, layout, device.type, bias is not None,
        low_rank[0][0] if low_rank else 0, act, gate and tuple(gate), residual is not None, precision,
    )  # fmt: skip


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a tensor of a shape broadcasts to another without making it larger."""
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _sample(device: str, dtype: str) -> Signature:
    kind = getattr(torch, dtype)
    return Signature(
        (1, 4096, 3072), (3072, 3072), kind, "plain", kind, None, device, True, 0, None, None, False, "exact"
    )  # fmt: skip


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
    """What comes after the product, in the dtype of y."""
    y = activate(y, act)
    if gate is not None:
        y = y * _as(gate, y.dtype)
    return y if residual is None else y + _as(residual, y.dtype)


def reference(
    x: Tensor, weight: Tensor | PackedWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    """The definition in float32 (float64 for float64), rounded once at the end."""
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide = x.to(work)
    y = wide @ _plain(weight, work).T
    return _finish_wide(y, wide, bias, side_paths(None, low_rank), act, gate, residual).to(x.dtype)


def _finish_wide(
    y: Tensor, x: Tensor, bias: Tensor | None, parts: list[LowRank], act: Activation | None, gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:  # fmt: skip
    if bias is not None:
        y = y + bias.to(y)
    for part in parts:
        y = y + (x @ part.down.to(y).T) @ part.up.to(y).T
    return finish(y, act, gate, residual)


def gemm(
    x: Tensor, weight: Tensor | PackedWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    """torch's matrix product in the dtype of x; a quantized weight is unpacked for it."""
    added = None if bias is None else _as(bias, x.dtype)
    if isinstance(weight, Tensor):
        y, parts = F.linear(x, _as(weight, x.dtype), added), side_paths(None, low_rank)
    elif getattr(weight, "layout", None) is None:
        y, parts = F.linear(x, weight.dequantize(x.dtype), added), side_paths(None, low_rank)
    else:  # x is turned, not the weight: x has fewer elements, or is as large
        q: QWeight = weight  # type: ignore[assignment]
        turned = x if q.rotate is None else rotate(x, q.rotate).to(x.dtype)
        y, parts = _unpacked(turned, q, added), side_paths(q, low_rank)
    for part in parts:
        y = y + F.linear(F.linear(x, part.down.to(x)), part.up.to(x))
    return finish(y, act, gate, residual)


_LARGE, _PART = 1 << 22, 1 << 18
"""Elements: of a weight that is unpacked in parts on a CPU, and of a part."""


def _unpacked(x: Tensor, weight: QWeight, bias: Tensor | None) -> Tensor:
    """x times the codes; on a CPU a large weight is unpacked a part at a time, into memory that stays in the cache."""
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
    x: Tensor, weight: QWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    """On a CPU, the codes as they are packed: for decoding a token or a few."""
    from .cpu.few_rows import product

    n, k = weight.shape
    y = product(x.reshape(-1, k), weight).view(*x.shape[:-1], n)
    return _finish_wide(y, x.float(), bias, side_paths(weight, low_rank), act, gate, residual).to(x.dtype)


def _refuses_few_rows(s: Signature) -> str:
    if s.device != "cpu" or s.dtype == torch.float64:
        return "is for float32 and narrower on a CPU"
    if s.layout is None:
        return "reads packed q8 and w4 weights"
    if s.layout.group and (s.layout.group % 32 or s.layout.group & (s.layout.group - 1)):
        return f"reads groups of 32, 64, 128, ... columns, not {s.layout.group}"
    return "" if s.format in ("q8", "w4") else f"reads q8 and w4, not {s.format}"


def _no_numba() -> str:
    return "" if find_spec("numba") else "numba is not installed"


def joined(weight: QWeight, low_rank: LowRank | None) -> LowRank | None:
    """The low-rank part of a weight and that of a call, as one of the sum of their ranks."""
    parts = side_paths(weight, low_rank)
    return LowRank.stack(parts) if parts else None


def side_paths(weight: QWeight | None, low_rank: LowRank | None) -> list[LowRank]:
    """The low-rank part of a weight, if it has one, and that of a call: apart, so that one of zeros changes no bit."""
    own = None if weight is None else weight.low_rank
    return [part for part in (own, low_rank) if part is not None]


def w8a8(
    x: Tensor, weight: QWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    """The definition of 8-bit weights times 8-bit inputs.

    Rows of x, rotated as the weight is, are quantized as ``quantize_rows`` does. Products are summed without rounding;
    all else is in float32. The low-rank part gets x as it is.
    """
    from .quantize_rows import reference as quantize

    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    rows = quantize(x, "int8" if weight.format == "q8" else "fp8", weight.rotate)
    y = rows.data.double() @ weight.data.double().T
    y = (y.to(work) * rows.scale[..., None].to(work)) * weight.scale.to(work)
    return _finish_wide(y, x.to(work), bias, side_paths(weight, low_rank), act, gate, residual).to(x.dtype)


def refuses_w8a8(s: Signature) -> str:
    """Why 8-bit inputs are not for a call."""
    if s.layout is None or s.format not in ("q8", "fp8") or s.layout.group:
        return "needs a q8 or fp8 weight with a scale a row or one for all"
    if s.layout.dtype == torch.float8_e5m2:
        return "takes e4m3fn, not e5m2"
    return ""


def _triton(
    x: Tensor, weight: Tensor | PackedWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    from .triton.linear_weights import linear

    return linear(x, weight, bias, low_rank, act, gate, residual)


def _refuses_triton(s: Signature) -> str:
    if s.dtype == torch.float64 or s.stored == torch.float64:
        return "computes in float32"
    if not s.stored and not s.layout:
        return f"cannot read a weight of the format {s.format}"
    if s.format == "q8" and s.layout and s.layout.group and s.layout.group % 32:
        return "needs groups of a multiple of 32"
    return available.refuses(s.device)


def _rank_triton(s: Signature) -> float:
    """Unpacking on the way saves what few rows wait for, memory; many rows are faster through torch's own product."""
    return available.rank(20 if s.layout and s.rows <= 1024 else 5)


def _triton_w8a8(
    x: Tensor, weight: QWeight, bias: Tensor | None, low_rank: LowRank | None, act: Activation | None,
    gate: Tensor | None, residual: Tensor | None,
) -> Tensor:  # fmt: skip
    from .triton.linear_q8 import linear

    return linear(x, weight, bias, low_rank, act, gate, residual)


def _refuses_triton_w8a8(s: Signature) -> str:
    if s.dtype == torch.float64:
        return "computes in float32"
    if reason := refuses_w8a8(s) or available.refuses(s.device):
        return reason
    return without_e4m3() if s.format == "fp8" else ""


def without_e4m3() -> str:
    """Why kernels on the current device cannot make or multiply float8 e4m3fn; empty if they can."""
    arch = available.architecture()
    has = int(arch[3:]) >= 89 if arch.startswith("sm_") else arch.startswith((available.INTERPRETER, "gfx95", "gfx12"))
    return "" if has else f"{arch} has no e4m3fn"


def _rank_triton_w8a8(s: Signature) -> float:
    """Pays where the product is the bottleneck, not memory."""
    return available.rank(30 if s.rows > 256 else 15)


OP = define(Op("linear", _describe, _sample))
register(Backend("linear", "reference", reference, rank=lambda s: 0))
register(Backend("linear", "torch", gemm, rank=lambda s: 10))
register(
    Backend("linear", "reference-w8a8", w8a8, rank=lambda s: -1, refuses=refuses_w8a8, numerics="reduced")
)  # fmt: skip
register(
    Backend(
        "linear", "few-rows", few_rows, rank=lambda s: 20 if s.rows <= 16 else 5, refuses=_refuses_few_rows,
        missing=_no_numba,
    )
)  # fmt: skip
register(
    Backend("linear", "triton", _triton, rank=_rank_triton, refuses=_refuses_triton, missing=available.missing)
)  # fmt: skip
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
