"""Paged KV cache on a CPU: attention of one token per sequence, reading pages in place, and writing.

An int8 cache is not unpacked: scales multiply scores and softmax weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from . import threads  # noqa: F401

Array = NDArray[Any]
NONE = np.ones((0, 0, 0), np.float32)
NO_SINKS = np.ones(0, np.float32)


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    table: Tensor,
    lengths: Tensor,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The op in float32 over contiguous float32 or int8 caches: output and log-sum-exp."""
    out, lse = torch.empty(*q.shape[:2], v_cache.shape[3]), torch.empty(q.shape[:2])
    scales = [NONE if x is None else x.numpy() for x in (k_scale, v_scale)]
    most = table.shape[1] * k_cache.shape[1]
    scores = np.empty((q.shape[1], most), np.float32)
    run = decode if k_scale is None else decode_int8
    run(
        q.contiguous().numpy(),
        k_cache.numpy(),
        v_cache.numpy(),
        table.numpy(),
        lengths.numpy(),
        *scales,
        window or most,
        scale,
        softcap or 0.0,
        NO_SINKS if sinks is None else sinks.float().contiguous().numpy(),
        scores,
        out.numpy(),
        lse.numpy(),
    )
    return out, lse


def kv_append(k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor) -> None:
    """The op for float32 tokens and contiguous float32 caches."""
    where = slots.long().numpy()
    for x, cache in ((k, k_cache), (v, v_cache)):
        append(x.numpy(), where, cache.numpy())


_OPTIONS: dict[str, Any] = dict(fastmath={"reassoc", "contract"}, nogil=True, cache=True)
_F3 = "float32[:,:,::1]"


def _decode_of(
    q: Array,
    k: Array,
    v: Array,
    table: Array,
    lengths: Array,
    k_scale: Array,
    v_scale: Array,
    window: int,
    scale: float,
    softcap: float,
    sinks: Array,
    scores: Array,
    out: Array,
    lse: Array,
) -> None:
    """Token by token, all heads of each, in memory order, so that memory is read once."""
    page, heads, size, wide = k.shape[1], k.shape[2], k.shape[3], v.shape[3]
    group = q.shape[1] // heads
    for b in range(len(q)):
        length = lengths[b]
        first = max(0, length - window)
        for t in range(first, length):
            block, slot = table[b, t // page], t % page
            for h in range(heads):
                row = k[block, slot, h]
                factor = np.float32(scale)
                if len(k_scale):
                    factor *= k_scale[block, slot, h]
                for g in range(h * group, (h + 1) * group):
                    x = q[b, g]
                    total = np.float32(0)
                    for d in range(size):
                        total += x[d] * np.float32(row[d])
                    total *= factor
                    scores[g, t - first] = (
                        np.float32(softcap) * np.tanh(total / np.float32(softcap)) if softcap else total
                    )
        for g in range(heads * group):
            _softmax(scores[g, : length - first], sinks[g : g + 1], lse[b, g : g + 1])
            out[b, g] = 0
        for t in range(first, length):
            block, slot = table[b, t // page], t % page
            for h in range(heads):
                row = v[block, slot, h]
                factor = v_scale[block, slot, h] if len(v_scale) else np.float32(1)
                for g in range(h * group, (h + 1) * group):
                    y = out[b, g]
                    weight = scores[g, t - first] * factor
                    for d in range(wide):
                        y[d] += weight * np.float32(row[d])


@njit("void(float32[::1],float32[::1],float32[::1])", **_OPTIONS)  # type: ignore[untyped-decorator]
def _softmax(x: Array, sink: Array, lse: Array) -> None:
    """Softmax in place, with one more score of value 0 if there is a sink; any NaN makes all NaN."""
    top = sink[0] if len(sink) else np.float32(-np.inf)
    bad = False
    for t in range(len(x)):
        top = max(top, x[t])
        bad = bad or np.isnan(x[t])
    if bad or not np.isfinite(top):
        top = np.float32(0)
    total = np.exp(sink[0] - top) if len(sink) else np.float32(0)
    for t in range(len(x)):
        x[t] = np.exp(x[t] - top)
        total += x[t]
    if bad:
        total = np.float32(np.nan)
    lse[0] = np.log(total) + top if bad or total > 0 else np.float32(-np.inf)
    if bad or total > 0:
        for t in range(len(x)):
            x[t] /= total


def _compiled(kind: str) -> Any:
    cache, rest = f"{kind}[:,:,:,::1]", "int64,float64,float64,float32[::1],float32[:,::1]"
    signature = f"void({_F3},{cache},{cache},int32[:,::1],int32[::1],{_F3},{_F3},{rest},{_F3},float32[:,::1])"
    return njit(signature, **_OPTIONS)(_decode_of)


decode, decode_int8 = _compiled("float32"), _compiled("int8")


@njit("void(float32[:,:,:],int64[:],float32[:,:,:,::1])", **_OPTIONS)  # type: ignore[untyped-decorator]
def append(x: Array, slots: Array, cache: Array) -> None:
    page = cache.shape[1]
    for t in range(len(slots)):
        if slots[t] >= 0:
            for h in range(x.shape[1]):
                for d in range(x.shape[2]):
                    cache[slots[t] // page, slots[t] % page, h, d] = x[t, h, d]
