"""Every error that pipegraph raises on purpose.

PipegraphError
├── DeclarationError   a node is declared wrongly (found when its file is imported)
├── GraphError         a graph or a call is wrong; holds every Problem at once (exit code 2)
└── RunError           a node failed while running (exit code 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


class PipegraphError(Exception):
    """Base of all errors raised on purpose."""


class DeclarationError(PipegraphError):
    """A node's declaration is wrong: where (file:line), what, and what to write instead."""

    def __init__(self, where: str, problem: str, fix: str = "") -> None:
        self.where, self.problem, self.fix = where, problem, fix
        super().__init__(f"{where}: {problem}" + (f"\n  fix: {fix}" if fix else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a graph, told the same way in the terminal, in JSON and by a server."""

    code: str
    """Stable name of the kind of fault, e.g. ``unknown_node``, ``missing_input``, ``wrong_type``, ``cycle``."""
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
            where += f', input "{self.input}"'
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


class RunError(PipegraphError):
    """A node raised while running; ``__cause__`` is what it raised."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Cancelled(PipegraphError):
    """The run was cancelled by its id or by Ctrl-C (exit code 130)."""
