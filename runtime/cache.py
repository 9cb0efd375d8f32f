"""Cache of results by key, with a limit in bytes; least recently used results are dropped first.

Sizes are measured without a tensor library: ``nbytes``, ``pipegraph_nbytes``, or the parameters of a network. A tensor
or network that several results share counts once.
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
"""Bytes of new results after which freed memory is returned to the system (20 ms); else memory use doubles."""
MAX_TRAILS: Final = 1 << 16
"""Number of results whose warnings and notes are remembered."""
_SMALL: Final = frozenset((int, bool, type(None)))


@dataclass(slots=True)
class Measure:
    """Size of a value: bytes of each large part by ``id``, and whether all numbers are finite."""

    parts: dict[int, int]
    finite: bool = True


NOTHING: Final = Measure({})


class Trail(NamedTuple):
    """Warnings and notes of the node that made a result, and the keys of its inputs."""

    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = {}
    sources: frozenset[str] = frozenset()


def measure(values: tuple[Any, ...]) -> Measure:
    """Measure a node's outputs: size, and whether they are finite."""
    stack = [value for value in values if type(value) not in _SMALL]
    if not stack:
        return NOTHING
    measured = Measure({})
    visited: set[int] = set()
    while stack:
        value = stack.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, str | bytes | bytearray):
            if len(value) > ENTRY_BYTES:
                measured.parts[id(value)] = len(value)
        elif isinstance(value, Mapping):
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            stack.extend(value)
        elif isinstance(value, float):
            measured.finite = measured.finite and math.isfinite(value)
        elif not isinstance(value, int | type | None):
            _measure_object(value, stack, measured)
    return measured


def _measure_object(value: Any, stack: list[Any], measured: Measure) -> None:
    """Add an object; a tensor counts with its whole storage, which may be larger than the view."""
    own = getattr(value, "pipegraph_nbytes", None)
    size = own() if callable(own) else own
    if size is None:
        size = getattr(value, "nbytes", None)
        if isinstance(size, int) and not _finite(value):
            measured.finite = False
    if callable(storage := getattr(value, "untyped_storage", None)) and size is not None:
        memory = storage()
        measured.parts[memory.data_ptr()] = memory.nbytes()
    elif isinstance(size, int):
        measured.parts[id(value)] = size
    elif callable(parameters := getattr(value, "parameters", None)) and callable(getattr(value, "buffers", None)):
        measured.parts[id(value)] = sum(p.nbytes for p in parameters()) + sum(b.nbytes for b in value.buffers())
    elif is_dataclass(value):
        stack.extend(getattr(value, f.name, None) for f in fields(value))
    elif isinstance(inside := getattr(value, "__dict__", None), dict):
        stack.extend(inside.values())
        measured.parts[id(value)] = sys.getsizeof(value)


def _finite(tensor: Any) -> bool:
    """Whether a tensor with an ``isfinite`` method is finite; true for other values.

    A finite sum has finite terms; this is 30 times as fast as the exact test, which is needed only if the sum is not
    finite: it may have overflowed.
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
    """Limit in bytes from ``PIPEGRAPH_CACHE_MEMORY``, or a third of the machine's memory.

    Raises:
        ValueError: the variable is not a size.
    """
    return size_setting(VARIABLE, total_memory() // 3)


@cache
def _c_library() -> Any:
    """The C library, if it has ``malloc_trim`` (glibc)."""
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim  # noqa: B018 - AttributeError where there is none
    except (AttributeError, OSError, TypeError):
        return None
    return library


def _give_back() -> None:
    """Return freed memory to the system: glibc keeps gaps between large blocks that it cannot reuse."""
    if library := _c_library():
        library.malloc_trim(0)


class MemoryCache:
    """Results by key; safe to use from several threads."""

    def __init__(self, limit: int | None = None) -> None:
        """Keep at most ``limit`` bytes: ``default_limit`` if None, nothing if 0."""
        self.limit = default_limit() if limit is None else limit
        self.nbytes = 0
        self._untrimmed = 0
        self._entries: OrderedDict[str, tuple[tuple[Any, ...], dict[int, int]]] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._trails: OrderedDict[str, Trail] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: str) -> tuple[Any, ...] | None:
        """The outputs kept under ``key``, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: str, values: tuple[Any, ...], parts: Mapping[int, int]) -> None:
        """Keep outputs, measured by ``measure``, unless they exceed the limit."""
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
        """Warnings and notes of the result under ``key``; kept longer than the result."""
        with self._lock:
            return self._trails.get(key, Trail())

    def remember(self, key: str, trail: Trail) -> None:
        """Keep warnings and notes of the result under ``key``."""
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
