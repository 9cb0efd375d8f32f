"""The definition of attention, for every back end (see ``attention``)."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

Result: TypeAlias = Tensor | tuple[Tensor, Tensor]
_SCORES = 1 << 24
"""Scores in memory at once: the reference runs in blocks of rows, so that memory is bounded."""


def reference(
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
    """Exact softmax in float32 (float64 for float64), a block of rows at a time."""
    b, h, sq, _ = q.shape
    hkv, skv = k.shape[1], k.shape[2]
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_zeros(b, h, sq, v.shape[3])
    sink = q.new_full((1, 1, 1, 1), -torch.inf, dtype=work) if sinks is None else sinks.to(work).view(1, h, 1, 1)
    lse = sink.expand(b, h, sq, 1).squeeze(3).clone()
    allowed = visible(mask, bias, causal, window, sq, skv, q.device)
    keys = k.to(work).repeat_interleave(h // hkv, 1).transpose(2, 3)
    values = v.to(work).repeat_interleave(h // hkv, 1)
    bad = ~values.isfinite()
    values = values.masked_fill(bad, 0)
    poisoned = bool(bad.any())
    step = max(1, _SCORES // max(1, b * h * skv))
    for start in range(0, sq if skv else 0, step):
        rows = slice(start, start + step)
        scores = (q[:, :, rows].to(work) @ keys) * scale
        if softcap is not None:
            scores = softcap * (scores / softcap).tanh()
        if bias is not None:
            scores = scores + _rows(bias, rows).to(work)
        if allowed is not None:
            scores = scores.masked_fill(~_rows(allowed, rows), -torch.inf)
        top = scores.amax(-1, keepdim=True).maximum(sink)
        base = top.masked_fill(top == -torch.inf, 0)
        weights = (scores - base).exp()
        total = weights.sum(-1, keepdim=True) + (sink - base).exp()
        block = (weights @ values) / total.masked_fill(total == 0, 1)
        if poisoned:
            sees = torch.ones_like(scores) if allowed is None else _rows(allowed, rows).to(work).expand_as(scores)
            block = block.masked_fill(sees @ bad.to(work) > 0, torch.nan)
        out[:, :, rows] = block.to(q.dtype)
        lse[:, :, rows] = (top + total.log()).squeeze(-1)
    return (out, lse) if return_lse else out


def visible(
    mask: Tensor | None, bias: Tensor | None, causal: bool, window: int | None, sq: int, skv: int, device: torch.device
) -> Tensor | None:
    """Which keys each row may see, broadcastable to (B, Hq, Sq, Skv); None if all."""
    allowed = mask
    if bias is not None:
        finite = bias != -torch.inf
        allowed = finite if allowed is None else allowed & finite
    if causal:
        last = torch.arange(skv - sq, skv, device=device)[:, None]
        key = torch.arange(skv, device=device)
        band = key <= last if window is None else (key <= last) & (key > last - window)
        allowed = band if allowed is None else allowed & band
    return allowed


def _rows(x: Tensor, rows: slice) -> Tensor:
    """Query rows of a mask or bias that may broadcast over rows."""
    return x if x.ndim < 2 or x.shape[-2] == 1 else x[..., rows, :]
