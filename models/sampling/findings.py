"""What is found out while a run goes on, and is said when it is done."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

from pipegraph.context import holding

_findings: ContextVar[dict[str, Any] | None] = ContextVar("pipegraph_findings", default=None)


def finding(messages: dict[str, Any]) -> AbstractContextManager[None]:
    """Collect findings of one run inside a ``with``, in this thread (context) only: by name, text when it is done."""
    return holding(_findings, messages)


def findings() -> dict[str, Any] | None:
    """Those of this run so far; None if nobody wants to know."""
    return _findings.get()
