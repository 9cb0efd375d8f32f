"""Attention of diffusers on the op ``attention``: its dispatcher, and the older processors that bypass it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from pipegraph.context import holding
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.attention import attention

NAME = "pipegraph"
SELF = "pipegraph_self"
"""The same for attention that ``attended`` names, see ``self_attention``."""
Attend = Callable[[Tensor, Tensor, Tensor, "float | None"], Tensor]
"""q, k, v (B, S, H, D) and scale -> (B, S, H, D)"""
_self: ContextVar[Attend | None] = ContextVar("pipegraph_self_attention", default=None)


def install(model: nn.Module) -> None:
    """Put every attention processor of a diffusers model on the layer; error for unsupported processors."""
    from diffusers.models.attention_processor import Attention, AttnProcessor, AttnProcessor2_0

    backend, own = _register(NAME, attend), _register(SELF, attend_self)
    unknown: set[str] = set()
    for part in model.modules():
        processor = getattr(part, "processor", None)
        if processor is None or isinstance(processor, LayerAttnProcessor):
            continue
        if hasattr(processor, "_attention_backend"):
            processor._attention_backend = own if attended(part) else backend
        elif isinstance(part, Attention) and (
            type(processor) is AttnProcessor2_0 or (type(processor) is AttnProcessor and part.norm_q is None)
        ):  # AttnProcessor forgets the norms of q and k
            part.set_processor(LayerAttnProcessor())
        else:
            unknown.add(type(processor).__name__)
    if unknown:
        raise KernelError(f"{type(model).__name__}: attention of {', '.join(sorted(unknown))} is not on the layer yet")


@cache
def _register(name: str, run: Callable[..., Tensor]) -> Any:
    """Add a name of ours to diffusers' attention back ends, which has no public way: names are members of an enum."""
    from diffusers.models.attention_dispatch import AttentionBackendName as Names
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry as Registry

    member = str.__new__(Names, name)
    member._name_, member._value_ = name.upper(), name
    member._sort_order_ = len(Names)
    Names._member_names_.append(member._name_)
    Names._member_map_[member._name_] = member
    Names._value2member_map_[name] = member
    Registry.register(member, supports_context_parallel=True)(run)
    return member


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    _parallel_config: Any = None,
) -> Tensor:
    """The dispatcher's function: (B, S, H, D) in and out; a 2-D mask is one over keys, (B, Skv).

    With a ``_parallel_config`` these are one process's part of the tokens, and diffusers brings the parts together.
    """
    if _parallel_config is None:
        return _attend(query, key, value, attn_mask, dropout_p, is_causal, scale)[0]
    from diffusers.models.attention_dispatch import _templated_context_parallel_attention as attend_together

    out: Tensor = attend_together(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
        forward_op=_attend_part,
        backward_op=None,
        _parallel_config=_parallel_config,
    )
    return out


def _attend_part(
    ctx: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    return_lse: bool,
    **_: Any,
) -> Any:
    """Interface for context parallelism: attention, and its log-sum-exp (B, S, H) for a ring."""
    out, lse = _attend(query, key, value, attn_mask, dropout_p, is_causal, scale, return_lse)
    return (out, lse) if return_lse else out


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    return_lse: bool = False,
) -> tuple[Tensor, Tensor | None]:
    if dropout_p:
        raise KernelError("attention on the layer has no dropout")
    mask = bias = None
    if attn_mask is not None:
        if attn_mask.ndim == 2 and attn_mask.shape == (query.shape[0], key.shape[1]):
            attn_mask = attn_mask[:, None, None]
        mask, bias = (attn_mask, None) if attn_mask.dtype == torch.bool else (None, attn_mask)
    if is_causal and query.shape[1] != key.shape[1]:  # torch aligns to the first key, we to the last
        raise KernelError("causal attention of diffusers with other numbers of queries and keys is not on the layer")
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    if not return_lse:
        return attention(q, k, v, mask=mask, bias=bias, causal=is_causal, scale=scale).transpose(1, 2), None
    out, lse = attention(q, k, v, mask=mask, bias=bias, causal=is_causal, scale=scale, return_lse=True)
    return out.transpose(1, 2), lse.transpose(1, 2)


def attended(part: nn.Module) -> str:
    """Tokens of an attention: ``video``, ``video and text`` (in this order), or others (empty).

    Networks say it by ``attends``, an attribute of the attention or of its processor.
    """
    return str(getattr(part, "attends", "") or getattr(getattr(part, "processor", None), "attends", ""))


def self_attention(run: Attend) -> AbstractContextManager[None]:
    """Let the attentions that ``attended`` names compute ``run`` inside a ``with``, in this thread (context) only."""
    return holding(_self, run)


def attend_self(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    _parallel_config: Any = None,
) -> Tensor:
    """``attend``, or the replacement of ``self_attention``."""
    run = _self.get()
    if run is None:
        return attend(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, _parallel_config)
    if attn_mask is not None or dropout_p or is_causal or _parallel_config is not None:
        raise KernelError("this self-attention is masked or shared by processes: no other can take its place")
    return run(query, key, value, scale)


class LayerAttnProcessor:
    """AttnProcessor and AttnProcessor2_0 of diffusers, with the attention on the layer.

    Serves the ``Attention`` blocks of autoencoders and UNets.
    """

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
    ) -> Tensor:
        """hidden_states is (B, S, C), or (B, C, H, W) whose pixels become tokens; gives the same shape."""
        residual = x = hidden_states
        if attn.spatial_norm is not None:
            x = attn.spatial_norm(x, temb)
        if hidden_states.ndim == 4:
            x = x.flatten(2).transpose(1, 2)
        if attn.group_norm is not None:
            x = attn.group_norm(x.transpose(1, 2)).transpose(1, 2)
        context = x if encoder_hidden_states is None else encoder_hidden_states
        if encoder_hidden_states is not None and attn.norm_cross:
            context = attn.norm_encoder_hidden_states(context)
        q, k, v = (
            y.unflatten(-1, (attn.heads, -1)).transpose(1, 2)
            for y in (attn.to_q(x), attn.to_k(context), attn.to_v(context))
        )
        q = q if attn.norm_q is None else attn.norm_q(q)
        k = k if attn.norm_k is None else attn.norm_k(k)
        bias = None
        if attention_mask is not None:  # additive, as diffusers' models prepare it
            bias = attn.prepare_attention_mask(attention_mask, k.shape[2], k.shape[0])
            bias = bias.view(k.shape[0], attn.heads, -1, bias.shape[-1])
        y = attention(q, k, v, bias=bias, scale=attn.scale).transpose(1, 2).flatten(2)
        y = attn.to_out[1](attn.to_out[0](y))
        if hidden_states.ndim == 4:
            y = y.transpose(1, 2).reshape(hidden_states.shape)
        if attn.residual_connection:
            y = y + residual
        out: Tensor = y / attn.rescale_output_factor
        return out
