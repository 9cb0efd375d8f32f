"""Mixtures of experts on the op ``grouped_linear``, by transformers' registry; counts the tokens of each expert."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor

from pipegraph.context import holding
from pipegraph.kernels.ops.grouped_linear import grouped_linear
from pipegraph.kernels.weights.gguf_blocks import GgufWeight

NAME = "pipegraph_llm"
PARTS = ("gate", "up", "down")
"""Linear layers of a mixture with packed or mapped weights: the experts' matrices stacked by rows."""
_counts: ContextVar[dict[int, Tensor] | None] = ContextVar("pipegraph_llm_experts", default=None)


def counting(counts: dict[int, Tensor]) -> AbstractContextManager[None]:
    """Count the tokens routed to each expert, by ``id`` of the layer, in this thread (context) only."""
    return holding(_counts, counts)


@cache
def register() -> None:
    """Make ``NAME`` known to transformers."""
    from transformers.integrations.moe import ExpertsInterface

    ExpertsInterface.register(NAME, forward)


def forward(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum of the experts (T, k) that the router chose for hidden states (T, H)."""
    each = chosen.shape[-1]
    expert, order = chosen.reshape(-1).sort(stable=True)
    sizes = torch.bincount(expert, minlength=layer.num_experts)
    if (counts := _counts.get()) is not None:
        counts[id(layer)] = counts[id(layer)] + sizes if id(layer) in counts else sizes
    offsets = torch.nn.functional.pad(sizes.cumsum(0), (1, 0)).int()
    row = order // each
    if "down" in layer._modules:
        x = _packed(layer, hidden[row], sizes)
    else:
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


def _packed(layer: Any, x: Tensor, sizes: Tensor) -> Tensor:
    """Rows sorted by expert, ``sizes`` of each, through ``PARTS``: only experts with rows are read."""
    used = sizes.nonzero().flatten().tolist()
    offsets = torch.nn.functional.pad(sizes[used].cumsum(0), (1, 0)).int()
    gate, up, down = ([_each(layer, name)[e] for e in used] for name in PARTS)
    x = layer._apply_gate(torch.cat([_grouped(x, weights, offsets) for weights in (gate, up)], -1))
    return _grouped(x, down, offsets)


def _grouped(x: Tensor, weights: list[Any], offsets: Tensor) -> Tensor:
    return grouped_linear(x, torch.stack(weights) if isinstance(weights[0], Tensor) else weights, offsets)


def _each(layer: Any, name: str) -> list[Any]:
    """The matrix of each expert, without a copy; cached while the layer has that weight."""
    part = layer._modules[name]
    matrices: list[Any]
    whole, matrices = part.__dict__.get("each", (None, []))
    if whole is not part.weight:
        rows = part.out_features // layer.num_experts
        matrices = [_rows(part.weight, slice(e * rows, (e + 1) * rows)) for e in range(layer.num_experts)]
        part.__dict__["each"] = part.weight, matrices
    return matrices


def _rows(weight: Any, part: slice) -> Any:
    if isinstance(weight, Tensor):
        return weight[part]
    return GgufWeight(weight.data[part], weight.kind) if isinstance(weight, GgufWeight) else weight.rows(part)
