"""Generators that yield events and return a result. Standard library only; every folder may import it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

E = TypeVar("E")
F = TypeVar("F")
R = TypeVar("R")


def finish(events: Generator[E, Any, R], each: Callable[[E], object] = lambda event: None) -> R:
    """Run a generator to its end, with a call of ``each`` for every event, and return its result."""
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            result: R = end.value
            return result
        each(event)


def converted(
    events: Generator[E, Any, R],
    convert: Callable[[E], F],
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Generator[F, None, R]:
    """The events of a generator, converted, with the same result; each step is computed inside its own ``around()``.

    No context is open while an event is yielded: its consumer runs outside of them, in the same thread.
    """
    while True:
        with around():
            try:
                event = next(events)
            except StopIteration as end:
                result: R = end.value
                return result
        yield convert(event)
