"""One-token decoding of a few sequences through a dense decoder on a CPU: compiled kernels on plain arrays.

Dispatching an op costs as much as its work in such a step. So the first step runs through the ops; if these kernels
served it, later steps call them directly, in the same order on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pipegraph.kernels.backends import cpu
from pipegraph.kernels.backends.cpu import few_rows, heads, paged, plain, rows
from pipegraph.kernels.hooks.modules import KernelLinear
from pipegraph.kernels.weights.qweight import QWeight

from ..cache.pages import PAGE

if TYPE_CHECKING:
    from .layers import PagedCache, StepLayout

Array: TypeAlias = NDArray[Any]
Product: TypeAlias = Callable[[Array, Array, int], None]
"""(rows of x, rows of y, threads)"""
_ANGLES = 128
"""Positions whose RoPE angles are computed at once."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Weights and kernels of a decoder layer."""

    index: int
    q: Product
    k: Product
    v: Product
    o: Product
    q_norm: Array
    k_norm: Array
    scale: float
    middle: tuple[Array, float]
    """Weight and epsilon of the norm after attention."""
    gate: Product
    up: Product
    down: Product
    end: tuple[Array, float]
    """Weight and epsilon of the norm before the next layer, or before the head."""


class CpuDecodeStep:
    """Runs decode steps of a network that :meth:`of` accepts."""

    SERVED: ClassVar[Mapping[str, frozenset[str]]] = {
        "linear": frozenset({"few-rows", "torch"}),  # torch's for matrices that are too small to matter
        "rms_norm": frozenset({"few-rows"}),
        "qk_norm_rope": frozenset({"few-rows"}),
        "kv_append": frozenset({"few-rows"}),
        "paged_decode": frozenset({"few-rows"}),
        "swiglu": frozenset({"torch"}),
    }
    """Back ends that a step replaces, by op."""

    def __init__(self, network: Any) -> None:
        model = network.model
        self.rotary = model.rotary_emb
        self.begin = _norm(model.layers[0].input_layernorm)
        ends = [*(layer.input_layernorm for layer in model.layers[1:]), model.norm]
        self.blocks = [_block(layer, end) for layer, end in zip(model.layers, ends, strict=True)]
        self.head = _product(network.lm_head)
        self.vocabulary = network.lm_head.out_features
        first = model.layers[0]
        self.size = first.self_attn.head_dim
        self.widths = [part.out_features for part in (first.self_attn.q_proj, first.self_attn.k_proj)]
        self.inner = first.mlp.gate_proj.out_features
        self.eps = first.self_attn.q_norm.variance_epsilon if hasattr(first.self_attn, "q_norm") else -1.0
        self._angles: dict[int, tuple[Array, Array]] = {}

    @classmethod
    def of(cls, network: Any) -> CpuDecodeStep | None:
        """For a network that ``FusedDecoder`` runs, if the kernels support its weights; else None."""
        model = network.model
        norms = [p for name, p in model.named_parameters() if "norm" in name]
        products = [network.lm_head, *(p for layer in model.layers for p in _products(layer))]
        plain_norms = all(p.dtype == torch.float32 and p.is_cpu and p.is_contiguous() for p in norms)
        return cls(network) if plain_norms and all(map(_readable, products)) else None

    def __call__(self, embedded: Tensor, positions: Sequence[int], cache: PagedCache, step: StepLayout) -> Tensor:
        """Logits (B, V) after a token of each sequence; its embeddings (B, N) are overwritten."""
        count, threads = len(embedded), few_rows.threads_of_numba()
        h = embedded.numpy()
        x, a = np.empty_like(h), np.empty_like(h)
        q, k, v, attended = (_room(count, self.widths[i]) for i in (0, 1, 1, 0))
        gate, up = torch.empty(2, count, self.inner)
        g, u = gate.numpy(), up.numpy()
        q_heads, k_heads = (y.reshape(1, count, -1, self.size).transpose(0, 2, 1, 3) for y in (q, k))
        q_rows, k_rows, v_rows, attended_rows = (y.reshape(count, -1, self.size) for y in (q, k, v, attended))
        cos, sin = self._turns(positions)
        places = {id(p): (p.table.numpy(), p.ends.numpy(), p.slots.numpy()) for p in step.places.values()}
        most = max(table.shape[1] for table, _, _ in places.values()) * PAGE
        scores, lse = _room(q_rows.shape[1], most), _room(count, q_rows.shape[1])
        rows.norm_rows(h, *self.begin, x)
        for block in self.blocks:
            for run, y in ((block.q, q), (block.k, k), (block.v, v)):
                run(x, y, threads)
            heads.turn(q_heads, block.q_norm, cos, sin, self.eps, False, q_heads)
            heads.turn(k_heads, block.k_norm, cos, sin, self.eps, False, k_heads)
            layer: Any = cache.layers[block.index]
            keys, values = layer.arrays()
            table, ends, slots = places[id(step.places[block.index])]
            paged.append(k_rows, slots, keys)
            paged.append(v_rows, slots, values)
            paged.decode(
                q_rows,
                keys,
                values,
                table,
                ends,
                paged.NONE,
                paged.NONE,
                layer.pool.window or most,
                block.scale,
                0.0,
                paged.NO_SINKS,
                scores,
                attended_rows,
                lse,
            )
            block.o(attended, a, threads)
            np.add(h, a, out=h)
            rows.norm_rows(h, *block.middle, x)
            block.gate(x, g, threads)
            block.up(x, u, threads)
            F.silu(gate, inplace=True).mul_(up)
            block.down(g, a, threads)
            np.add(h, a, out=h)
            rows.norm_rows(h, *block.end, x)
        logits = torch.empty(count, self.vocabulary)
        self.head(x, logits.numpy(), threads)
        return logits

    def _turns(self, positions: Sequence[int]) -> tuple[Array, Array]:
        """Cos and sin (1, B, R/2) of positions; recent ones are cached."""
        angles = []
        for position in positions:
            block, at = divmod(position, _ANGLES)
            if block not in self._angles:
                if len(self._angles) >= cpu.FEW_PLAIN:
                    self._angles.clear()
                near = torch.arange(block * _ANGLES, (block + 1) * _ANGLES)
                cos, sin = (y[0, :, : self.size // 2].numpy() for y in self.rotary(torch.empty(1, 1), near[None]))
                self._angles[block] = cos, sin
            angles.append([angle[at] for angle in self._angles[block]])
        cos, sin = (np.stack(angle)[None] for angle in zip(*angles, strict=True))
        return cos, sin


def _room(*shape: int) -> Array:
    return np.empty(shape, np.float32)


def _products(layer: Any) -> list[Any]:
    attention, mlp = layer.self_attn, layer.mlp
    return [getattr(attention, f"{x}_proj") for x in "qkvo"] + [mlp.gate_proj, mlp.up_proj, mlp.down_proj]


def _block(layer: Any, end: Any) -> _Block:
    attention = layer.self_attn
    q, k, v, o, gate, up, down = map(_product, _products(layer))
    q_norm, k_norm = (
        getattr(attention, name).weight.numpy() if hasattr(attention, name) else heads.NONE
        for name in ("q_norm", "k_norm")
    )
    return _Block(
        attention.layer_idx,
        q,
        k,
        v,
        o,
        q_norm,
        k_norm,
        attention.scaling,
        _norm(layer.post_attention_layernorm),
        gate,
        up,
        down,
        _norm(end),
    )


def _norm(norm: Any) -> tuple[Array, float]:
    return norm.weight.numpy(), norm.variance_epsilon


def _readable(layer: Any) -> bool:
    """Whether the gemv kernels support a layer's weight and bias."""
    weight = layer.weight
    if type(layer) is not KernelLinear:
        return False
    if layer.bias is not None and layer.bias.dtype != torch.float32:
        return False
    if isinstance(weight, Tensor):
        return weight.dtype == torch.float32 and weight.is_cpu and weight.is_contiguous()
    if not isinstance(weight, QWeight) or weight.format not in ("q8", "w4") or weight.low_rank is not None:
        return False
    group = weight.group or 32
    return weight.device.type == "cpu" and group % 32 == 0 and group & (group - 1) == 0


def _product(layer: Any) -> Product:
    weight = layer.weight
    run = plain.prepare(weight) if isinstance(weight, Tensor) else few_rows.prepare(weight)
    if layer.bias is None:
        return run
    bias = layer.bias.numpy()

    def biased(x: Array, y: Array, threads: int) -> None:
        run(x, y, threads)
        y += bias

    return biased
