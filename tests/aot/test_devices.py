"""On a machine with several GPUs kernels are launched on that of their tensors, whichever is current; no GPU is needed.

Calls are described as those of ``cuda:1`` while ``cuda:0`` is current. Their tensors have no memory, and launches are
noted in place of being compiled.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.runtime.jit import JITFunction

from pipegraph.kernels.backends.triton.ahead import compiling
from pipegraph.kernels.dispatch import OPS, Backend, Op, backends, noting

spec = importlib.util.spec_from_file_location("budget", Path(__file__).with_name("budget.py"))
assert spec and spec.loader
budget: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(budget)
CASES = budget.load("cases").CASES
SECOND = torch.device("cuda", 1)
TRITON = {op: {name for name in backends(op) if name.startswith("triton")} for op in OPS}


class Current:
    """Stands for ``torch.cuda.device``."""

    index = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.before, Current.index = Current.index, self.device.index

    def __exit__(self, *_: object) -> None:
        Current.index = self.before


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(kernel, index of the current device) of launches on a machine with two GPUs."""
    noted: list[tuple[str, int]] = []
    pick = Op.pick

    def pick_on_second(self: Op[Any], key: Any, backend: str | None = None) -> Backend[Any]:
        return pick(self, tuple(SECOND if isinstance(part, torch.device) else part for part in key), backend)

    monkeypatch.setattr(Op, "pick", pick_on_second)
    monkeypatch.setattr(torch.cuda, "device", Current)
    monkeypatch.setattr(JITFunction, "run", lambda self, *_, **__: noted.append((self.fn.__name__, Current.index)))
    return noted


@pytest.mark.parametrize("op", [op for op in OPS if TRITON[op]])
def test_every_op_launches_on_the_device_of_its_tensors(op: str, launches: list[tuple[str, int]]) -> None:
    run: set[str] = set()
    for case in CASES.values():
        if case.name.split()[0] == op and "sm_90" in case.on:
            with compiling("sm_90"), noting() as used:
                case.call()
            run |= used[op]
    assert launches and {index for _, index in launches} == {1}, launches
    assert run == TRITON[op], "a back end without a case"
    assert Current.index == 0
