"""KV cache of a causal Wan network: keys and values of every self-attention layer for past frames.

A network trained so that each chunk of frames attends to itself and to earlier frames (CausVid, Yin et al. 2024, arXiv
2412.07772; Self Forcing, Huang et al. 2025, arXiv 2506.08009) gives the same result when earlier keys and values are
cached. Keys are cached after rotary embedding, so eviction moves none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipegraph.context import holding
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.qk_norm_rope import qk_norm_rope

_THETA = 10_000.0


class Memory:
    """The KV cache of one video. Used by the network inside ``attached()``, in this thread."""

    def __init__(self, network: Any, rows: int, columns: int, frames: int, chunk: int, sink: int = 0) -> None:
        """An empty memory.

        Args:
            network: diffusers' WanTransformer3DModel. It is patched in place; without a cache it works as before.
            rows: Height of a frame in tokens.
            columns: Width of a frame in tokens.
            frames: Capacity in latent frames, including the current chunk.
            chunk: Latent frames per chunk.
            sink: First frames that are never evicted (arXiv 2309.17453).
        """
        _install(network)
        self.behind = 0
        """Latent frames cached so far, including evicted ones."""
        self._rows, self._columns, self._head = rows, columns, network.config.attention_head_dim
        self._room, self._chunk, self._sink, self._cached_frames = frames, chunk, sink, 0
        self._pictures: dict[Any, tuple[Tensor, Tensor]] = {}
        self._texts: dict[Any, tuple[Tensor, Tensor]] = {}
        self._turns: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def attached(self) -> AbstractContextManager[None]:
        """Let the network read this cache in this thread, and append the current frames to it."""
        return holding(_active, self)

    def keep(self, frames: int) -> None:
        """Keep the keys and values of the last call for this many latent frames; evict what no longer fits."""
        self.behind += frames
        self._cached_frames += frames
        self._turns.clear()
        lost = self._cached_frames + self._chunk - self._room
        if lost <= 0:
            return
        tokens = self._rows * self._columns
        start, filled = self._sink * tokens, (self._cached_frames - lost) * tokens
        for pair in self._pictures.values():
            for store in pair:
                store[:, start:filled] = store[:, start + lost * tokens : self._cached_frames * tokens].clone()
        self._cached_frames -= lost

    @property
    def bytes(self) -> int:
        """Size of the cached keys and values of frames."""
        return sum(store.nbytes for pair in self._pictures.values() for store in pair)

    def put(self, layer: Any, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values [B, H, S, D] of the current frames; all visible ones, [B, H, all, D]."""
        tokens = self._rows * self._columns
        if layer not in self._pictures:
            shape = (key.shape[0], self._room * tokens, key.shape[1], key.shape[3])
            self._pictures[layer] = key.new_empty(shape), value.new_empty(shape)
        start = self._cached_frames * tokens
        end = start + key.shape[2]
        both = []
        for store, new in zip(self._pictures[layer], (key, value), strict=True):
            store[:, start:end] = new.transpose(1, 2)
            both.append(store[:, :end].transpose(1, 2))
        return both[0], both[1]

    def text(self, layer: Any, make: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Keys and values of the text, computed once per layer."""
        if layer not in self._texts:
            self._texts[layer] = make()
        return self._texts[layer]

    def turns(self, tokens: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Rotary cosines and sines [tokens, D / 2] of the next tokens: time, row, column.

        Rotary embedding in three axes as Wan has it, for any place in time.
        """
        place = (self.behind, tokens)
        if place not in self._turns:
            side = 2 * (self._head // 6)
            frames = tokens // (self._rows * self._columns)
            time = _angles(self._head - 2 * side, self.behind, frames)[:, None, None]
            row = _angles(side, 0, self._rows)[None, :, None]
            column = _angles(side, 0, self._columns)[None, None]
            shape = (frames, self._rows, self._columns, -1)
            angles = torch.cat([a.expand(*shape) for a in (time, row, column)], -1).flatten(0, 2)
            self._turns[place] = angles.cos().float().to(device), angles.sin().float().to(device)
        return self._turns[place]


_active: ContextVar[Memory | None] = ContextVar("memory of a causal video network", default=None)


def _angles(size: int, start: int, count: int) -> Tensor:
    """Rotary angles float64 [count, size / 2] for positions from ``start`` on."""
    places = torch.arange(start, start + count, dtype=torch.float64)
    return places[:, None] / _THETA ** (torch.arange(0, size, 2, dtype=torch.float64) / size)


def _install(network: Any) -> None:
    """Let every attention layer of a network use the attached cache; without one it is unchanged."""
    for layer in (a for block in network.blocks for a in (block.attn1, block.attn2)):
        if getattr(layer.forward, "func", None) is not _attend:
            layer.forward = partial(_attend, layer, layer.forward)


def _attend(
    layer: Any,
    usual: Callable[..., Tensor],
    hidden_states: Tensor,
    encoder_hidden_states: Tensor | None = None,
    attention_mask: Tensor | None = None,
    rotary_emb: Any = None,
) -> Tensor:
    """WanAttention's forward with cached frames: tokens [B, S, C] in and out."""
    memory = _active.get()
    if memory is None:
        return usual(hidden_states, encoder_hidden_states, attention_mask, rotary_emb)

    def heads(x: Tensor) -> Tensor:
        split: Tensor = x.unflatten(2, (layer.heads, -1))
        return split.transpose(1, 2)

    q = heads(layer.norm_q(layer.to_q(hidden_states)))
    source = hidden_states if encoder_hidden_states is None else encoder_hidden_states

    def project() -> tuple[Tensor, Tensor]:
        return heads(layer.norm_k(layer.to_k(source))), heads(layer.to_v(source))

    if encoder_hidden_states is None:
        k, v = project()
        q, k = qk_norm_rope(q, k, None, None, *memory.turns(q.shape[2], q.device), None, interleaved=True)
        k, v = memory.put(layer, k, v)
    else:
        k, v = memory.text(layer, project)
    y = attention(q, k, v).transpose(1, 2).flatten(2)
    out: Tensor = layer.to_out[1](layer.to_out[0](y.type_as(hidden_states)))
    return out
