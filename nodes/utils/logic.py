"""Choose between inputs, and show values."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from pipegraph.runtime.node import Lazy, NodeEvent, Text, node

from ..wire import Any_


@node("ComfySwitchNode", category="logic", title="Switch", output="output")
def switch_node(switch: bool, on_false: Lazy[Any_] | None = None, on_true: Lazy[Any_] | None = None) -> Any_:
    """Output one of two inputs; only that input is computed. One that is not connected gives the other.

    Args:
        switch: Which input.
        on_false: Output if switch is false.
        on_true: Output if switch is true.
    """
    for branch in (on_true, on_false) if switch else (on_false, on_true):
        if branch is not None and (value := branch.get()) is not None:
            return value
    raise ValueError("neither on_true nor on_false is connected")


@node("PreviewAny", category="utils", title="Preview as Text", effect="writes", output_node=True)
def preview_any(source: Any_) -> Generator[NodeEvent, None, str]:
    """Show any value as text.

    Text is shown as it is, numbers as Python writes them, lists and mappings as JSON, tensors by shape and range.

    Args:
        source: Value to show.
    """
    text = describe(source)
    yield Text(text)
    return text


def describe(value: Any) -> str:
    """A value in words, short enough to read."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=_brief)
    except (TypeError, ValueError, RuntimeError):  # keys that are no strings, a value that contains itself
        return str(value)


def _brief(value: Any) -> str:
    """JSON text for a value that has no JSON form."""
    if shape := getattr(value, "shape", None):
        text = f"{type(value).__name__.lower()} {list(shape)} {str(value.dtype).removeprefix('torch.')}"
        return f"{text}, {float(value.min()):.6g} to {float(value.max()):.6g}" if 0 not in shape else text
    return f"a {type(value).__name__}"
