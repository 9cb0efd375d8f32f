"""Paged memory for keys and values, in blocks of tokens shared by the caches of many sequences.

A block has one number in a pool and one page in the store of each layer of that pool. Tokens are only appended, so a
shared block is copied when the second of its caches appends after the same token, and not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from threading import RLock
from typing import Any

import torch
from torch import Tensor

PAGE = 32
"""Tokens per block."""
SMALL = 64
"""A pool of fewer pages does not shrink."""


class Block:
    """A page number, free again when the last reference to the block goes."""

    pipegraph_shared = True

    __slots__ = ("filled", "number", "owner", "pool", "since")

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.number = number
        self.filled = 0
        """Tokens written so far, by any cache."""
        self.owner: object = None
        """The sequence that may overwrite tokens from ``since`` on."""
        self.since = 0

    def __del__(self) -> None:
        self.pool.used[self.number] = 0

    def seal(self) -> None:
        """Make the block read-only."""
        self.owner, self.filled = None, PAGE

    def claim(self, owner: object, start: int, end: int) -> bool:
        """Reserve the tokens ``start`` .. ``end`` for writing; false if another sequence has written there."""
        if self.filled == start and self.owner is not owner:
            self.owner, self.since = owner, start
        elif self.owner is not owner or start < self.since:
            return False
        self.filled = max(self.filled, end)
        return True


@dataclass
class Store:
    """Pages of one layer: keys [pages, PAGE, H, D] and values [pages, PAGE, H, Dv], for int8 with scales [.., H]."""

    k: Tensor
    v: Tensor
    k_scale: Tensor | None = None
    v_scale: Tensor | None = None

    @classmethod
    def like(cls, k: Tensor, v: Tensor, pages: int, int8: bool) -> Store:
        """Empty pages for tokens (T, H, D) and (T, H, Dv)."""
        data = [x.new_empty(pages, PAGE, *x.shape[1:], dtype=torch.int8 if int8 else x.dtype) for x in (k, v)]
        scales = [x.new_empty(pages, PAGE, x.shape[1], dtype=torch.float32) for x in (k, v)] if int8 else []
        return cls(*data, *scales)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(x for x in (self.k, self.v, self.k_scale, self.v_scale) if x is not None)

    def grow(self, pages: int) -> None:
        """Grow to ``pages`` pages, copying the present ones."""
        for name in ("k", "v", "k_scale", "v_scale"):
            old: Any = getattr(self, name)
            if old is not None and len(old) < pages:
                new = old.new_empty(pages, *old.shape[1:])
                new[: len(old)] = old
                setattr(self, name, new)

    def cut(self, pages: int) -> None:
        """Free all but the first ``pages`` pages."""
        for name in ("k", "v", "k_scale", "v_scale"):
            old: Any = getattr(self, name)
            if old is not None:
                setattr(self, name, old[:pages].clone())

    def copy(self, source: int, target: int) -> None:
        """Copy one page to another."""
        for x in self.tensors():
            x[target] = x[source]


class Pool:
    """Pages for layers with the same window, or for those without one."""

    pipegraph_shared = True

    def __init__(self, layers: Sequence[int], window: int | None) -> None:
        self.layers = tuple(layers)
        self.window = window
        self.used = bytearray()
        self.stores: dict[int, Store] = {}
        self.lock = RLock()

    @property
    def page_bytes(self) -> int:
        """Bytes of one block in all layers of the pool."""
        return sum(x[0].nbytes for s in self.stores.values() for x in s.tensors() if len(x))

    def allocate(self, count: int, after: Block | None = None) -> list[Block]:
        """New contiguous blocks, directly after ``after`` if there is room."""
        with self.lock:
            free = bytes(count)
            start = -1 if after is None else after.number + 1
            if after is None or any(self.used[start : start + count]):
                start = self.used.find(free)
            if start < 0:
                start = len(self.used.rstrip(b"\0"))
            if start + count > len(self.used):
                self._grow(max(start + count, len(self.used) * 5 // 4))
            self.used[start : start + count] = b"\1" * count
            return [Block(self, n) for n in range(start, start + count)]

    def copy(self, block: Block, count: int) -> Block:
        """A new block with the first ``count`` tokens of another."""
        copied = self.allocate(1)[0]
        for store in self.stores.values():
            store.copy(block.number, copied.number)
        copied.filled = count
        return copied

    def store(self, layer: int, k: Tensor, v: Tensor, int8: bool) -> Store:
        """The pages of a layer, allocated at its first tokens (T, H, D) and (T, H, Dv)."""
        if layer not in self.stores:
            self.stores[layer] = Store.like(k, v, len(self.used), int8)
        return self.stores[layer]

    def shrink(self) -> None:
        """Free memory if more than half of it is unused."""
        with self.lock:
            need = len(self.used.rstrip(b"\0"))
            if need and (len(self.used) < SMALL or 2 * need >= len(self.used)):
                return
            del self.used[need:]
            if not need:
                self.stores.clear()
            for store in self.stores.values():
                store.cut(need)

    def _grow(self, pages: int) -> None:
        self.used.extend(bytes(pages - len(self.used)))
        for store in self.stores.values():
            store.grow(pages)


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of each run of consecutive numbers."""
    ranges = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        ranges.append((members[0], len(members)))
    return ranges
