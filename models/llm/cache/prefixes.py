"""Prefix cache: a prompt that begins with tokens that the model has read before runs only the rest.

A radix tree (SGLang's RadixAttention, arXiv 2312.07104) of whole blocks: a node is a block of tokens with the pages of
their keys and values, and its path from the root is the prefix. Tokens themselves are compared, not hashes. Eviction is
least recently used, leaves first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING

from ..tokens import Tokens
from .budget import kv_budget
from .kv_cache import KVCache, KVKind, MutableKVCache, Table, pools_of
from .pages import PAGE, Block

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from ..llm import LLM

Ids = tuple[int, ...]


class PrefixNode:
    """A block of tokens: its page in each pool (None if it has left the window), and the blocks that follow it."""

    __slots__ = ("blocks", "next", "used")

    def __init__(self, pools: int) -> None:
        self.blocks: list[Block | None] = [None] * pools
        self.next: dict[Ids, PrefixNode] = {}
        self.used = 0


class PrefixCache:
    """A model's pools for keys and values of one kind, and the prefixes cached in them."""

    def __init__(self, llm: LLM, kv: KVKind) -> None:
        self.kv = kv
        self.pools = pools_of(llm)
        self.reuses = llm.facts.croppable and not llm.facts.long_positions
        """False with recurrent states, which hold all tokens before them, and with positions that depend on the length
        of the prompt, whose keys differ in a shorter one."""
        self.nbytes = 0
        """Bytes of the tree's blocks."""
        self.lock = RLock()
        self._root: dict[Ids, PrefixNode] = {}
        self._clock = count(1)

    @classmethod
    def of(cls, llm: LLM, kv: KVKind) -> PrefixCache:
        """The prefix cache of a model on its device; created at the first call."""
        key = kv, str(llm.loaded.device)
        cache: PrefixCache = llm.prefix_caches.get(key) or llm.prefix_caches.setdefault(key, cls(llm, kv))
        return cache

    def begin(self, tokens: Tokens) -> KVCache:
        """A cache with the longest cached prefix of each sequence, short of its last token."""
        paths = [self._longest(ids) if self.reuses else [] for ids in tokens]
        tables = tuple(tuple(self._table(at, path) for path in paths) for at in range(len(self.pools)))
        held = Tokens(tuple(ids[: len(path) * PAGE] for ids, path in zip(tokens, paths, strict=True)))
        return KVCache(held, self.kv, self.pools, tables)

    def add(self, ids: Sequence[int], tables: Sequence[Sequence[Block | None]]) -> None:
        """Cache the whole blocks of a sequence, from its table in each pool; they become read-only."""
        if not self.reuses:
            return
        with self.lock:
            now, level = next(self._clock), self._root
            for at in range(len(ids) // PAGE):
                key = tuple(ids[at * PAGE : (at + 1) * PAGE])
                node = level.get(key)
                if node is None:
                    node = level[key] = PrefixNode(len(self.pools))
                node.used = now
                for pool, table in enumerate(tables):
                    if node.blocks[pool] is None and (block := table[at]) is not None:
                        block.seal()
                        node.blocks[pool] = block
                        self.nbytes += block.pool.page_bytes
                level = node.next

    def shrink(self, limit: int) -> None:
        """Evict the least recently used blocks down to ``limit`` bytes, and free unused memory."""
        with self.lock:
            if self.nbytes > limit:
                for _, _, level, key in sorted(_walk(self._root, 0), key=lambda entry: entry[:2]):
                    self.nbytes -= sum(b.pool.page_bytes for b in level[key].blocks if b is not None)
                    del level[key]  # its children are gone: none was used later
                    if self.nbytes <= limit:
                        break
        for pool in self.pools:
            pool.shrink()

    def _longest(self, ids: Ids) -> list[PrefixNode]:
        """Nodes of the longest prefix of these tokens whose pages are there, as far as later tokens attend to them."""
        path: list[PrefixNode] = []
        with self.lock:
            now, level = next(self._clock), self._root
            for at in range((len(ids) - 1) // PAGE):
                node = level.get(ids[at * PAGE : (at + 1) * PAGE])
                if node is None:
                    break
                path.append(node)
                level = node.next
            while path and not all(all(self._visible(at, path)) for at in range(len(self.pools))):
                path.pop()
            for node in path:
                node.used = now
        return path

    def _visible(self, at: int, path: Sequence[PrefixNode]) -> list[Block | None]:
        """The pages of a path in a pool that the next token attends to."""
        window = self.pools[at].window
        first = 0 if window is None else max(0, len(path) * PAGE - window + 1) // PAGE
        return [node.blocks[at] for node in path[first:]]

    def _table(self, at: int, path: Sequence[PrefixNode]) -> Table:
        visible = self._visible(at, path)
        return (*[None] * (len(path) - len(visible)), *visible)


def _walk(
    level: MutableMapping[Ids, PrefixNode], depth: int
) -> Iterator[tuple[int, int, MutableMapping[Ids, PrefixNode], Ids]]:
    """(last use, -depth, siblings, key) of each node."""
    stack = [(level, depth)]
    while stack:
        level, depth = stack.pop()
        for key, node in level.items():
            yield node.used, -depth, level, key
            stack.append((node.next, depth + 1))


def keep(llm: LLM, work: MutableKVCache, sequences: Iterable[int]) -> None:
    """Add sequences to the model's prefix cache, within the budget; not those with images: ids do not identify them."""
    prefixes: PrefixCache | None = llm.prefix_caches.get((work.kv, str(llm.loaded.device)))
    if prefixes is None or prefixes.pools is not work.pools:
        return
    for s in sequences:
        if not work.pictures[s]:
            prefixes.add(work.ids[s], [tables[s] for tables in work.tables])
    prefixes.shrink(kv_budget(llm.loaded.device))
