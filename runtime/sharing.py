"""Values that the cache hands out again and again must not be changed: copies for callers, and a watch over nodes.

Tensors are known by what they offer (``clone``, ``_version``), so no tensor library is needed.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

DEPTH: Final = 3
"""So deep lists and mappings are looked into: the texts' tensors of a CONDITIONING lie there."""


class Held(NamedTuple):
    """An input as it was before a node was called."""

    name: str
    value: Any
    parts: list[tuple[Any, int]]


def held(name: str, value: Any) -> Held:
    """Remember how a value is now."""
    return Held(name, value, _parts(value))


def changed(before: list[Held]) -> str:
    """The first input that is no longer as it was, or an empty string."""
    for name, value, parts in before:
        now = _parts(value)
        same = len(now) == len(parts) and all(a is b and m == n for (a, m), (b, n) in zip(now, parts, strict=True))
        if not same:
            return name
    return ""


def _parts(value: Any) -> list[tuple[Any, int]]:
    """A value and what it holds, each with the number of times it was written to (0 where that is not counted)."""
    found: list[tuple[Any, int]] = []
    todo = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        found.append((part, _writes(part)))
        if depth < DEPTH and isinstance(part, dict | list):
            todo.extend((inner, depth + 1) for inner in (part.values() if isinstance(part, dict) else part))
    return found


def _writes(value: Any) -> int:
    try:
        return int(getattr(value, "_version", 0))
    except (RuntimeError, TypeError, ValueError):  # torch does not count for inference tensors: it protects them itself
        return 0


def copied(value: Any) -> Any:
    """A value whose tensors and containers are the caller's own; networks and other objects stay shared."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        inner = [copied(v) for v in value]
        return inner if isinstance(value, list) else type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
    clone = getattr(value, "clone", None) or (hasattr(value, "nbytes") and getattr(value, "copy", None))
    return clone() if callable(clone) and not isinstance(value, type) else value
