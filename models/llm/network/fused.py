"""Fast path through dense decoders: the computation of transformers' modules in fewer, fused operations.

Decoding a token takes little more time than reading the weights, so framework overhead shows. Modules and weights stay
those of transformers; a network of another class, or with hooks, runs transformers' own code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pipegraph.kernels import dispatch
from pipegraph.kernels.hooks.modules import KernelLinear, on_the_side
from pipegraph.kernels.ops.gated import swiglu
from pipegraph.kernels.ops.qk_norm_rope import qk_norm_rope
from pipegraph.kernels.ops.rms_norm import rms_norm

from ..facts import long_positions
from .layers import PagedCache, StepLayout, compiled, missing, on_cpu

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .cpu_step import CpuDecodeStep

DENSE = ("llama.LlamaForCausalLM", "mistral.MistralForCausalLM", "qwen2.Qwen2ForCausalLM", "qwen3.Qwen3ForCausalLM")
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_served: WeakKeyDictionary[Any, dict[int, dict[str, set[str]]]] = WeakKeyDictionary()
"""By network and number of sequences: back ends of a step, once it is known that ``CpuDecodeStep`` may replace it."""


class FusedDecoder:
    """Runs a dense decoder that :meth:`of` accepts."""

    def __init__(self, network: Any) -> None:
        self.network = network
        first = network.model.layers[0].self_attn
        self.half = first.head_dim // 2
        self.normed = hasattr(first, "q_norm")
        self.eps = first.q_norm.variance_epsilon if self.normed else None

    @cached_property
    def token_step(self) -> CpuDecodeStep | None:
        """For one token per sequence on a CPU; None if the network is not supported."""
        if missing() or long_positions(self.network.config):
            return None
        from .cpu_step import CpuDecodeStep

        return CpuDecodeStep.of(self.network)

    @classmethod
    def of(cls, network: PreTrainedModel) -> FusedDecoder | None:
        """For a network of a supported class without hooks; else None."""
        kind = type(network)
        _, _, rest = kind.__module__.partition("transformers.models.")
        if f"{rest.partition('.')[0]}.{kind.__name__}" not in DENSE:
            return None
        for name, part in _parts(network):
            if part._forward_hooks or part._forward_pre_hooks or "forward" in part.__dict__:
                return None
            if name in LAYERS and type(part) is not KernelLinear:
                return None
        layers: Any = network.get_submodule("model.layers")
        plain = all(type(layer.mlp.act_fn) in (nn.SiLU, _silu()) for layer in layers)
        return cls(network) if plain and len(layers) == network.config.num_hidden_layers else None

    def __call__(
        self, ids: Tensor, positions: Sequence[int], kv: PagedCache, step: StepLayout, last: Sequence[int] | None
    ) -> Tensor:
        """Logits [T, V] after the tokens (T,) of a step, or after those in ``last``."""
        if not (step.single and self._may_be_short(kv, step)) or (token_step := self.token_step) is None:
            return self._run(ids, positions, kv, step, last)
        served = _served.setdefault(self.network, {})
        if len(ids) not in served:
            with dispatch.noting() as calls:
                logits = self._run(ids, positions, kv, step, last)
            if calls.keys() != token_step.SERVED.keys() or any(calls[op] - token_step.SERVED[op] for op in calls):
                dispatch.note(calls)
                return logits
            served[len(ids)] = calls  # and run again: the first step gives the same bytes as later ones
        dispatch.note(served[len(ids)])
        return token_step(self.network.model.embed_tokens(ids), positions, kv, step)

    def _may_be_short(self, kv: PagedCache, step: StepLayout) -> bool:
        """Whether this step can run as a ``CpuDecodeStep``."""
        weight = self.network.model.norm.weight
        if not on_cpu(weight) or on_the_side() or dispatch.asked():
            return False
        first: Any = self.network.model.layers[0].self_attn
        q = (len(step.counts), first.q_proj.out_features // first.head_dim, first.head_dim)
        return all(
            len(layer.pool.stores) == len(layer.pool.layers)  # pages are made in the usual way
            and not layer.int8
            and compiled(q, weight.dtype, step.places[layer.index])
            for layer in kv.paged
        )

    def _run(
        self, ids: Tensor, positions: Sequence[int], kv: PagedCache, step: StepLayout, last: Sequence[int] | None
    ) -> Tensor:
        model = self.network.model
        h = model.embed_tokens(ids)
        places = torch.tensor([positions], device=ids.device)
        cos, sin = (x[0, :, : self.half] for x in model.rotary_emb(h[None], places))
        x = _norm(model.layers[0].input_layernorm, h)
        norms = [layer.input_layernorm for layer in model.layers[1:]] + [model.norm]
        for layer, norm in zip(model.layers, norms, strict=True):
            a = self._attend(layer.self_attn, x, cos, sin, kv, step)
            x, h = rms_norm(a, *_of(layer.post_attention_layernorm), residual=h)
            mlp = layer.mlp
            a = _linear(mlp.down_proj, swiglu(_linear(mlp.gate_proj, x), _linear(mlp.up_proj, x)))
            x, h = rms_norm(a, *_of(norm), residual=h)
        if last is not None and len(last) < x.shape[0]:
            x = x[torch.tensor(last, device=x.device)]
        logits: Tensor = self.network.lm_head(x)
        return logits

    def _attend(self, part: Any, x: Tensor, cos: Tensor, sin: Tensor, kv: PagedCache, step: StepLayout) -> Tensor:
        shape = (1, x.shape[0], -1, part.head_dim)
        q, k, v = (_linear(p, x).view(shape) for p in (part.q_proj, part.k_proj, part.v_proj))
        q_norm, k_norm = (part.q_norm.weight, part.k_norm.weight) if self.normed else (None, None)
        q, k = qk_norm_rope(q.transpose(1, 2), k.transpose(1, 2), q_norm, k_norm, cos, sin, self.eps)
        q, k, v = q[0].transpose(0, 1), k[0].transpose(0, 1), v[0]
        layer = kv.layers[part.layer_idx]
        layer.write(step, k, v)
        out = layer.attend(step, q, {"scale": part.scaling, "softcap": None, "sinks": None})
        return _linear(part.o_proj, out.flatten(1))


def _parts(network: nn.Module) -> Iterator[tuple[str, Any]]:
    """Every module with its last name; ``named_modules`` takes a hundred times as long."""
    todo: list[tuple[str, Any]] = [("", network)]
    while todo:
        part = todo.pop()
        yield part
        todo += part[1]._modules.items()


@cache
def _silu() -> type:
    from transformers.activations import ACT2FN

    return type(ACT2FN["silu"])


def _linear(part: Any, x: Tensor) -> Tensor:
    """The layer without the overhead of ``nn.Module.__call__``."""
    return KernelLinear.forward(part, x)


def _of(norm: Any) -> tuple[Tensor, float]:
    return norm.weight, norm.variance_epsilon


def _norm(norm: Any, x: Tensor) -> Tensor:
    return rms_norm(x, norm.weight, norm.variance_epsilon)
