"""Attention by torch's fused kernels, with edge cases as in ``attention_reference``."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention_reference import Result, reference, visible


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
) -> Result:
    """Supports all but ``softcap``; log-sum-exp and sinks on the CPU only, where torch returns the former."""
    sq, skv = q.shape[2], k.shape[2]
    extra: Tensor | None = None
    allowed: Tensor | None = None
    if causal and sq == 1 and (window is None or window >= skv):
        causal = False  # the last query sees all keys
    plain_causal = causal and sq == skv and window is None and mask is None and bias is None
    hides = mask is not None or bias is not None or causal
    if plain_causal and not (q.is_cpu or return_lse or sinks is not None):
        return causal_unseen(q, k, v, scale)
    if not (sq and skv) or (hides and not _finite(k, v)):  # torch would spread what is hidden
        return reference(
            q, k, v, mask=mask, bias=bias, causal=causal, window=window, scale=scale, sinks=sinks, return_lse=return_lse
        )
    if hides and not plain_causal:
        allowed = extra = visible(mask, bias, causal, window, sq, skv, q.device)
    if bias is not None and allowed is not None:
        half_on_cpu = q.device.type == "cpu" and q.dtype.itemsize == 2
        bias = bias.to(torch.float32 if half_on_cpu else q.dtype)
        extra = bias if mask is None and not causal else bias.masked_fill(~allowed, -torch.inf)
    if extra is not None and extra.ndim < 4:
        extra = extra[(None,) * (4 - extra.ndim)]
    if not (return_lse or sinks is not None):
        out = fused(q, k, v, extra, plain_causal, scale)
        return out if allowed is None else out.masked_fill(~allowed.any(-1, keepdim=True), 0)
    out, lse = _with_lse(q, k, v, extra, plain_causal, scale)
    if allowed is not None:
        blind = ~allowed.any(-1)
        out, lse = out.masked_fill(blind[..., None], 0), lse.masked_fill(blind, -torch.inf)
    if sinks is not None:  # one more key of weight exp(sink) and value 0
        sink = sinks.to(lse).view(-1, 1)
        out = (out * (lse - sink).sigmoid()[..., None]).to(q.dtype)
        lse = torch.logaddexp(lse, sink.expand_as(lse))
    return (out, lse) if return_lse else out


def fused(q: Tensor, k: Tensor, v: Tensor, extra: Tensor | None, causal: bool, scale: float) -> Tensor:
    """``F.scaled_dot_product_attention`` with operands laid out for the fused kernels.

    They need equal head sizes, multiples of 8 on a GPU, and contiguous rows; else torch falls back to the full score
    matrix.
    """
    size = max(q.shape[3], v.shape[3])
    if not q.is_cpu:
        size += -size % 8
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    out = F.scaled_dot_product_attention(
        _fit(q, size), _fit(k, size), _fit(v, size), extra, 0.0, causal, scale=scale, **grouped
    )
    return out[..., : v.shape[3]] if size > v.shape[3] else out


def causal_unseen(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Causal attention with Sq = Skv without synchronizing: on a GPU, a check for NaN would wait for the device.

    Keys with NaN or Inf become 0, and the rows that see one NaN.
    """
    bad = ~(k.isfinite().all(-1) & v.isfinite().all(-1))[..., None]
    out = fused(q, k.masked_fill(bad, 0), v.masked_fill(bad, 0), None, True, scale)
    return out.masked_fill((bad.cumsum(2) > 0).repeat_interleave(q.shape[1] // k.shape[1], 1), torch.nan)


def _with_lse(
    q: Tensor, k: Tensor, v: Tensor, extra: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """The CPU kernel below :func:`fused`, which also gives the log-sum-exp."""
    if extra is not None and extra.dtype == torch.bool:
        extra = torch.zeros(extra.shape, dtype=q.dtype).masked_fill(~extra, -torch.inf)
    size = max(q.shape[3], v.shape[3])
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        _fit(q, size), _fit(k, size), _fit(v, size), 0.0, causal, attn_mask=extra, scale=scale
    )
    return out[..., : v.shape[3]], lse


def _fit(x: Tensor, size: int) -> Tensor:
    """Pad the last dimension of ``x`` to ``size`` with zeros, contiguous."""
    if x.shape[-1] < size:
        return F.pad(x, (0, size - x.shape[-1]))
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _finite(k: Tensor, v: Tensor) -> bool:
    """Whether ``k`` and ``v`` are finite; also false, harmlessly, if their sums overflow float32."""
    return bool((k.sum(dtype=torch.float32) + v.sum(dtype=torch.float32)).isfinite())
