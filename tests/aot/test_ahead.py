"""The stand-in of a device: what it compiles for, that nothing of it stays, and that launches are seen by the audit."""

from __future__ import annotations

import pytest
import torch
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from pipegraph.kernels.audit import Bypass, strict
from pipegraph.kernels.backends.triton import available
from pipegraph.kernels.backends.triton.ahead import TARGETS, compiling, resources
from pipegraph.kernels.backends.triton.configs_attention import attention_config, decode_config
from pipegraph.kernels.backends.triton.configs_linear import bytes_config, weights_config
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.gated import swiglu

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


@pytest.mark.parametrize(
    ("arch", "like"), [("sm_87", "sm_86"), ("sm_121", "sm_120"), ("gfx908", "gfx942"), ("gfx1151", "gfx1100")]
)
def test_an_architecture_without_tables_takes_those_of_the_nearest(arch: str, like: str) -> None:
    for rows in (1, 32, 64, 4096):
        assert weights_config(arch, "w4", 2, rows) == weights_config(like, "w4", 2, rows)
        assert bytes_config(arch, rows) == bytes_config(like, rows)
        for size in (64, 128, 256):
            assert attention_config(arch, 2, size, rows) == attention_config(like, 2, size, rows)
            assert decode_config(arch, 2, size) == decode_config(like, 2, size)


def test_nvidia_gpus_without_tensor_cores_for_triton_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels compile for sm_75, but without matrix instructions and with thousands of bytes spilled."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert available.missing() == "needs compute capability 8.0; this device has 7.5"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    assert not available.missing()


def test_the_audit_sees_launches_of_triton() -> None:
    with compiling("sm_90"), strict() as seen:
        swiglu(X, X, backend="triton")
        swiglu(X, X, backend="triton")
    assert seen.inside["swiglu"] == 2


def test_a_kernel_that_goes_round_the_layer_is_seen() -> None:
    from pipegraph.kernels.backends.triton.gated import gated

    with compiling("sm_90"), pytest.raises(Bypass, match="triton gated_kernel"), strict():
        gated(X, X, "silu")
