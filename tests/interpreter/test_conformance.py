"""Every Triton back end passes the conformance kit in the interpreter: in one dtype each commit, in all if asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.kernels.dispatch import OPS, backends
from pipegraph.kernels.testing import conformance

KERNELS = [(op, name) for op in OPS for name in backends(op) if name.startswith("triton")]
DTYPES = (torch.bfloat16, torch.float32, torch.float16)


def chosen() -> list[Any]:
    found = []
    for i, (op, name) in enumerate(KERNELS):
        dtypes = DTYPES[::2] if name == "triton-tma" else DTYPES  # that takes 16 bits only
        for j, dtype in enumerate(dtypes):
            marks = () if i % len(dtypes) == j else pytest.mark.slow
            found.append(pytest.param(op, name, dtype, id=f"{op} {name} {dtype}", marks=marks))
    return found


@pytest.mark.parametrize(("op", "backend", "dtype"), chosen())
def test_every_triton_back_end_passes(op: str, backend: str, dtype: torch.dtype) -> None:
    report = conformance(op, backend, dtypes=[dtype])
    assert report.passed, report
