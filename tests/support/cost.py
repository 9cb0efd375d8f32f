"""CPU time compared with a fixed piece of work in the same process: a slow or loaded machine is slow at both."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


def unit() -> float:
    """CPU seconds of a fixed piece of plain Python: about 0.05."""
    start = time.process_time()
    table = {str(i): [i, i + 1] for i in range(60_000)}
    assert sum(len(name) + pair[1] for name, pair in sorted(table.items())) > 0
    return time.process_time() - start


@contextmanager
def within(units: float) -> Iterator[None]:
    """The block takes at most ``units`` times the CPU time of :func:`unit`, which is measured before and after."""
    before, start = unit(), time.process_time()
    yield
    took = time.process_time() - start
    allowed = units * max(before, unit())
    assert took <= allowed, f"{took:.2f} s of CPU time; {allowed:.2f} s were allowed here"
