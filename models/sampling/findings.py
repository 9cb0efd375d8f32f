"""Messages collected during a run and reported at its end."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from pipegraph.context import holding

_findings: ContextVar[dict[str, Any] | None] = ContextVar("pipegraph_findings", default=None)


def finding(messages: dict[str, Any]) -> AbstractContextManager[None]:
    """Collect messages of one run inside a ``with``, in this thread (context) only: name -> text at the end."""
    return holding(_findings, messages)


def findings() -> dict[str, Any] | None:
    """Messages of this run so far; None if they are not collected."""
    return _findings.get()
