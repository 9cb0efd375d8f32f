"""Attention of transformers on the op ``attention``, through its attention and mask registries."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.attention import attention

NAME = "pipegraph"


def install(model: nn.Module) -> None:
    """Set a ``PreTrainedModel`` to our attention.

    Its configuration is copied first: transformers keeps the choice there, and other models may share the object.
    """
    from transformers import PreTrainedModel

    _register()
    if not isinstance(model, PreTrainedModel) or not model._can_set_attn_implementation():
        raise KernelError(f"{type(model).__name__} does not use transformers' attention interface")
    copies: dict[int, Any] = {}  # one for all, so that parts keep sharing what is in the configuration of the whole
    for part in model.modules():
        if (config := getattr(part, "config", None)) is not None:
            part.config = deepcopy(config, copies)
    model.set_attn_implementation(NAME)
    if model.config._attn_implementation != NAME:
        raise KernelError(f"{type(model).__name__} kept its attention `{model.config._attn_implementation}`")


@cache
def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    # Without a mask function of the same name, masks would silently become None.
    AttentionMaskInterface.register(NAME, make_mask)


def make_mask(*, q_length: int, kv_length: int, **options: Any) -> Tensor | None:
    """A bool mask (B, 1, Sq, Skv), true = attend, or None if the module's own ``is_causal`` is enough."""
    from transformers.masking_utils import sdpa_mask

    if q_length not in (1, kv_length):  # transformers would align `causal` to the first key, we to the last
        options["allow_is_causal_skip"] = False
    mask: Tensor | None = sdpa_mask(q_length=q_length, kv_length=kv_length, **options)
    return mask


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention function of transformers: (B, H, S, D) in, (B, S, H, D) out.

    T5's position bias stays a bias; Gemma 2 gives a ``softcap``, gpt-oss its sinks as ``s_aux``.
    """
    if dropout:
        raise KernelError("attention dropout is for training; call .eval() on the model")
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", True))
    mask, bias = attention_mask, position_bias
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        mask, bias = None, attention_mask if position_bias is None else position_bias + attention_mask
    causal = is_causal and attention_mask is None and query.shape[2] > 1
    out = attention(query, key, value, mask=mask, bias=bias, causal=causal, scale=scaling, softcap=softcap, sinks=s_aux)
    return out.transpose(1, 2).contiguous(), None
