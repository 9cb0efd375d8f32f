"""The memory of results: by key, with a limit in bytes; what was used longest ago goes first.

Sizes are found without knowing any tensor library: ``nbytes``, ``pipegraph_nbytes``, or the parameters of a network.
A tensor or network that several results hold counts once.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from threading import Lock
from typing import Any, Final, NamedTuple

from pipegraph.memory import size_setting, total_memory

VARIABLE: Final = "PIPEGRAPH_CACHE_MEMORY"
ENTRY_BYTES: Final = 256
"""Assumed cost of an entry besides its tensors."""
TRIM_BYTES: Final = 256 << 20
"""After so many bytes of new results freed memory is given back (20 ms): else a process holds twice as much."""
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
    """Add an object; a tensor counts with the whole memory that it keeps alive, which may be more than it shows."""
    own = getattr(value, "pipegraph_nbytes", None)
    size = own() if callable(own) else own
    if size is None:
        size = getattr(value, "nbytes", None)
        if isinstance(size, int) and not _finite(value):
            found.finite = False
    if callable(storage := getattr(value, "untyped_storage", None)) and size is not None:
        memory = storage()
        found.parts[memory.data_ptr()] = memory.nbytes()
    elif isinstance(size, int):
        found.parts[id(value)] = size
    elif callable(parameters := getattr(value, "parameters", None)) and callable(getattr(value, "buffers", None)):
        found.parts[id(value)] = sum(p.nbytes for p in parameters()) + sum(b.nbytes for b in value.buffers())
    elif is_dataclass(value):
        stack.extend(getattr(value, f.name, None) for f in fields(value))
    elif isinstance(inside := getattr(value, "__dict__", None), dict):
        stack.extend(inside.values())
        found.parts[id(value)] = sys.getsizeof(value)


def _finite(tensor: Any) -> bool:
    """Whether a tensor with an ``isfinite`` method holds only finite numbers; others are taken to.

    A finite sum has finite terms. It is 30 times as fast as the exact test, which is needed for other sums only: they
    may have overflowed.
    """
    if not callable(getattr(tensor, "isfinite", None)):
        return True
    try:
        if bool(tensor.sum().isfinite()):
            return True
    except (AttributeError, RuntimeError):  # a type that torch cannot add up, such as float8
        pass
    return bool(tensor.isfinite().all())


def default_limit() -> int:
    """Bytes that ``PIPEGRAPH_CACHE_MEMORY`` names, or a third of the machine's memory.

    Raises:
        ValueError: the variable is no size.
    """
    return size_setting(VARIABLE, total_memory() // 3)


@cache
def _c_library() -> Any:
    """The C library, if it can be asked to give back memory (glibc)."""
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim  # noqa: B018 - AttributeError where there is none
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _give_back() -> None:
    """Give freed memory back to the system: glibc keeps gaps between large blocks that it cannot use again."""
    if library := _c_library():
        library.malloc_trim(0)


class MemoryCache:
    """Results by key; safe to use from several threads."""

    def __init__(self, limit: int | None = None) -> None:
        """Keep at most ``limit`` bytes; that of ``default_limit`` if None, nothing at all if 0."""
        self.limit = default_limit() if limit is None else limit
        self.nbytes = 0
        self._untrimmed = 0
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
                if not holders:
                    self.nbytes += size
                    self._untrimmed += size
            while self.nbytes > self.limit:
                self._drop(next(iter(self._entries)))
            trim = self._untrimmed >= TRIM_BYTES
            self._untrimmed = 0 if trim else self._untrimmed
        if trim:
            _give_back()

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
        _give_back()

    def _drop(self, key: str) -> None:
        _, parts = self._entries.pop(key)
        self.nbytes -= ENTRY_BYTES
        for part, size in parts.items():
            self._holders[part] -= 1
            if not self._holders[part]:
                del self._holders[part]
                self.nbytes -= size
