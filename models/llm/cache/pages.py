"""Memory for keys and values in blocks of tokens, shared by the caches of many sequences.

A block has one number in a pool and one page in the store of each layer of that pool. Tokens are only ever written
behind those that a cache holds, so a block that several caches share is copied when the second of them goes on from the
same token, and not before.
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
"""Tokens of a block."""
SMALL = 64
"""A pool of fewer pages is not made smaller."""


class Block:
    """A page number that is free again when nobody refers to it any more."""

    pipegraph_shared = True

    __slots__ = ("filled", "number", "owner", "pool", "since")

    def __init__(self, pool: Pool, number: int) -> None:
        self.pool = pool
        self.number = number
        self.filled = 0
        """Tokens that somebody has written."""
        self.owner: object = None
        """Who may write again what lies behind ``since``."""
        self.since = 0

    def __del__(self) -> None:
        self.pool.used[self.number] = 0

    def seal(self) -> None:
        """Nobody may write here any more."""
        self.owner, self.filled = None, PAGE

    def claim(self, owner: object, kept: int, upto: int) -> bool:
        """Reserve the tokens ``kept`` .. ``upto`` for writing; false if another has written there."""
        if self.filled == kept and self.owner is not owner:
            self.owner, self.since = owner, kept
        elif self.owner is not owner or kept < self.since:
            return False
        self.filled = max(self.filled, upto)
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
        made = [x.new_empty(pages, PAGE, *x.shape[1:], dtype=torch.int8 if int8 else x.dtype) for x in (k, v)]
        scales = [x.new_empty(pages, PAGE, x.shape[1], dtype=torch.float32) for x in (k, v)] if int8 else []
        return cls(*made, *scales)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(x for x in (self.k, self.v, self.k_scale, self.v_scale) if x is not None)

    def grow(self, pages: int) -> None:
        """Make room for ``pages`` pages, by copying those there are."""
        for name in ("k", "v", "k_scale", "v_scale"):
            old: Any = getattr(self, name)
            if old is not None and len(old) < pages:
                new = old.new_empty(pages, *old.shape[1:])
                new[: len(old)] = old
                setattr(self, name, new)

    def cut(self, pages: int) -> None:
        """Give the memory of all but the first ``pages`` pages back."""
        for name in ("k", "v", "k_scale", "v_scale"):
            old: Any = getattr(self, name)
            if old is not None:
                setattr(self, name, old[:pages].clone())

    def copy(self, source: int, target: int) -> None:
        """Copy one page to another."""
        for x in self.tensors():
            x[target] = x[source]


class Pool:
    """Pages for the layers that keep the same tokens: those without a window, or those with the same window."""

    pipegraph_shared = True

    def __init__(self, layers: Sequence[int], window: int | None) -> None:
        self.layers = tuple(layers)
        self.window = window
        self.used = bytearray()
        self.stores: dict[int, Store] = {}
        self.lock = RLock()

    @property
    def page_bytes(self) -> int:
        """Of one block in all layers."""
        return sum(x[0].nbytes for s in self.stores.values() for x in s.tensors() if len(x))

    def allocate(self, count: int, after: Block | None = None) -> list[Block]:
        """New blocks side by side, if there is room right behind ``after``."""
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

    def copy(self, block: Block, kept: int) -> Block:
        """A block of one's own with the first ``kept`` tokens of another."""
        made = self.allocate(1)[0]
        for store in self.stores.values():
            store.copy(block.number, made.number)
        made.filled = kept
        return made

    def store(self, layer: int, k: Tensor, v: Tensor, int8: bool) -> Store:
        """The pages of a layer, made when its first tokens (T, H, D) and (T, H, Dv) come."""
        if layer not in self.stores:
            self.stores[layer] = Store.like(k, v, len(self.used), int8)
        return self.stores[layer]

    def shrink(self) -> None:
        """Give memory back, if much of it is unused."""
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
    """(first, count) of each run of numbers that follow one another."""
    found = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        found.append((members[0], len(members)))
    return found
