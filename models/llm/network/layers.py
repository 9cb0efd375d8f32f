"""Our paged cache as transformers' cache, and the attention over its pages.

A step runs new tokens of some sequences, concatenated without padding as [1, tokens] or, with one token per row, as
[rows, 1]. Positions and lengths separate the sequences, so there is no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, DummyLayer, LinearAttentionLayer

from pipegraph.context import holding
from pipegraph.kernels.backends import cpu
from pipegraph.kernels.hooks import transformers as transformers_hooks
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.attention_varlen import attention_varlen
from pipegraph.kernels.ops.merge_attention import merge_attention
from pipegraph.kernels.ops.paged import kv_append, paged_decode

from ..cache.kv_cache import HYBRID, Places
from ..cache.pages import PAGE, Pool, Store

NAME = "pipegraph_llm"


@dataclass
class StepLayout:
    """The tokens of one run of a network: ``counts[i]`` of row i, and their slots in each pool."""

    counts: list[int]
    places: dict[int, Places]
    """By layer."""
    layer: PagedLayer | None = None
    """The layer whose keys and values were written last."""

    def __post_init__(self) -> None:
        self.single = all(n == 1 for n in self.counts)
        self.bounds = [0, *accumulate(self.counts)]


_step: ContextVar[StepLayout | None] = ContextVar("pipegraph_llm_step", default=None)


def running(step: StepLayout) -> AbstractContextManager[None]:
    """Attend over the pages of a step, in this thread (context) only."""
    return holding(_step, step)


@cache
def register() -> None:
    """Register ``NAME`` in transformers. Outside of ``running`` it is the attention of ``install``."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, make_mask)


