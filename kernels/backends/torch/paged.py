"""The definitions of ``paged_decode`` and ``kv_append``, and their back ends in torch."""

from __future__ import annotations

import torch
from torch import Tensor

from .attention import sdpa
from .attention_reference import Result, reference


def decode_reference(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    return_lse: bool,
) -> Result:
    """A sequence at a time, by the reference of ``attention`` in float32 (float64 for float64)."""
    work = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(*q.shape[:2], v_cache.shape[3])
    lse = q.new_empty(q.shape[:2], dtype=work)
    page = k_cache.shape[1]
    for b, length in enumerate(seq_lens.tolist()):
        used = block_table[b, : -(-length // page)].long()
        k, v = (_tokens(c, s, used[None], work)[:, :, :length] for c, s in ((k_cache, k_scale), (v_cache, v_scale)))
        o, total = reference(
            q[b, None, :, None].to(work),
            k,
            v,
            causal=True,
            window=window,
            scale=scale,
            softcap=softcap,
            sinks=sinks,
            return_lse=True,
        )
        out[b], lse[b] = o[0, :, 0], total[0, :, 0]
    return (out, lse) if return_lse else out


def decode_torch(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_table: Tensor,
    seq_lens: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
    return_lse: bool,
) -> Result:
    """All sequences at once by torch's fused attention, from a copy of their pages that is as long as the table."""
    page = k_cache.shape[1]
    pages = torch.arange(block_table.shape[1], device=q.device) * page
    table = torch.where(pages < seq_lens[:, None], block_table, 0)
    token = torch.arange(len(pages) * page, device=q.device)
    allowed = token < seq_lens[:, None]
    if window is not None:
        allowed &= token >= seq_lens[:, None] - window
    k, v = (_tokens(c, s, table, q.dtype) for c, s in ((k_cache, k_scale), (v_cache, v_scale)))
    k, v = (x.masked_fill(~allowed[:, None, :, None], 0) for x in (k, v))
    result = sdpa(
        q[:, :, None],
        k,
        v,
        mask=allowed[:, None, None],
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        return_lse=return_lse,
    )
    return (result[0][:, :, 0], result[1][:, :, 0]) if isinstance(result, tuple) else result[:, :, 0]


def _tokens(cache: Tensor, scale: Tensor | None, table: Tensor, dtype: torch.dtype) -> Tensor:
    """The pages of a (B, P) table as (B, H, P * page, D)."""
    table = table.long()
    x = cache[table]
    if scale is not None:
        x = x * scale[table].to(torch.promote_types(dtype, torch.float32))[..., None]
    return x.to(dtype).flatten(1, 2).transpose(1, 2)


def append_reference(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> None:
    """A token at a time."""
    for i, slot in enumerate(slots.tolist()):
        place = divmod(slot, k_cache.shape[1])
        for x, cache, scale in ((k[i], k_cache, k_scale), (v[i], v_cache, v_scale)):
            if slot >= 0 and scale is None:
                cache[place] = x
            elif slot >= 0 and scale is not None:
                cache[place], scale[place] = quantize_tokens(x, scale.dtype)


def append_torch(
    k: Tensor,
    v: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
) -> None:
    """All tokens at once; reads which are left out, which synchronizes a GPU."""
    tokens = (slots >= 0).nonzero().squeeze(1)
    chosen = slots[tokens].long()
    place = chosen // k_cache.shape[1], chosen % k_cache.shape[1]
    for x, cache, scale in ((k, k_cache, k_scale), (v, v_cache, v_scale)):
        if scale is None:
            cache[place] = x[tokens]
        else:
            cache[place], scale[place] = quantize_tokens(x[tokens], scale.dtype)


def smallest(scale_dtype: torch.dtype) -> float:
    """The least scale: the smallest normal number, at least that of float32."""
    return float(max(torch.finfo(scale_dtype).tiny, torch.finfo(torch.float32).tiny))


def quantize_tokens(x: Tensor, scale_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Quantize (..., D) to int8 and (...) scales, as ``kv_append`` does."""
    wide = x.float()
    scale = (wide.abs().amax(-1) / 127).clamp(min=smallest(scale_dtype))
    scale = torch.where(wide.isfinite().all(-1), scale, torch.nan).to(scale_dtype)
    steps = (wide / scale.float()[..., None]).round().clamp(-127, 127).nan_to_num(0)
    return steps.to(torch.int8), scale
