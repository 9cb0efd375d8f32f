"""Problems of a graph or a call, reported the same way in the terminal, in JSON and by a server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pipegraph.limits import PROBLEMS


class PipegraphError(Exception):
    """Base of all errors raised on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem of a graph or a call."""

    code: str
    """Stable name of the kind of fault, e.g. ``unknown_node``; all of them are in docs/graph-format.md."""
    message: str
    node: str = ""
    """Node id; empty if the problem belongs to no node."""
    title: str = ""
    input: str = ""
    got: str = ""
    wanted: str = ""
    hint: str = ""
    """The nearest valid name, or what to do."""
    place: str = ""
    """Line and column, or JSON path, in the file."""
    mend: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The mend as data, for programs: ``names``, ``choices``, ``range``, ... (docs/graph-format.md)."""

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not empty."""
        return {k: v for k, v in asdict(self).items() if v}

    def __str__(self) -> str:
        where = f'node "{self.node}"' if self.node else self.place
        if self.title:
            where += f" ({self.title})"
        if self.input:
            where += f', input "{self.input}"' if where else f'input "{self.input}"'
        parts = [f"{visible(where, lines=False)}: {self.message}" if where else self.message]
        if self.got:
            parts.append(f"got {self.got}")
        if self.wanted:
            parts.append(f"wanted {self.wanted}")
        return visible("; ".join(parts) + (f". {self.hint}" if self.hint else ""))


class GraphError(PipegraphError):
    """A graph or its inputs are invalid. Raised before anything runs, with every problem.

    Args:
        problems: The first ``limits.PROBLEMS`` are kept, the others are counted.
        unlisted: Number of problems besides these.
    """

    def __init__(self, problems: Iterable[Problem], unlisted: int = 0) -> None:
        listed = tuple(problems)
        self.problems = listed[:PROBLEMS]
        self.unlisted = max(0, unlisted) + len(listed) - len(self.problems)
        rest = [f"... and {self.unlisted:,} more problems"] if self.unlisted else []
        super().__init__("\n".join([*map(str, self.problems), *rest]))


class Problems:
    """Collects problems: the first ``limits.PROBLEMS`` are kept, the others are counted."""

    def __init__(self, listed: Iterable[Problem] = (), unlisted: int = 0) -> None:
        self.listed, self.unlisted = [*listed], unlisted

    def add(
        self, code: str, message: str, *, names: Sequence[str] = (), mend: Mapping[str, Any] | None = None, **more: str
    ) -> None:
        """Note a problem.

        Args:
            code: Its code.
            message: The problem.
            names: The nearest valid names: they take the place of the hint, and are part of the mend.
            mend: The mend as data.
            more: Further fields of ``Problem``.
        """
        if len(self.listed) < PROBLEMS:
            if names:
                more["hint"], mend = did_you_mean(names), {"names": [*names], **(mend or {})}
            short = {name: _short(text) for name, text in more.items()}
            self.listed.append(Problem(code=code, message=_short(message), mend=mend or {}, **short))
        else:
            self.unlisted += 1

    def __bool__(self) -> bool:
        return bool(self.listed)

    def error(self) -> GraphError:
        """The error with all problems."""
        return GraphError(self.listed, self.unlisted)


_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_OR_LINE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def visible(text: str, *, lines: bool = True) -> str:
    r"""Escape control characters, e.g. as ``\x1b``, so that a terminal does not interpret them.

    Args:
        text: Text of a graph, a file name, an exception, ...
        lines: Keep tabs and line breaks.
    """
    return (_CONTROL if lines else _CONTROL_OR_LINE).sub(lambda match: repr(match[0])[1:-1], text)


def _short(text: str, limit: int = 2000) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def nearest(name: str, names: Iterable[str], alike: float = 0.6) -> str:
    """A hint with the names closest to ``name``, as :func:`closest` finds them; empty if none is close."""
    return did_you_mean(closest(name, names, alike))


def did_you_mean(names: Sequence[str]) -> str:
    """``Did you mean "a" or "b"?``; empty without names."""
    return "Did you mean " + " or ".join(f'"{name}"' for name in names) + "?" if names else ""


def closest(name: str, names: Iterable[str], alike: float = 0.6) -> list[str]:
    """Up to three names closest to ``name``, the closest first; none if comparing would take long.

    Args:
        name: The unknown name.
        names: The known names.
        alike: Least similarity ratio of ``difflib``.
    """
    listed = [*names]
    if len(name) > 200 or len(listed) > 3000:
        return []
    folded = {n.casefold(): n for n in reversed(listed)}
    return [folded[close] for close in difflib.get_close_matches(name.casefold(), folded, 3, alike)]


def message_of(error: BaseException) -> str:
    """Type and message of an exception; the type alone if the message cannot be formatted."""
    kind = type(error).__name__
    try:
        text = str(error).strip()
    except Exception:  # somebody's __str__ may raise anything
        text = "(its message cannot be shown)"
    return f"{kind}: {text}" if text else kind


def shown(value: Any, limit: int = 60) -> str:
    """A short form of a value for error messages."""
    if isinstance(value, str | int | float | bool | None):
        text = repr(value[: limit + 1] if isinstance(value, str) else value)
    elif isinstance(value, dict | list | tuple):
        text = f"{type(value).__name__} of {len(value)}"
    elif (shape := getattr(value, "shape", None)) is not None:
        text = f"{type(value).__name__}{[*shape]}"
    else:
        text = type(value).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
