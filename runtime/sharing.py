"""Protect values that the cache shares: copies for callers, and detection of in-place changes by nodes.

For pipegraph's own nodes, changes are detected by the version counters of tensors; for foreign nodes, by checksums of
all contents, which also catch writes through NumPy or ``.data``. Excluded are internal caches of values: dataclass
fields with ``compare=False``, and objects whose class sets ``pipegraph_shared``. Tensors are recognised by their
attributes (``clone``, ``_version``), so no tensor library is needed.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

DEPTH: Final = 3
"""Levels of lists and mappings that are searched for version counters: enough for a CONDITIONING."""
MODULE_SAMPLES: Final = 1024
"""Sampled values per weight of a network."""
_LIBRARIES: Final = frozenset(("pipegraph", "torch", "diffusers", "transformers", "tokenizers"))
"""Objects of these packages may fill internal caches in attributes that start with an underscore."""
_LEAVES: Final = (int, float, complex, str, bytes, bool, type(None), type, range, slice)


class Held(NamedTuple):
    """An input before the call of a node."""

    name: str
    value: Any
    parts: list[tuple[Any, Any]]
    """Each part of the value with its version counter or checksum."""
    deep: bool


def held(name: str, value: Any, *, deep: bool) -> Held:
    """Snapshot of a value: checksums of all contents if ``deep``, else version counters."""
    return Held(name, value, _all_parts(value) if deep else _parts(value), deep)


def changed(before: list[Held]) -> str:
    """Name of the first input that has changed, or an empty string."""
    for name, value, parts, deep in before:
        now = _all_parts(value) if deep else _parts(value)
        if len(now) != len(parts) or not all(map(_same, now, parts)):
            return name
    return ""


def _same(now: tuple[Any, Any], before: tuple[Any, Any]) -> bool:
    """Whether a part is the same object with the same contents; equal numbers and texts also match."""
    (a, mark), (b, mark_before) = now, before
    if a is b:
        return bool(mark == mark_before)
    return isinstance(a, _LEAVES) and type(a) is type(b) and (a == b or repr(a) == repr(b) == "nan")


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """A value and its contents, each with its version counter (0 without one)."""
    parts: list[tuple[Any, Any]] = []
    todo = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        parts.append((part, _writes(part)))
        if depth < DEPTH and isinstance(part, dict | list):
            todo.extend((inner, depth + 1) for inner in (part.values() if isinstance(part, dict) else part))
    return parts


def _writes(value: Any) -> int:
    try:
        return int(getattr(value, "_version", 0))
    except (RuntimeError, TypeError, ValueError):  # inference tensors have no counter; torch protects them
        return 0


def _all_parts(value: Any) -> list[tuple[Any, Any]]:
    """All contents of a value, at any depth, each part with its checksum."""
    parts: list[tuple[Any, Any]] = []
    visited: set[int] = set()
    todo = [value]
    while todo:
        part = todo.pop()
        if id(part) in visited:
            continue
        if not isinstance(part, _LEAVES):
            visited.add(id(part))
        mark, inside = _contents(part)
        parts.append((part, mark))
        todo.extend(inside)
    return parts


def _contents(value: Any) -> tuple[Any, Iterable[Any]]:
    """Checksum of a value itself, and the values inside it; nothing for opaque objects."""
    if isinstance(value, _LEAVES):
        return None, ()
    try:
        return _looked_into(value)
    except Exception:  # attributes of foreign classes may raise anything
        return None, ()


def _looked_into(value: Any) -> tuple[Any, Iterable[Any]]:
    if _is_tensor(value):
        return (_writes(value), _tensor_checksum(value)), ()
    if isinstance(value, bytearray | memoryview | array) or hasattr(value, "__array_interface__"):
        return _array_checksum(value), ()
    if isinstance(value, Mapping):
        return len(value), [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | deque | set | frozenset):
        return len(value), [*value]
    if callable(getattr(value, "parameters", None)) and callable(getattr(value, "buffers", None)):
        return [_weight_checksum(w) for w in (*value.parameters(), *value.buffers())], ()
    if getattr(value, "pipegraph_shared", False):
        return None, ()
    attributes = _attributes(value)
    return sorted(attributes), attributes.values()


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, without cached properties and internal caches."""
    cls = type(value)
    slots = [name for base in cls.__mro__ for name in _slot_names(base)]
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    attributes.update(getattr(value, "__dict__", {}))
    private = _root(cls) in _LIBRARIES
    caches = {f.name for f in fields(value) if not f.compare} if is_dataclass(value) else set()
    return {
        name: inner
        for name, inner in attributes.items()
        if name not in caches
        and not (private and name.startswith("_"))
        and not isinstance(getattr(cls, name, None), cached_property)
    }


