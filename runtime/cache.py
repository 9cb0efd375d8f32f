"""The memory of results: by key, with a limit in bytes; what was used longest ago goes first.

Sizes are found without knowing any tensor library: ``nbytes``, ``pipegraph_nbytes``, or the parameters of a network.
A tensor or network that several results hold counts once.
"""

from __future__ import annotations

import math
import os
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from threading import Lock
from typing import Any, Final, NamedTuple

ENTRY_BYTES: Final = 256
"""Assumed cost of an entry besides its tensors."""
MAX_CHECKED: Final = 1 << 30
"""Larger tensors are not searched for NaN."""
MAX_TRAILS: Final = 1 << 16
"""Of so many results it is remembered what their nodes said."""
_SMALL: Final = frozenset((int, bool, type(None)))


@dataclass(slots=True)
class Measure:
    """What a value holds: bytes of each large part by its ``id``, and whether all its numbers are finite."""

    parts: dict[int, int]
    finite: bool = True


NOTHING: Final = Measure({})


class Trail(NamedTuple):
    """What a node said while it made a result, and the keys of the results that it was made of."""

    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = {}
    sources: frozenset[str] = frozenset()


def measure(values: tuple[Any, ...]) -> Measure:
    """Size and soundness of a node's outputs."""
    stack = [value for value in values if type(value) not in _SMALL]
    if not stack:
        return NOTHING
    found = Measure({})
    seen: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, str | bytes | bytearray):
            if len(value) > ENTRY_BYTES:
                found.parts[id(value)] = len(value)
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            stack.extend(value)
        elif isinstance(value, float):
            found.finite = found.finite and math.isfinite(value)
        elif not isinstance(value, int | type | None):
            _measure_object(value, stack, found)
    return found


def _measure_object(value: Any, stack: list[Any], found: Measure) -> None:
    own = getattr(value, "pipegraph_nbytes", None)
    size = own() if callable(own) else own
    if size is None:
        size = getattr(value, "nbytes", None)
        if isinstance(size, int) and size <= MAX_CHECKED and not _finite(value):
            found.finite = False
    if isinstance(size, int):
        found.parts[id(value)] = size
    elif callable(parameters := getattr(value, "parameters", None)) and callable(getattr(value, "buffers", None)):
        found.parts[id(value)] = sum(p.nbytes for p in parameters()) + sum(b.nbytes for b in value.buffers())
    elif is_dataclass(value):
        stack.extend(getattr(value, f.name, None) for f in fields(value))
    elif isinstance(inside := getattr(value, "__dict__", None), dict):
        stack.extend(inside.values())
        found.parts[id(value)] = sys.getsizeof(value)


def _finite(tensor: Any) -> bool:
    """Whether a tensor with an ``isfinite`` method holds only finite numbers; others are taken to."""
    test = getattr(tensor, "isfinite", None)
    return bool(test().all()) if callable(test) else True


def default_limit() -> int:
    """A third of the machine's memory, in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 3
    except (AttributeError, ValueError, OSError):
        return 4 << 30


class MemoryCache:
    """Results by key; safe to use from several threads."""

    def __init__(self, limit: int | None = None) -> None:
        """Keep at most ``limit`` bytes; a third of the machine's memory if None, nothing at all if 0."""
        self.limit = default_limit() if limit is None else limit
        self.nbytes = 0
        self._entries: OrderedDict[str, tuple[tuple[Any, ...], dict[int, int]]] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._trails: OrderedDict[str, Trail] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> tuple[Any, ...] | None:
        """The outputs kept under ``key``, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: str, values: tuple[Any, ...], parts: Mapping[int, int]) -> None:
        """Keep outputs, measured by ``measure``; something larger than the limit is not kept."""
        if ENTRY_BYTES + sum(parts.values()) > self.limit:
            return
        with self._lock:
            if key in self._entries:
                self._drop(key)
            self._entries[key] = (values, dict(parts))
            self.nbytes += ENTRY_BYTES
            for part, size in parts.items():
                holders = self._holders.get(part, 0)
                self._holders[part] = holders + 1
                self.nbytes += 0 if holders else size
            while self.nbytes > self.limit:
                self._drop(next(iter(self._entries)))

    def trail(self, key: str) -> Trail:
        """What was said while the result under ``key`` was made; it is kept longer than the result."""
        with self._lock:
            return self._trails.get(key, Trail())

    def remember(self, key: str, trail: Trail) -> None:
        """Keep what was said while the result under ``key`` was made."""
        with self._lock:
            self._trails[key] = trail
            self._trails.move_to_end(key)
            if len(self._trails) > MAX_TRAILS:
                self._trails.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._trails.clear()
            self._entries.clear()
            self._holders.clear()
            self.nbytes = 0

    def _drop(self, key: str) -> None:
        _, parts = self._entries.pop(key)
        self.nbytes -= ENTRY_BYTES
        for part, size in parts.items():
            self._holders[part] -= 1
            if not self._holders[part]:
                del self._holders[part]
                self.nbytes -= size
