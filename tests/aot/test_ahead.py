"""The stand-in of a device: what it compiles for, that nothing of it stays, and that launches are seen by the audit."""

from __future__ import annotations

import pytest
import torch
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from pipegraph.kernels.audit import Bypass, strict
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.gated import swiglu
from pipegraph.kernels.triton import available
from pipegraph.kernels.triton.ahead import TARGETS, compiling, resources

X = torch.empty(7, 64, dtype=torch.bfloat16, device="meta")


def test_compiles_for_the_architecture_and_leaves_nothing_behind() -> None:
    run, active, before = JITFunction.run, driver._active, available.missing()
    for name, kind in (("sm_90", "cubin"), ("gfx942", "hsaco")):
        with compiling(name) as launches:
            assert available.architecture() == name and not available.missing()
            swiglu(X, X, backend="triton")
        (launch,) = launches
        assert launch.kernel.metadata.target == TARGETS[name] and kind in launch.kernel.asm
        taken = resources(launch.kernel)
        assert taken["registers"] > 0 and taken["spilled"] == 0 and taken["warps"] >= 1
    assert JITFunction.run is run and driver._active is active and available.missing() == before
    with pytest.raises(KernelError, match="cannot serve"):
        swiglu(X, X, backend="triton")


def test_the_audit_sees_launches_of_triton() -> None:
    with compiling("sm_90"), strict() as seen:
        swiglu(X, X, backend="triton")
        swiglu(X, X, backend="triton")
    assert seen.inside["swiglu"] == 2


def test_a_kernel_that_goes_round_the_layer_is_seen() -> None:
    from pipegraph.kernels.triton.gated import gated

    with compiling("sm_90"), pytest.raises(Bypass, match="triton gated_kernel"), strict():
        gated(X, X, "silu")
