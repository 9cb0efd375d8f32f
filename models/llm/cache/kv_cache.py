"""The value on a KV_CACHE wire, and the working copy that a network appends to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ..facts import LayerKind
from ..tokens import Tokens
from .pages import PAGE, Block, Pool, runs

if TYPE_CHECKING:
    from ..llm import LLM
    from ..network.layers import State

KVKind = Literal["native", "int8"]
HYBRID = ("hybrid", "hybrid_sliding")
"""Layers with attention and a state, in transformers' words."""
Table = tuple[Block | None, ...]
"""The blocks of a sequence, in order; None for those that have left the window."""


@dataclass(frozen=True, eq=False)
class KVCache:
    """Keys, values and states of sequences. Immutable: continuing from it gives a new cache.

    Values share blocks: a fork, or the cache after some more tokens, holds the blocks of the prefix and not copies.
    """

    tokens: Tokens
    """The cached tokens, one sequence per row."""
    kv: KVKind
    pools: tuple[Pool, ...] = field(repr=False)
    tables: tuple[tuple[Table, ...], ...] = field(repr=False)
    """[pool][sequence]"""
    states: tuple[tuple[State, ...], ...] = field(repr=False, default=())
    """[sequence][layer] of state-space and linear attention layers: snapshots; empty without such layers."""

    @classmethod
    def empty(cls, llm: LLM, sequences: int, kv: KVKind = "native") -> KVCache:
        """A cache of ``sequences`` sequences without tokens.

        Raises:
            ValueError: an unknown ``kv``, or a model with layers that cannot be cached.
        """
        if kv not in ("native", "int8"):
            raise ValueError(f"a cache is kept `native` or as `int8`, not {kv!r}")
        pools = pools_of(llm)
        return cls(Tokens(((),) * sequences), kv, pools, tuple(((),) * sequences for _ in pools))

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self.tokens)

    @property
    def lengths(self) -> tuple[int, ...]:
        return self.tokens.lengths

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks and states of this cache, shared blocks included."""
        return held_bytes(self)

    def fork(self) -> KVCache:
        """The same sequences, to continue differently: no block is copied."""
        return self.select(range(len(self)))

    def select(self, sequences: Iterable[int]) -> KVCache:
        """Sequences by index, with repetition: ``select([0] * 3)`` forks the first three times."""
        chosen = list(sequences)
        return KVCache(
            Tokens.of((self.tokens.ids[s] for s in chosen), (self.tokens.pictures_of(s) for s in chosen)),
            self.kv,
            self.pools,
            tuple(tuple(table[s] for s in chosen) for table in self.tables),
            tuple(self.states[s] for s in chosen) if self.states else (),
        )


def held_bytes(*caches: KVCache) -> int:
    """Bytes of several caches together; shared blocks count once."""
    blocks = {id(b): b for cache in caches for pool in cache.tables for table in pool for b in table if b is not None}
    states = {id(t): t for cache in caches for row in cache.states for state in row for t in state.tensors()}
    sizes = {id(p): p.page_bytes for cache in caches for p in cache.pools}
    return sum(sizes[id(b.pool)] for b in blocks.values()) + sum(t.nbytes for t in states.values())


def pools_of(llm: LLM) -> tuple[Pool, ...]:
    """New pools for the attention layers of a model."""
    return tuple(Pool(layers, window) for window, layers in attention_groups(llm.facts.kinds, llm.loaded.name).items())


def attention_groups(kinds: Sequence[LayerKind], name: str) -> dict[int | None, list[int]]:
    """Attention layers by window (None: no window).

    Raises:
        ValueError: a layer needs a cache that is not supported.
    """
    groups: dict[int | None, list[int]] = {}
    for layer, (kind, window, _) in enumerate(kinds):
        if kind in ("full_attention", "sliding_attention", *HYBRID):
            groups.setdefault(window, []).append(layer)
        elif kind not in ("linear_attention", "conv", "dummy"):
            raise ValueError(f"{name}: layer {layer} keeps a cache of the kind `{kind}`, which is not supported")
    return groups


class MutableKVCache:
    """Blocks and lengths of a cache while a network appends to it."""

    def __init__(self, cache: KVCache, device: torch.device) -> None:
        self.kv = cache.kv
        self.device = device
        self.pools = cache.pools
        self.ids = [list(row) for row in cache.tokens]
        self.pictures = [list(cache.tokens.pictures_of(s)) for s in range(len(cache))]
        """By sequence; includes images whose tokens are not appended yet."""
        self.tables = [[list(table) for table in pool] for pool in cache.tables]
        self._spare: list[list[list[Block]]] = [[[] for _ in pool] for pool in cache.tables]
        self._owners = [object() for _ in self.ids]
        """Owner of claimed blocks, by sequence: sequences of a fork begin with the same blocks."""

    @property
    def lengths(self) -> list[int]:
        return [len(row) for row in self.ids]

    def append(self, sequence: int, ids: Sequence[int], reserve: int = 0) -> None:
        """Append tokens whose keys and values the next step writes; allocate for ``reserve`` more."""
        start = len(self.ids[sequence])
        self.ids[sequence] += ids
        for pool, tables, spare in zip(self.pools, self.tables, self._spare, strict=True):
            self._fit(pool, tables[sequence], spare[sequence], self._owners[sequence], start, start + len(ids), reserve)

    def _fit(
        self,
        pool: Pool,
        table: list[Block | None],
        spare: list[Block],
        owner: object,
        start: int,
        end: int,
        reserve: int,
    ) -> None:
        """Give a table writable blocks for the tokens ``start`` .. ``end``."""
        for at in range(start // PAGE, -(-end // PAGE)):
            first, last = max(start - at * PAGE, 0), min(end - at * PAGE, PAGE)
            if at < len(table):
                block = table[at]
                assert block is not None  # windows keep the block of the last token
                if not block.claim(owner, first, last):
                    table[at] = block = pool.copy(block, first)
                    block.claim(owner, first, last)
                continue
            if not spare:
                need = -(-(end + reserve) // PAGE) - at
                spare += reversed(pool.allocate(need, table[-1] if table else None))
            block = spare.pop()
            block.claim(owner, first, last)
            table.append(block)

    def crop(self, sequence: int, length: int) -> None:
        """Drop the tokens of a sequence from ``length`` on."""
        del self.ids[sequence][length:]
        self.pictures[sequence] = [p for p in self.pictures[sequence] if p.spots[0] < length]
        for tables in self.tables:
            del tables[sequence][-(-length // PAGE) :]

    def trim(self) -> None:
        """Release blocks that have left the window; ``crop`` cannot restore them."""
        for pool, tables in zip(self.pools, self.tables, strict=True):
            if pool.window is None:
                continue
            for ids, table in zip(self.ids, tables, strict=True):
                whole = len(ids) // PAGE * PAGE  # continuing from the last whole block needs more than from here
                gone = max(0, whole + 1 - pool.window) // PAGE
                for at in range(min(gone, len(table)) - 1, -1, -1):
                    if table[at] is None:
                        break
                    table[at] = None

    def places(self, rows: Sequence[int], counts: Sequence[int]) -> list[Places]:
        """For each pool, the slots of the last ``counts`` tokens of sequences, and those they attend to."""
        return [self._place(p, t, rows, counts) for p, t in zip(self.pools, self.tables, strict=True)]

    def _place(
        self, pool: Pool, tables: list[list[Block | None]], rows: Sequence[int], counts: Sequence[int]
    ) -> Places:
        places = Places([], [], [], [], self.device)
        at = 0
        for row, count in zip(rows, counts, strict=True):
            numbers = [block.number for block in tables[row] if block is not None]
            gone = (len(tables[row]) - len(numbers)) * PAGE
            end = len(self.ids[row])
            first = 0 if pool.window is None else max(0, end - count - pool.window + 1)
            if first < gone:
                raise ValueError("tokens that left the window are needed again: the cache was cropped after a trim")
            end -= gone
            for low, high in _pieces(numbers, end - count, end):
                places.writes.append((at, low, high - low))
                at += high - low
            places.reads.append(_pieces(numbers, first - gone, end))
            places.tables.append(numbers)
            places.lengths.append(end)
        return places

    def freeze(self, states: tuple[tuple[State, ...], ...]) -> KVCache:
        """The cache as it is now; later appends do not change it."""
        self._owners = [object() for _ in self.ids]
        tables = tuple(tuple(tuple(table) for table in pool) for pool in self.tables)
        return KVCache(Tokens.of(self.ids, self.pictures), self.kv, self.pools, tables, states)


@dataclass
class Places:
    """Slots of the tokens of one step in a pool."""

    writes: list[tuple[int, int, int]]
    """(first token of the step, first slot, count) of each run written to contiguous slots."""
    reads: list[list[tuple[int, int]]]
    """For each row, ranges (first slot, end slot) of the tokens it attends to, its own included."""
    tables: list[list[int]]
    """For each row, its block numbers, from the first in the window."""
    lengths: list[int]
    """For each row, the number of tokens in these blocks."""
    device: torch.device

    @cached_property
    def table(self) -> Tensor:
        """Block table (rows, blocks), int32."""
        width = max(map(len, self.tables))
        return torch.tensor([t + [0] * (width - len(t)) for t in self.tables], dtype=torch.int32, device=self.device)

    @cached_property
    def ends(self) -> Tensor:
        """(rows,) int32: the lengths."""
        return torch.tensor(self.lengths, dtype=torch.int32, device=self.device)

    @cached_property
    def slots(self) -> Tensor:
        """(tokens,) int64: the slot of each token of the step."""
        places = [slot + i for _, slot, n in self.writes for i in range(n)]
        return torch.tensor(places, dtype=torch.int64, device=self.device)


def _pieces(numbers: Sequence[int], start: int, end: int) -> list[tuple[int, int]]:
    """The tokens ``start`` .. ``end`` of a table as ranges of contiguous slots."""
    ranges = []
    at = 0
    for first, count in runs(numbers):
        low, high = max(start, at), min(end, at + count * PAGE)
        if low < high:
            ranges.append((first * PAGE + low - at, first * PAGE + high - at))
        at += count * PAGE
    return ranges
