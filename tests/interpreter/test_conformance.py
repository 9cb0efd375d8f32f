"""Triton back ends pass the conformance kit in the interpreter: a part of it each commit, all of it if asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.kernels.dispatch import OPS, backends
from pipegraph.kernels.proof.cases import CASES
from pipegraph.kernels.testing import conformance

KERNELS = [(op, name) for op in OPS for name in backends(op) if name.startswith("triton")]
DTYPES = (torch.bfloat16, torch.float32, torch.float16)
FEW = 10
"""About how many cases of an op are run each commit."""


def of(name: str) -> tuple[torch.dtype, ...]:
    return DTYPES[::2] if name == "triton-tma" else DTYPES  # that takes 16 bits only


@pytest.mark.parametrize(("op", "backend"), KERNELS)
def test_every_triton_back_end_passes_some(op: str, backend: str) -> None:
    dtypes = of(backend)
    dtype = dtypes[KERNELS.index((op, backend)) % len(dtypes)]
    report = conformance(op, backend, dtypes=[dtype], every=-(-len(list(CASES[op]())) // FEW))
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "backend"), KERNELS)
def test_every_triton_back_end_passes(op: str, backend: str, dtype: Any) -> None:
    if dtype in of(backend):
        report = conformance(op, backend, dtypes=[dtype])
        assert report.passed, report
