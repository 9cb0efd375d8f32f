"""Triton's back ends on the CPU, in Triton's interpreter: ``TRITON_INTERPRET=1 pytest tests/interpreter``.

The variable must be set before Triton is imported, so these tests want a process of their own; elsewhere they are left
out.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

if os.environ.get("TRITON_INTERPRET") == "1":
    spec = importlib.util.spec_from_file_location("repair", Path(__file__).with_name("repair.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.repair()
else:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def like_a_gpu() -> Iterator[None]:
    """One thread, and no warnings of NumPy where a GPU gives NaN or Inf in silence."""
    torch.set_num_threads(1)
    with np.errstate(all="ignore"):
        yield
