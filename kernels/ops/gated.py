"""Gated activations (arXiv 2002.05202): swiglu is silu(gate) * value, geglu is gelu(gate) * value."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    dtype: torch.dtype
    device: str
    tanh: bool
    precision: str = "exact"


def swiglu(gate: Tensor, value: Tensor, *, backend: str | None = None) -> Tensor:
    """Compute silu(gate) * value, in float32 at least, rounded once.

    Args:
        gate: (..., N), float, any strides: also one half of a wider tensor.
        value: Likewise.
        backend: Name of the back end to use.

    Returns:
        (..., N) in the dtype of the inputs, contiguous.
    """
    key = (gate.shape, gate.dtype, gate.device, value.shape, value.dtype, "swiglu", False)
    out: Tensor = SWIGLU.pick(key, backend).fn(gate, value)
    return out


def geglu(gate: Tensor, value: Tensor, *, tanh: bool = True, backend: str | None = None) -> Tensor:
    """Compute gelu(gate) * value, like :func:`swiglu`; ``tanh`` is the approximation, else exact by erf."""
    key = (gate.shape, gate.dtype, gate.device, value.shape, value.dtype, "geglu", tanh)
    out: Tensor = GEGLU.pick(key, backend).fn(gate, value, tanh)
    return out


def _describe(key: Any) -> Signature:
    shape, dtype, device, other, dtype2, name, tanh = key
    if not shape or shape != other or dtype != dtype2 or not dtype.is_floating_point:
        raise KernelError(
            f"{name}: gate {dtype} {tuple(shape)} and value {dtype2} {tuple(other)} must be alike, and float"
        )
    return Signature(tuple(shape), dtype, device.type, tanh)


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)


def reference_swiglu(gate: Tensor, value: Tensor) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    wide = _wide(gate)
    return (wide / (1 + (-wide).exp()) * _wide(value)).to(gate.dtype).contiguous()


def reference_geglu(gate: Tensor, value: Tensor, tanh: bool) -> Tensor:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    wide = _wide(gate)
    if tanh:
        half = (1 + (0.7978845608028654 * (wide + 0.044715 * wide**3)).tanh()) / 2
    else:
        half = (1 + (wide * 0.5**0.5).erf()) / 2
    return (wide * half * _wide(value)).to(gate.dtype).contiguous()


def torch_swiglu(gate: Tensor, value: Tensor) -> Tensor:
    """PyTorch's silu and a product."""
    return F.silu(_wide(gate)).mul_(_wide(value)).to(gate.dtype).contiguous()


def torch_geglu(gate: Tensor, value: Tensor, tanh: bool) -> Tensor:
    """PyTorch's gelu and a product."""
    return F.gelu(_wide(gate), approximate="tanh" if tanh else "none").mul_(_wide(value)).to(gate.dtype).contiguous()


def _triton_swiglu(gate: Tensor, value: Tensor) -> Tensor:
    from ..backends.triton.gated import gated

    return gated(gate, value, "silu")


def _triton_geglu(gate: Tensor, value: Tensor, tanh: bool) -> Tensor:
    from ..backends.triton.gated import gated

    return gated(gate, value, "gelu_tanh" if tanh else "gelu")


def _refuses_triton(s: Signature) -> str:
    return "computes in float32" if s.dtype == torch.float64 else available.refuses(s.device)


def _sample(device: str, dtype: str) -> Signature:
    return Signature((1, 4096, 12288), getattr(torch, dtype), device, True)


SWIGLU = define(Op("swiglu", _describe, _sample))
GEGLU = define(Op("geglu", _describe, _sample))
for _op, _fns in (
    ("swiglu", (reference_swiglu, torch_swiglu, _triton_swiglu)),
    ("geglu", (reference_geglu, torch_geglu, _triton_geglu)),
):
    _plain, _torch, _fast = _fns
    register(Backend(_op, "reference", _plain, rank=lambda s: 0))
    register(Backend(_op, "torch", _torch, rank=lambda s: 10))
    register(
        Backend(
            _op,
            "triton",
            _fast,
            rank=lambda s: available.rank(20),
            refuses=_refuses_triton,
            missing=available.missing,
        )
    )
