"""Mixtures of experts on the op ``grouped_linear``, by transformers' registry; counts the tokens of each expert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pipegraph.kernels.grouped_linear import grouped_linear

NAME = "pipegraph_llm"
_counts: ContextVar[dict[int, Tensor] | None] = ContextVar("pipegraph_llm_experts", default=None)


@contextmanager
def counting(counts: dict[int, Tensor]) -> Iterator[None]:
    """Add the tokens of each expert up, by ``id`` of the layer, in this thread (context) only."""
    token = _counts.set(counts)
    try:
        yield
    finally:
        _counts.reset(token)


@cache
def register() -> None:
    """Make ``NAME`` known to transformers."""
    from transformers.integrations.moe import ExpertsInterface

    ExpertsInterface.register(NAME, forward)


def forward(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """(T, H) through the experts (T, k) that the router chose for each token, weighed and added up."""
    each = chosen.shape[-1]
    expert, order = chosen.reshape(-1).sort(stable=True)
    sizes = torch.bincount(expert, minlength=layer.num_experts)
    if (counts := _counts.get()) is not None:
        counts[id(layer)] = counts[id(layer)] + sizes if id(layer) in counts else sizes
    offsets = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).int()
    row = order // each
    up = "gate_up_proj" if layer.has_gate else "up_proj"
    x = _project(layer, up, hidden[row], offsets)
    x = layer._apply_gate(x) if layer.has_gate else layer.act_fn(x)
    x = _project(layer, "down_proj", x, offsets)
    if layer.has_post_expert_norm:
        x = layer.post_expert_norm(x)
    x = x * weights.reshape(-1)[order, None]
    return x[order.argsort()].view(*chosen.shape, -1).sum(1).to(hidden.dtype)


def _project(layer: Any, name: str, x: Tensor, offsets: Tensor) -> Tensor:
    weight = getattr(layer, name)
    return grouped_linear(
        x,
        weight.transpose(1, 2) if layer.is_transposed else weight,
        offsets,
        getattr(layer, f"{name}_bias") if layer.has_bias else None,
    )
