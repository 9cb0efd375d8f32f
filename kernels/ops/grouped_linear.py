"""A linear layer for each expert: rows sorted by expert, one weight for each run of rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..backends.torch.linear import gemm
from ..backends.torch.linear import reference as linear_reference
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from ..weights.linear_values import Activation, PackedWeight
from .linear import linear

if TYPE_CHECKING:
    from ..weights.qweight import Layout

Weights: TypeAlias = Tensor | Sequence[PackedWeight]


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    x: tuple[int, ...]
    weight: tuple[int, int, int]
    """(E, N, K)"""
    dtype: torch.dtype
    format: str
    """``plain`` for a tensor, else the packed format."""
    stored: torch.dtype | None
    layout: Layout | None
    device: str
    bias: bool
    act: str | None
    precision: str = "exact"


def grouped_linear(
    x: Tensor,
    weights: Weights,
    offsets: Tensor,
    bias: Tensor | None = None,
    *,
    act: Activation | None = None,
    backend: str | None = None,
) -> Tensor:
    """Compute act(x @ W[e].T + bias[e]) for the rows offsets[e] .. offsets[e + 1] of each expert e.

    Args:
        x: (T, K), float, sorted by expert.
        weights: (E, N, K), float, or E packed weights (N, K) of one format.
        offsets: (E + 1,), int32, non-decreasing, in 0..T. Rows outside of all runs give 0.
        bias: (E, N).
        act: As in ``linear``.
        backend: Name of the back end to use.

    Returns:
        (T, N) in the dtype of x.
    """
    kind: Any
    if isinstance(weights, Tensor):
        shape, kind = tuple(weights.shape), weights.dtype
    else:
        shape = (len(weights), *(tuple(weights[0].shape) if weights else (0, 0)))
        kinds = {(w.format, tuple(w.shape), getattr(w, "layout", None)) for w in weights}
        if len(kinds) != 1:
            raise KernelError("grouped_linear: packed weights must be of one shape and format")
        kind = next(iter(kinds))
    key = (
        x.shape,
        x.dtype,
        x.device,
        shape,
        kind,
        offsets.shape,
        offsets.dtype,
        None if bias is None else bias.shape,
        act,
    )
    out: Tensor = OP.pick(key, backend).fn(x, weights, offsets, bias, act)
    return out


def _describe(key: Any) -> Signature:
    x, dtype, device, weight, kind, offsets, integer, bias, act = key
    if len(x) != 2 or len(weight) != 3 or x[1] != weight[2] or not dtype.is_floating_point:
        raise KernelError(f"grouped_linear: x {dtype} {tuple(x)} does not fit weights (E, N, K) = {tuple(weight)}")
    if tuple(offsets) != (weight[0] + 1,) or integer != torch.int32:
        raise KernelError(f"grouped_linear: offsets {integer} {tuple(offsets)} are no int32 for {weight[0]} experts")
    if bias is not None and tuple(bias) != tuple(weight[:2]):
        raise KernelError(f"grouped_linear: bias {tuple(bias)} does not fit weights {tuple(weight)}")
    stored = kind if isinstance(kind, torch.dtype) else None
    if stored and not stored.is_floating_point:
        raise KernelError(f"grouped_linear: {stored} tensors are no weights by themselves; their scales are missing")
    format, layout = ("plain", None) if stored else (kind[0], kind[2])
    return Signature(tuple(x), weight, dtype, format, stored, layout, device.type, bias is not None, act)


def reference(x: Tensor, weights: Weights, offsets: Tensor, bias: Tensor | None, act: Activation | None) -> Tensor:
    """The definition: the reference of ``linear`` for each expert."""
    return _each(linear_reference, x, weights, offsets, bias, act)


def each(x: Tensor, weights: Weights, offsets: Tensor, bias: Tensor | None, act: Activation | None) -> Tensor:
    """One matrix product for each expert that has rows: torch's, or of a packed weight what ``linear`` chooses."""
    return _each(gemm if isinstance(weights, Tensor) else _chosen, x, weights, offsets, bias, act)


def _chosen(x: Tensor, weight: PackedWeight, bias: Tensor | None, _: Any, act: Activation | None, *__: Any) -> Tensor:
    return linear(x, weight, bias, act=act)


def _each(
    product: Any, x: Tensor, weights: Weights, offsets: Tensor, bias: Tensor | None, act: Activation | None
) -> Tensor:
    n = weights.shape[1] if isinstance(weights, Tensor) else weights[0].shape[0]
    out = x.new_zeros(x.shape[0], n)
    bounds = offsets.tolist()
    for e, (start, end) in enumerate(pairwise(bounds)):
        if end > start:
            row = None if bias is None else bias[e]
            out[start:end] = product(x[start:end], weights[e], row, None, act, None, None)
    return out


def _triton(x: Tensor, weights: Weights, offsets: Tensor, bias: Tensor | None, act: Activation | None) -> Tensor:
    from ..backends.triton.linear_weights import grouped

    assert isinstance(weights, Tensor)
    return grouped(x, weights, offsets, bias, act)


def _refuses_triton(s: Signature) -> str:
    if s.stored != s.dtype or s.dtype == torch.float64:
        return "takes plain weights in the dtype of x, not float64"
    return available.refuses(s.device)


def _sample(device: str, dtype: str) -> Signature:
    kind = getattr(torch, dtype)
    return Signature((4096, 2048), (64, 1408, 2048), kind, "plain", kind, None, device, False, None)


OP = define(Op("grouped_linear", _describe, _sample))
register(Backend("grouped_linear", "reference", reference, rank=lambda s: 0))
register(Backend("grouped_linear", "torch", each, rank=lambda s: 10))
register(
    Backend(
        "grouped_linear",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
