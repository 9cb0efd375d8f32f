"""Progress of loading weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pipegraph.runtime.node import RunContext


@contextmanager
def loading(ctx: RunContext) -> Iterator[None]:
    """Report the weights loaded inside a ``with`` as progress in megabytes."""
    from pipegraph.models.loading.filling import reporting

    with reporting(lambda done, total: ctx.progress(done, total, "MB")):
        yield
