"""The conformance kit over all back ends of a device, several at once: most of the time goes into compiling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import torch

from pipegraph.kernels.dispatch import OPS, backends
from pipegraph.kernels.testing import DTYPES, Report, conformance


def check(device: str, tell: Callable[[str], None] = print, workers: int | None = None) -> bool:
    """Test every back end that can run on a device, each dtype on its own; true if all pass.

    Args:
        device: ``cuda``, ``cpu``, ...
        tell: Called with what was found about each, and with what failed.
        workers: Processes; as many as cores, 12 at most, by default. 1 uses none.
    """
    jobs = [
        (op, b.name, device, dtype) for op in OPS for b in backends(op).values() if not b.missing() for dtype in DTYPES
    ]
    by_backend: dict[tuple[str, str], list[Report]] = {}
    for report in _run(jobs, workers or min(12, os.cpu_count() or 1)):
        by_backend.setdefault((report.op, report.backend), []).append(report)
        if report.failed:
            tell(str(report))
    good = True
    for (op, name), reports in sorted(by_backend.items()):
        served, failed = sum(r.served for r in reports), sum(len(r.failed) for r in reports)
        good &= not failed
        tell(f"{op}/{name} on {device}: {served} served, {failed} failed" + ("" if served else ", refuses all"))
    return good


def _run(jobs: list[tuple[str, str, str, torch.dtype]], workers: int) -> Iterator[Report]:
    if workers == 1:
        yield from (_conformance_of(*job) for job in jobs)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: list[Future[Report]] = [pool.submit(_conformance_of, *job) for job in jobs]
        for done in as_completed(running):
            yield done.result()


def _conformance_of(op: str, backend: str, device: str, dtype: torch.dtype) -> Report:
    torch.set_num_threads(1)
    return conformance(op, backend, device, dtypes=[dtype])
