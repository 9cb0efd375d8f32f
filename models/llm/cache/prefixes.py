"""What a model has read, kept by content: a prompt that begins with the same tokens reads only the rest.

A tree has a block of tokens at each node, with the pages that hold their keys and values, and their path from the root
says what came before them (the idea of SGLang's RadixAttention, arXiv 2312.07104, by whole blocks). Tokens are compared
themselves, not hashes of them. What was used longest ago is dropped first, ends before beginnings.
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


class Node:
    """A block of tokens: its pages by pool (None where they have left a window), and what follows it."""

    __slots__ = ("blocks", "next", "used")

    def __init__(self, pools: int) -> None:
        self.blocks: list[Block | None] = [None] * pools
        self.next: dict[Ids, Node] = {}
        self.used = 0


class PrefixCache:
    """The memory of a model for its keys and values of one kind, and what is kept in it beyond the caches in use."""

    def __init__(self, llm: LLM, kv: KVKind) -> None:
        self.kv = kv
        self.pools = pools_of(llm)
        self.reuses = llm.facts.croppable and not llm.facts.long_positions
        """A state holds all tokens before it and nothing of one alone; positions that depend on the length of the
        prompt make other keys in a shorter one."""
        self.nbytes = 0
        """Of the tree."""
        self.lock = RLock()
        self._root: dict[Ids, Node] = {}
        self._clock = count(1)

    @classmethod
    def of(cls, llm: LLM, kv: KVKind) -> PrefixCache:
        """That of a model, made when it is first asked for."""
        key = kv, str(llm.loaded.device)
        made: PrefixCache = llm.kept.get(key) or llm.kept.setdefault(key, cls(llm, kv))
        return made

    def begin(self, tokens: Tokens) -> KVCache:
        """A cache with the longest beginning that is kept of each sequence, which leaves one token at least to read."""
        found = [self._longest(ids) if self.reuses else [] for ids in tokens]
        tables = tuple(tuple(self._table(at, path) for path in found) for at in range(len(self.pools)))
        held = Tokens(tuple(ids[: len(path) * PAGE] for ids, path in zip(tokens, found, strict=True)))
        return KVCache(held, self.kv, self.pools, tables)

    def add(self, ids: Sequence[int], tables: Sequence[Sequence[Block | None]]) -> None:
        """Keep the whole blocks of a sequence, given its table in each pool. Nobody may write into them any more."""
        if not self.reuses:
            return
        with self.lock:
            now, level = next(self._clock), self._root
            for at in range(len(ids) // PAGE):
                key = tuple(ids[at * PAGE : (at + 1) * PAGE])
                node = level.get(key)
                if node is None:
                    node = level[key] = Node(len(self.pools))
                node.used = now
                for pool, table in enumerate(tables):
                    if node.blocks[pool] is None and (block := table[at]) is not None:
                        block.seal()
                        node.blocks[pool] = block
                        self.nbytes += block.pool.page_bytes
                level = node.next

    def shrink(self, limit: int) -> None:
        """Drop what was used longest ago until at most ``limit`` bytes are kept, and give unused memory back."""
        with self.lock:
            if self.nbytes > limit:
                for _, _, level, key in sorted(_walk(self._root, 0), key=lambda found: found[:2]):
                    self.nbytes -= sum(b.pool.page_bytes for b in level[key].blocks if b is not None)
                    del level[key]  # its ends are gone: none was used after it
                    if self.nbytes <= limit:
                        break
        for pool in self.pools:
            pool.shrink()

    def _longest(self, ids: Ids) -> list[Node]:
        """The nodes of a beginning of these tokens whose pages are all there, as far as later tokens see them."""
        path: list[Node] = []
        with self.lock:
            now, level = next(self._clock), self._root
            for at in range((len(ids) - 1) // PAGE):
                node = level.get(ids[at * PAGE : (at + 1) * PAGE])
                if node is None:
                    break
                path.append(node)
                level = node.next
            while path and not all(all(self._seen(at, path)) for at in range(len(self.pools))):
                path.pop()
            for node in path:
                node.used = now
        return path

    def _seen(self, at: int, path: Sequence[Node]) -> list[Block | None]:
        """The pages of a path that the token behind it sees in a pool."""
        window = self.pools[at].window
        first = 0 if window is None else max(0, len(path) * PAGE - window + 1) // PAGE
        return [node.blocks[at] for node in path[first:]]

    def _table(self, at: int, path: Sequence[Node]) -> Table:
        seen = self._seen(at, path)
        return (*[None] * (len(path) - len(seen)), *seen)


def _walk(level: MutableMapping[Ids, Node], depth: int) -> Iterator[tuple[int, int, MutableMapping[Ids, Node], Ids]]:
    """(last use, -depth, siblings, key) of each node."""
    stack = [(level, depth)]
    while stack:
        level, depth = stack.pop()
        for key, node in level.items():
            yield node.used, -depth, level, key
            stack.append((node.next, depth + 1))


def keep(llm: LLM, work: MutableKVCache, sequences: Iterable[int]) -> None:
    """Keep what sequences hold in the model's own pools, within the budget; pictures are not told by tokens alone."""
    kept: PrefixCache | None = llm.kept.get((work.kv, str(llm.loaded.device)))
    if kept is None or kept.pools is not work.pools:
        return
    for s in sequences:
        if not work.pictures[s]:
            kept.add(work.ids[s], [tables[s] for tables in work.tables])
    kept.shrink(kv_budget(llm.loaded.device))
