"""Files that a run may read besides the folders of models and inputs, and the resolved names.

Standard library only; every folder may import it. A graph is checked, planned and run under one ``Access``, so
permissions end with the run, and a name means the same file when it is checked, hashed and read.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from pipegraph.context import holding


@dataclass(frozen=True, slots=True)
class Access:
    """Files that one run may read."""

    allowed: frozenset[Path] = frozenset()
    """Files and folders that the user named, links resolved; includes everything below them."""
    resolved: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False, compare=False)
    """(kind, name) -> resolved file or folder; later look-ups give the same."""

    @classmethod
    def to(cls, *paths: str | os.PathLike[str]) -> Access:
        """Access to these files and folders."""
        return cls(frozenset(Path(path).expanduser().resolve() for path in paths))


_current: ContextVar[Access | None] = ContextVar("pipegraph.access", default=None)


def granted(access: Access) -> AbstractContextManager[None]:
    """Resolve names with ``access`` in this thread."""
    return holding(_current, access)


def current() -> Access:
    """The access of the current run in this thread; empty outside a run."""
    return _current.get() or Access()
