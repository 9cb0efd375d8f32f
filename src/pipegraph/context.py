"""Set context variables inside a ``with``. Standard library only; every folder may import it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def holding(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable inside a ``with``, in this thread (context) only; then restore it."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
