"""Compiling kernels for GPUs that are not there: ``pytest tests/aot``, without ``TRITON_INTERPRET``.

What is compiled is kept in the checkout's cache, so that only what changed is compiled again.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".pytest_cache" / "triton"
os.environ.setdefault("TRITON_CACHE_DIR", str(CACHE))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise pytest.UsageError("kernels are compiled only without TRITON_INTERPRET; run tests/aot on its own")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    import torch

    torch.set_num_threads(1)
