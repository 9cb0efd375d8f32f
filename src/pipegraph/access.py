"""Which files a run may read besides those in the folders of models and inputs, and where its names lead.

Standard library only; every folder may import it. A graph is checked, planned and run under one ``Access``, so what is
allowed ends with the run, and a name means the same file when it is checked, hashed and read.
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
    """What one run may read."""

    allowed: frozenset[Path] = frozenset()
    """Files and folders that the user named, links followed; what lies below them may be read too."""
    resolved: dict[tuple[str, str], Path] = field(default_factory=dict, repr=False, compare=False)
    """(kind, name) -> the file or folder it was resolved to. A later look-up gives the same one."""

    @classmethod
    def to(cls, *paths: str | os.PathLike[str]) -> Access:
        """Access to these files and folders."""
        return cls(frozenset(Path(path).expanduser().resolve() for path in paths))


_current: ContextVar[Access | None] = ContextVar("pipegraph.access", default=None)


def granted(access: Access) -> AbstractContextManager[None]:
    """Look names up under ``access``, in this thread."""
    return holding(_current, access)


def current() -> Access:
    """The access of the run that goes on in this thread; none to anything named outside a run."""
    return _current.get() or Access()
