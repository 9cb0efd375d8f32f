"""Errors that pipegraph raises.

PipegraphError
├── DeclarationError   a node declaration is invalid (raised when its file is imported)
├── GraphError         a graph or a call is invalid; holds every Problem (exit code 2)
├── RunError           a node failed while running (exit code 1)
├── Cancelled          the run was cancelled (exit code 130)
└── NoSuchRun          the run to cancel is unknown (RunFinished: it has ended already)
"""

from __future__ import annotations

import traceback
from typing import Any

from pipegraph.graphs.errors import GraphError, PipegraphError, Problem, message_of, nearest, shown, visible

__all__ = [
    "Cancelled",
    "DeclarationError",
    "GraphError",
    "NoSuchRun",
    "PipegraphError",
    "Problem",
    "RunError",
    "RunFinished",
    "message_of",
    "nearest",
    "shown",
    "visible",
]


def declaration_fault(function: str, error: Exception) -> dict[str, Any]:
    """Message and hint for an exception in a function of a node's declaration."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    hint = f"The fault is in the node: {at.filename}:{at.lineno}."
    return {"message": f"its {function} failed: {message_of(error)}", "hint": hint}


class DeclarationError(PipegraphError):
    """A node declaration is invalid: where (file:line), the problem, and the fix."""

    def __init__(self, where: str, problem: str, fix: str = "") -> None:
        self.where, self.problem, self.fix = where, problem, fix
        super().__init__(f"{where}: {problem}" + (f"\n  fix: {fix}" if fix else ""))


class RunError(PipegraphError):
    """A node raised while running; ``__cause__`` is what it raised."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Cancelled(PipegraphError):
    """The run was cancelled by its id or by Ctrl-C (exit code 130)."""


class NoSuchRun(PipegraphError):
    """No run of this id is known."""


class RunFinished(NoSuchRun):
    """The run has ended already; nothing was cancelled."""
