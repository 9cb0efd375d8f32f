"""Every Triton back end passes the conformance kit in the interpreter."""

from __future__ import annotations

import pytest

from pipegraph.kernels.dispatch import OPS, backends
from pipegraph.kernels.testing import conformance

KERNELS = [(op, name) for op in OPS for name in backends(op) if name.startswith("triton")]


@pytest.mark.parametrize(("op", "backend"), KERNELS)
def test_every_triton_back_end_passes(op: str, backend: str) -> None:
    report = conformance(op, backend)
    assert report.passed, report
