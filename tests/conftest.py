"""Kernels are interpreted and compiled in processes of their own (scripts/test): here only if they are asked for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipegraph.api import runner

os.environ.setdefault(
    "OMP_WAIT_POLICY", "PASSIVE"
)  # as ``pipegraph run`` has it; threads that wait leave the processor


def pytest_configure() -> None:
    """Ctrl-C reaches the programs that tests start, also where the tests run in the background of a shell."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


APART = {Path(__file__).with_name(name) for name in ("interpreter", "aot")}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path not in APART:
        return None
    asked = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    return None if any(collection_path in (path, *path.parents) for path in asked) else True


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    """No test finds results that another one left in the process's cache."""
    runner.cache_clear()
    yield


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """A test that changes the number of torch's threads changes it for itself only."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if torch and torch.get_num_threads() != before:
        torch.set_num_threads(before)
