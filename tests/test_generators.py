"""Generators that are run to their end or turned into others, and context variables held meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from contextvars import ContextVar

import pytest

from pipegraph.context import holding
from pipegraph.generators import converted, finish

NAME: ContextVar[str] = ContextVar("tests.name", default="outside")


def names(count: int) -> Generator[str, None, str]:
    """The name at each step, and as result that at the end."""
    for _ in range(count):
        yield NAME.get()
    return NAME.get()


def test_a_generator_is_run_to_its_end() -> None:
    seen: list[str] = []
    assert finish(names(2), seen.append) == "outside" and seen == ["outside"] * 2
    assert finish(names(0)) == "outside"


def test_each_step_has_a_context_and_none_is_open_between_them() -> None:
    steps = converted(names(2), str.upper, lambda: holding(NAME, "inside"))
    between: list[str] = []
    assert finish(steps, lambda event: between.append(f"{event} {NAME.get()}")) == "inside"
    assert between == ["INSIDE outside"] * 2


def test_an_error_of_a_step_leaves_its_context() -> None:
    def broken() -> Generator[str, None, None]:
        yield NAME.get()
        raise ValueError(NAME.get())

    steps = converted(broken(), str, lambda: holding(NAME, "inside"))
    assert next(steps) == "inside"
    with pytest.raises(ValueError, match="inside"):
        next(steps)
    assert NAME.get() == "outside"


def test_values_are_held_one_inside_the_other() -> None:
    with holding(NAME, "outer"):
        with pytest.raises(KeyError), holding(NAME, "inner"):
            assert NAME.get() == "inner"
            raise KeyError
        assert NAME.get() == "outer"
    assert NAME.get() == "outside"