def _root(cls: type) -> str:
    """The top-level package of a class."""
    return cls.__module__.partition(".")[0]


def _slot_names(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


def _is_tensor(value: Any) -> bool:
    return callable(getattr(value, "untyped_storage", None))


def _tensor_checksum(tensor: Any) -> Any:
    """Type, shape and CRC-32 of a tensor's bytes; expanded dimensions count once."""
    facts = (str(tensor.dtype), tuple(tensor.shape), str(tensor.device))
    if tensor.is_sparse or tensor.is_quantized or tensor.device.type == "meta":
        return facts
    values = tensor.detach()
    for dim, stride in enumerate(values.stride()):
        if stride == 0 and values.shape[dim] > 1:
            values = values.narrow(dim, 0, 1)
    return (*facts, _crc(values.reshape(-1)))


def _weight_checksum(tensor: Any) -> Any:
    """Checksum of a sample of values: networks are too large to read for each node."""
    step = max(1, tensor.numel() // MODULE_SAMPLES)
    sampled = tensor.detach().reshape(-1)[::step] if tensor.is_contiguous() else tensor.detach()[:1]
    return (id(tensor), _writes(tensor), _tensor_checksum(sampled))


def _crc(values: Any) -> int:
    """CRC-32 of the bytes of a 1-D tensor."""
    as_bytes = values.contiguous().view(sys.modules["torch"].uint8).cpu()
    return zlib.crc32(memoryview(as_bytes.numpy()))


def _array_checksum(buffer: Any) -> Any:
    """Shape, type and CRC-32 of a NumPy array, or of any buffer of bytes."""
    shape = (getattr(buffer, "shape", None), str(getattr(buffer, "dtype", "")))
    if getattr(buffer, "dtype", None) is not None and buffer.dtype.hasobject:
        return (*shape, [id(item) for item in buffer.ravel().tolist()])
    data = memoryview(buffer)
    return (*shape, zlib.crc32(data if data.c_contiguous else data.tobytes()))


def copied(value: Any) -> Any:
    """Copy tensors, arrays, containers and dataclasses of a value; networks and other objects stay shared."""
    return _copied(value, {})


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """``copies`` maps the ``id`` of originals to their copies, which ends cycles."""
    if isinstance(value, _LEAVES):
        return value
    if id(value) not in copies:
        copies[id(value)] = value  # for a cycle through a tuple
        copies[id(value)] = _copy_of(value, copies)
    return copies[id(value)]


def _copy_of(value: Any, copies: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        copies[id(value)] = filled = dict[Any, Any]()
        filled.update((key, _copied(inner, copies)) for key, inner in value.items())
        return filled
    if isinstance(value, list):
        copies[id(value)] = items = list[Any]()
        items.extend(_copied(inner, copies) for inner in value)
        return items
    if isinstance(value, tuple):
        inside = [_copied(inner, copies) for inner in value]
        return type(value)(*inside) if hasattr(value, "_fields") else tuple(inside)
    if isinstance(value, deque):
        return deque((_copied(inner, copies) for inner in value), value.maxlen)
    if isinstance(value, set | bytearray | array):
        return copy(value)
    if is_dataclass(value) and _root(type(value)) not in _LIBRARIES:
        own = copy(value)
        for field in fields(value):
            object.__setattr__(own, field.name, _copied(getattr(value, field.name), copies))
        return own
    clone = getattr(value, "clone", None) or (hasattr(value, "nbytes") and getattr(value, "copy", None))
    return clone() if callable(clone) else value
