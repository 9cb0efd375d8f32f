"""How far a node is, where a function of the models does the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipegraph.runtime.node import RunContext


@contextmanager
def loading(ctx: RunContext) -> Iterator[None]:
    """Say how much of the weights is loaded inside a ``with``, in megabytes."""
    from pipegraph.models.loading.filling import reporting

    with reporting(lambda done, total: ctx.progress(done, total, "MB")):
        yield
