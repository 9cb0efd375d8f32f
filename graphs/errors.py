"""What can be wrong with a graph or a call, told the same way in the terminal, in JSON and by a server."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


class PipegraphError(Exception):
    """Base of all errors raised on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    code: str
    """Stable name of the kind of fault, e.g. ``unknown_node``; all of them are in docs/graph-format.md."""
    message: str
    node: str = ""
    """Node id, empty where the fault belongs to no node."""
    title: str = ""
    input: str = ""
    got: str = ""
    wanted: str = ""
    hint: str = ""
    """The nearest right name, or what to do."""
    place: str = ""
    """Line and column, or JSON path, in the file."""

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not empty."""
        return {k: v for k, v in asdict(self).items() if v}

    def __str__(self) -> str:
        where = f'node "{self.node}"' if self.node else self.place
        if self.title:
            where += f" ({self.title})"
        if self.input:
            where += f', input "{self.input}"' if where else f'input "{self.input}"'
        parts = [f"{where}: {self.message}" if where else self.message]
        if self.got:
            parts.append(f"got {self.got}")
        if self.wanted:
            parts.append(f"wanted {self.wanted}")
        return "; ".join(parts) + (f". {self.hint}" if self.hint else "")


class GraphError(PipegraphError):
    """A graph, or what was given to it, is wrong. Raised before anything runs, with every problem found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint with the names most like ``name``, or an empty string."""
    folded = {n.casefold(): n for n in reversed([*names])}
    close = difflib.get_close_matches(name.casefold(), folded, 3, 0.6)
    return "Did you mean " + " or ".join(f'"{folded[c]}"' for c in close) + "?" if close else ""


def message_of(error: BaseException) -> str:
    """The kind and the message of an exception; of one whose message cannot be made, its kind alone."""
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # somebody's __str__ may raise anything
        text = "(its message cannot be shown)"
    return f"{kind}: {text}" if text else kind


def shown(value: Any, limit: int = 60) -> str:
    """A value in few characters, for error texts."""
    if isinstance(value, str | int | float | bool | None):
        text = repr(value[: limit + 1] if isinstance(value, str) else value)
    elif isinstance(value, dict | list | tuple):
        text = f"{type(value).__name__} of {len(value)}"
    elif (shape := getattr(value, "shape", None)) is not None:
        text = f"{type(value).__name__}{[*shape]}"
    else:
        text = type(value).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
