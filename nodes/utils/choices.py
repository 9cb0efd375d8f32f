"""Values that an editor offers, numbers of other values, and truth."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from annotated_types import Ge, Le

from pipegraph.runtime.node import Grows, Seed, Wire, node, outputs

from ..wire import Any_

Conditions = Annotated[Mapping[str, Any], Wire("*"), Grows(tuple(f"value{i}" for i in range(100)))]
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


@outputs
class Chosen:
    """A text out of a list and its place there."""

    STRING: str
    INDEX: int


@outputs
class Number:
    """A value as both kinds of numbers."""

    FLOAT: float
    INT: int


@outputs
class Passed:
    """A value, and whether there is none."""

    output: Any_
    is_none: bool


@node("CustomCombo", category="utils", title="Custom Combo", ignores="option[0-9]+", rest="options")
def custom_combo(
    choice: str, index: Annotated[int, Ge(0)] = 0, options: Annotated[Any, Wire("*")] | None = None
) -> Chosen:
    """A text that is chosen from a list of the user's own.

    Args:
        choice: The text.
        index: Its place in the list, from 0, where the list is not known.
        options: The list as `option1`, `option2`, ..., which editors write as inputs of the node.
    """
    listed: Mapping[str, Any] = options or {}
    texts = [listed[name] for name in sorted(listed, key=lambda name: int(name.removeprefix("option")))]
    return Chosen(choice, texts.index(choice) if choice in texts else index)


@node("SeedNode", category="utils", title="Seed", effect="random", output="seed")
def seed_node(seed: Annotated[int, Ge(0), Le(2**63 - 1), Seed()] = 0) -> int:
    """A seed that several nodes share.

    Args:
        seed: The seed; empty draws one.
    """
    return seed


@node("ComfyNumberConvert", category="utils", title="Number Convert")
def number_convert(value: int | float | str | bool) -> Number:
    """Convert a value to both kinds of numbers.

    Args:
        value: A number, a text that is a number, or true (1) or false (0). A fraction is cut to a whole number.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{value!r} is no number")
        text, value = value.strip(), float(value)
        value = int(text) if re.fullmatch(r"[+-]?\d{1,400}", text) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no whole number")
    try:
        return Number(float(value), int(value))
    except OverflowError as e:
        raise ValueError(f"a number of {len(str(value))} digits is too large") from e


@node("ComfyNotNode", category="logic", title="Not")
def not_node(value: Any_) -> bool:
    """Whether a value is false, 0, empty or missing.

    Args:
        value: The value.
    """
    return not truth(value)


@node("ComfyAndNode", category="logic", title="And")
def and_node(*, values: Conditions) -> bool:
    """Whether all values are true; false, 0, empty and missing values are not.

    Args:
        values: `values.value0`, `values.value1`, ...
    """
    return all(map(truth, _connected(values)))


@node("ComfyOrNode", category="logic", title="Or")
def or_node(*, values: Conditions) -> bool:
    """Whether any value is true; false, 0, empty and missing values are not.

    Args:
        values: `values.value0`, `values.value1`, ...
    """
    return any(map(truth, _connected(values)))


@node("ComfyPassOrNoneNode", category="logic", title="Pass or None")
def pass_or_none(anything: Any_ | None = None, default: Any_ | None = None) -> Passed:
    """Pass a value on; if there is none, another one.

    Args:
        anything: The value.
        default: Value to take where `anything` is missing.
    """
    passed = default if anything is None else anything
    return Passed(passed, passed is None)


def truth(value: Any) -> bool:
    """Python's truth; a tensor of several numbers is true if it is not empty."""
    try:
        return bool(value)
    except (RuntimeError, ValueError):
        return len(value) > 0


def _connected(values: Mapping[str, Any]) -> list[Any]:
    if not values:
        raise ValueError("no value is connected: connect values.value0, values.value1, ...")
    return list(values.values())