def make_mask(**options: Any) -> Tensor | None:
    """No mask inside a step."""
    return None if _step.get() is not None else transformers_hooks.make_mask(**options)


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention function of transformers: (B, H, S, D) in, (B, S, H, D) out."""
    step = _step.get()
    if step is None:
        return transformers_hooks.attend(
            module, query, key, value, attention_mask, dropout, scaling, softcap=softcap, s_aux=s_aux, **options
        )
    layer, step.layer = step.layer, None
    if layer is None:
        raise ValueError(f"{type(module).__name__} attends before it has updated its cache with keys and values")
    q = query.transpose(1, 2).flatten(0, 1)
    settings = {"scale": scaling, "softcap": softcap, "sinks": s_aux}
    if layer.latent:
        out = _over_tensors(step, q, key[0].transpose(0, 1), value[0].transpose(0, 1), layer, settings)
    else:
        out = layer.attend(step, q, settings)
    return out.view(query.shape[0], query.shape[2], *out.shape[1:]), None


def on_cpu(x: Tensor) -> bool:
    """Whether to take the CPU paths; one function, so that a test can run the GPU paths on a CPU."""
    return x.is_cpu


def _over_tensors(
    step: StepLayout, q: Tensor, k: Tensor, v: Tensor, layer: PagedLayer, settings: dict[str, Any]
) -> Tensor:
    """Attention of (T, H, D) over the visible keys of all rows, concatenated (Tk, H, D)."""
    places = step.places[layer.index]
    key_bounds = [0, *accumulate(sum(b - a for a, b in pieces) for pieces in places.reads)]
    if on_cpu(q):
        rows = [
            _alone(q[a:b], k[c:d], v[c:d], layer.pool.window, settings)
            for (a, b), (c, d) in zip(pairwise(step.bounds), pairwise(key_bounds), strict=True)
        ]
        return rows[0] if len(rows) == 1 else torch.cat(rows)
    bounds, ends = (torch.tensor(x, dtype=torch.int32, device=q.device) for x in (step.bounds, key_bounds))
    most = max(b - a for a, b in pairwise(key_bounds))
    out: Tensor = attention_varlen(
        q, k, v, bounds, ends, max(step.counts), most, causal=True, window=layer.pool.window, **settings
    )
    return out


def _alone(q: Tensor, k: Tensor, v: Tensor, window: int | None, settings: dict[str, Any]) -> Tensor:
    """Causal attention (n, Hq, D) over (m, Hkv, D): the last n of the m tokens of one sequence."""
    if len(q) == 1 and settings["sinks"] is None:  # grouped queries as rows of one head
        grouped = q.view(1, k.shape[1], -1, q.shape[2])
        out: Tensor = attention(grouped, _heads(k), _heads(v), **settings)
        return out.reshape(1, q.shape[1], v.shape[2])
    causal: dict[str, Any] = {} if len(q) == 1 else {"causal": True, "window": window}
    out = attention(_heads(q), _heads(k), _heads(v), **causal, **settings)
    return out[0].transpose(0, 1)


def _heads(x: Tensor) -> Tensor:
    """(n, H, D) as (1, H, n, D)."""
    return x.transpose(0, 1)[None]


class PagedLayer(CacheLayerMixin):
    """One layer's keys and values in the pages of a pool."""

    is_croppable = True
    is_sliding = False

    def __init__(self, index: int, pool: Pool, int8: bool, latent: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.index = index
        self.pool = pool
        self.int8 = int8
        self.latent = latent
        """The cache holds latents; each step computes keys and values from all of them (MLA)."""
        self.length = 0
        """Cached tokens of the longest sequence."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the tokens of the step; returns them, or for MLA the latents of all visible tokens."""
        step = _step.get()
        if step is None:
            raise ValueError("a paged cache is used through a session")
        k, v = (x.transpose(1, 2).flatten(0, 1) for x in (key_states, value_states))
        self.write(step, k, v)
        step.layer = self
        if not self.latent:
            return key_states, value_states
        k, v = _read(self.pool.stores[self.index], step.places[self.index], k.dtype)
        return _heads(k), _heads(v)

    def write(self, step: StepLayout, k: Tensor, v: Tensor) -> None:
        """Write the tokens (T, H, D) of a step to the pages."""
        _write(self.pool.store(self.index, k, v, self.int8), step.places[self.index], k, v)

    def attend(self, step: StepLayout, q: Tensor, settings: dict[str, Any]) -> Tensor:
        """Attention over the pages: (T, Hq, D) -> (T, Hq, Dv)."""
        store, places, window = self.pool.stores[self.index], step.places[self.index], self.pool.window
        if step.single and (self.int8 or not on_cpu(q) or compiled(q.shape, q.dtype, places)):
            out: Tensor = paged_decode(
                q,
                store.k,
                store.v,
                places.table,
                places.ends,
                k_scale=store.k_scale,
                v_scale=store.v_scale,
                window=window,
                **settings,
            )
            return out
        if step.single:
            rows = [_over_pieces(q[i : i + 1], store, pieces, settings) for i, pieces in enumerate(places.reads)]
            return rows[0] if len(rows) == 1 else torch.cat(rows)
        return _over_tensors(step, q, *_read(store, places, q.dtype), self, settings)

    def arrays(self) -> tuple[Any, Any]:
        """Pages of keys and values as numpy arrays."""
        store = self.pool.stores[self.index]
        return store.k.numpy(), store.v.numpy()

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


def compiled(q: Sequence[int], dtype: torch.dtype, places: Places) -> bool:
    """Whether the CPU's paged kernel is faster than torch's attention over contiguous pieces."""
    work = q[1] * q[2] * places.table.numel() * PAGE
    return dtype == torch.float32 and work <= cpu.ATTENDED and not missing()


@cache
def missing() -> str:
    """Why the CPU has no compiled kernels; empty if it has."""
    return cpu.missing()


def _write(store: Store, places: Places, k: Tensor, v: Tensor) -> None:
    """Write tokens (T, H, D) to their slots."""
    if on_cpu(k) and store.k_scale is None and len(places.writes) <= 16 and k.shape[0] > len(places.writes):
        keys, values = store.k.flatten(0, 1), store.v.flatten(0, 1)
        for at, slot, n in places.writes:
            keys[slot : slot + n] = k[at : at + n]
            values[slot : slot + n] = v[at : at + n]
        return
    kv_append(k, v, store.k, store.v, places.slots, k_scale=store.k_scale, v_scale=store.v_scale)


def _read(store: Store, places: Places, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Visible keys and values of the rows, concatenated, (tokens, H, D) each; views if contiguous in a native store."""
    pieces = [piece for row in places.reads for piece in row]
    out = []
    for x, scale in ((store.k, store.k_scale), (store.v, store.v_scale)):
        wide = [x.flatten(0, 1)[a:b] for a, b in pieces]
        if scale is not None:
            flat = scale.flatten(0, 1)
            wide = [(w * flat[a:b, :, None]).to(dtype) for w, (a, b) in zip(wide, pieces, strict=True)]
        out.append(wide[0] if len(wide) == 1 else torch.cat(wide))
    return out[0], out[1]


def _over_pieces(q: Tensor, store: Store, pieces: Sequence[tuple[int, int]], settings: dict[str, Any]) -> Tensor:
    """Attention of one query (1, Hq, D) over native pages in contiguous pieces; long ones are not copied."""
    keys, values = store.k.flatten(0, 1), store.v.flatten(0, 1)
    if len(pieces) == 1:
        ((a, b),) = pieces
        return _alone(q, keys[a:b], values[a:b], None, settings)
    few = sum(b - a for a, b in pieces) <= 1024  # copying is faster than merging
    if few or len(pieces) > 4 or settings["softcap"] is not None:
        k, v = (torch.cat([x[a:b] for a, b in pieces]) for x in (keys, values))
        return _alone(q, k, v, None, settings)
    parts = []
    for i, (a, b) in enumerate(pieces):
        once = settings if i == 0 else {**settings, "sinks": None}  # a sink counts once
        parts.append(attention(_heads(q), _heads(keys[a:b]), _heads(values[a:b]), return_lse=True, **once))
    return merge_attention(parts)[0][0].transpose(0, 1)


@dataclass(frozen=True)
class State:
    """State of a state-space or linear attention layer for one sequence: tensors [1, ...] or None, by number."""

    conv: tuple[Tensor | None, ...]
    recurrent: tuple[Tensor | None, ...]

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(t for t in (*self.conv, *self.recurrent) if t is not None)


class StateLayer(LinearAttentionLayer):
    """transformers' recurrent layer cache, loaded from and saved to snapshots."""

    def load(self, rows: Sequence[State]) -> None:
        """Load copies of the states of sequences; without any, start empty."""
        LinearAttentionLayer.__init__(self, self.number_of_states)
        for i in range(self.number_of_states if rows else 0):
            conv, recurrent = ([getattr(row, name)[i] for row in rows] for name in ("conv", "recurrent"))
            if conv[0] is not None:
                self.conv_states[i] = torch.cat(conv)
                self.conv_kernel_size[i] = conv[0].shape[-1]
                self.is_conv_states_initialized[i] = True
                self.dtype, self.device = conv[0].dtype, conv[0].device
            if recurrent[0] is not None:
                self.recurrent_states[i] = torch.cat(recurrent)
                self.is_recurrent_states_initialized[i] = True
            self.has_previous_state[i] = True

    def save(self, row: int) -> State:
        """Copy the state of one sequence."""
        both = [
            tuple(None if t is None else t[row : row + 1].clone() for t in states.values())
            for states in (self.conv_states, self.recurrent_states)
        ]
        return State(*both)


class HybridLayer(StateLayer, PagedLayer):  # type: ignore[override]
    """A layer with attention and a recurrent state."""

    def __init__(self, index: int, pool: Pool, int8: bool, states: int) -> None:
        StateLayer.__init__(self, states)
        PagedLayer.__init__(self, index, pool, int8, latent=False)


class PagedCache(Cache):
    """transformers' cache with our layers."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers=layers)
        self.paged = [layer for layer in layers if isinstance(layer, PagedLayer)]
        self.stateful = [layer for layer in layers if isinstance(layer, StateLayer)]


def layers_of(kinds: Sequence[tuple[str, int]], pools: Sequence[Pool], int8: bool, latent: bool) -> list[Any]:
    """A cache layer for each layer of a network; ``kinds`` are their kinds and numbers of states."""
    at = {layer: pool for pool in pools for layer in pool.layers}
    layers: list[Any] = []
    for index, (kind, states) in enumerate(kinds):
        if kind in HYBRID:
            layers.append(HybridLayer(index, at[index], int8, states))
        elif index in at:
            layers.append(PagedLayer(index, at[index], int8, latent))
        else:
            layers.append(DummyLayer() if kind == "dummy" else StateLayer(states))
    return layers
