"""What is found out while a run goes on, and is said when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_found: ContextVar[dict[str, Any] | None] = ContextVar("pipegraph_findings", default=None)


@contextmanager
def finding(found: dict[str, Any]) -> Iterator[None]:
    """Collect findings of one run inside a ``with``, in this thread (context) only: by name, text when it is done."""
    token = _found.set(found)
    try:
        yield
    finally:
        _found.reset(token)


def findings() -> dict[str, Any] | None:
    """Those of this run so far; None if nobody wants to know."""
    return _found.get()
