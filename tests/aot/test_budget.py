"""Every kernel compiles for every architecture, fits, uses the matrix instructions, and takes no more than it did."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import triton

from pipegraph.kernels.backends.triton.ahead import SHARED
from pipegraph.kernels.dispatch import OPS, backends

spec = importlib.util.spec_from_file_location("budget", Path(__file__).with_name("budget.py"))
assert spec and spec.loader
budget: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(budget)
cases: Any = budget.load("cases")
BUDGET = budget.read()
REGISTERS = 8
"""How many more registers than last time are let through."""
LARGE = {
    "half": {"sm_90": "HGMMA", "sm_100": "UTCMMA"},
    "int8": {"sm_90": "IGMMA", "sm_100": "UTCMMA"},
    "fp8": {"sm_90": "QGMMA", "sm_100": "UTCMMA"},
}
SMALL = {"half": ("HMMA",), "int8": ("IMMA",), "fp8": ("QMMA", "HMMA")}
SPILL = {("attention D256", "gfx1100"), ("attention D256 softcap", "gfx1100"), ("attention D128 window", "sm_120")}
"""What spills: on RDNA 3 every wave holds the queries twice, which leaves too few of its 256 registers at this size;
on sm_120 56 bytes, with tiles that serve calls without a window best."""


def chosen() -> list[Any]:
    """(case, architecture): of the representative cases one architecture each, in turn; the rest is slow."""
    return [
        pytest.param(
            case, arch, id=f"{case.name} {arch}", marks=() if cases.FAST.get(case.name) == arch else pytest.mark.slow
        )
        for case in cases.CASES.values()
        for arch in case.on
    ]


def wanted(case: Any, architecture: str) -> tuple[str, ...]:
    """Matrix instructions of which at least one must be there."""
    if architecture.startswith("gfx"):
        return ("MFMA",) if architecture.startswith("gfx9") else ("WMMA",)
    large = LARGE[case.product].get(architecture)
    if large is None:
        return SMALL[case.product][:1]
    return (large, *SMALL[case.product]) if case.small else (large,)


@pytest.mark.parametrize(("case", "architecture"), chosen())
def test_compiles_within_budget(case: Any, architecture: str) -> None:
    found = budget.measure(case, architecture)
    assert found, "nothing was launched"
    if case.product:
        used = {name for taken in found.values() for name in taken}
        assert used & set(wanted(case, architecture)), f"wants {wanted(case, architecture)}, has {used}"
    before = BUDGET["kernels"].get(case.name, {}).get(architecture)
    assert before, "not in the budget yet: python tests/aot/budget.py"
    assert found.keys() == before.keys()
    for kernel, taken in found.items():
        assert taken["shared"] <= SHARED[architecture] * 1024
        if triton.__version__ == BUDGET["triton"]:  # another version allots other registers
            assert taken["spilled"] <= before[kernel]["spilled"], f"{kernel} spills more"
            assert taken["registers"] <= before[kernel]["registers"] + REGISTERS, f"{kernel} takes more registers"


def test_the_budget_is_for_these_cases() -> None:
    """``python tests/aot/budget.py`` rewrites it."""
    listed = {(name, arch) for name, by_arch in BUDGET["kernels"].items() for arch in by_arch}
    assert set(cases.FAST.items()) <= listed <= {(c.name, arch) for c in cases.CASES.values() for arch in c.on}


def test_nothing_in_the_budget_spills_much() -> None:
    spills = {
        f"{case} {architecture} {kernel}": taken["spilled"]
        for case, by_arch in BUDGET["kernels"].items()
        for architecture, kernels in by_arch.items()
        for kernel, taken in kernels.items()
        if taken["spilled"] > 32 and (case, architecture) not in SPILL
    }
    assert not spills


def test_every_op_with_a_kernel_has_a_case() -> None:
    ops = {op for op in OPS if any(name.startswith("triton") for name in backends(op))}
    assert {op for op in ops if not any(name.split()[0] == op for name in cases.CASES)} == set()
