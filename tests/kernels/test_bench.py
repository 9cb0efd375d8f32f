"""The bench itself: all suites in tiny shapes, nothing wrong is timed, what is saved can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from pipegraph.kernels.bench.check import check
from pipegraph.kernels.bench.plot import plot
from pipegraph.kernels.bench.run import Bench, bench, line, measure, relative
from pipegraph.kernels.bench.suites import SUITES, Maker, Subject
from pipegraph.kernels.bench.timing import interleaved, rotate
from pipegraph.kernels.dispatch import KernelError

CPU = torch.device("cpu")
CEILINGS = {"copy": 10.0, "half": 1.0, "int8": 1.0, "fp8": 1.0}


@pytest.fixture(scope="module")
def measured() -> Bench:
    return bench(tell=lambda text: None)


def test_measures_on_the_device_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and graphs are the current device's; no GPU is needed."""
    entered: list[object] = []

    def current(device: torch.device) -> AbstractContextManager[None]:
        entered.append(device)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr("pipegraph.kernels.bench.run._run", lambda suites, device, *_: list(entered))
    assert bench(("attention",), "cuda:1") == [torch.device("cuda", 1)]  # type: ignore[comparison-overlap]


def test_every_suite_measures_torch(measured: Bench) -> None:
    assert not measured.wrong and not measured.unfinished
    timed = {(row.op, row.backend) for row in measured.rows if row.ms is not None}
    assert {op for op, backend in timed if backend == "torch"} >= {
        "attention",
        "linear",
        "paged_decode",
        "rms_norm",
        "ada_norm",
        "swiglu",
        "qk_norm_rope",
        "quantize_rows",
    }
    assert ("linear", "scaled-mm") in timed
    for row in measured.rows:
        if row.ms is None:
            assert row.why
        else:
            assert row.ms > 0 and row.p10 is not None and row.p90 is not None and row.p10 <= row.ms <= row.p90
            assert row.fraction is not None and row.error is not None and row.error < 5e-2


@pytest.mark.parametrize("suite", ["linear", "few-rows"])
def test_operations_of_linear_layers(suite: str) -> None:
    subjects = list(SUITES[suite](Maker(CPU)))
    for subject in subjects:
        m, n, k = (int(size) for size in subject.shape.split()[0].split("x"))
        assert subject.flops == 2 * m * n * k
        if subject.shape.endswith("32-bit"):
            assert subject.bytes == 4 * (n * k + m * k + m * n)
    assert len(subjects) > 1


def test_saved_and_drawn(measured: Bench, tmp_path: Path) -> None:
    measured.save(tmp_path / "b.json")
    read = json.loads((tmp_path / "b.json").read_text())
    assert len(read["rows"]) == len(measured.rows)
    assert read["ceilings"]["copy"] > 0 and read["environment"]["torch"] == torch.__version__
    plot(measured, tmp_path / "b.png")
    with Image.open(tmp_path / "b.png") as picture:
        assert picture.width > 800 and picture.height > 20 * len({(r.op, r.shape) for r in measured.rows})
    assert "nan" not in "".join(line(row) for row in measured.rows)


def subject(make: Callable[[str], Callable[[], Any]], **changes: Any) -> Subject:
    known: dict[str, Any] = dict(op="linear", shape="s", make=make, want=lambda: torch.ones(3).double(), bound=1e-6)
    return Subject(**known | dict(only=("torch", "few-rows"), flops=3e6, bytes=1e6) | changes)


def test_what_is_wrong_or_raises_is_not_timed() -> None:
    def make(name: str) -> Callable[[], Any]:
        return (lambda: torch.ones(3) * 1.1) if name == "torch" else lambda: 1 / 0

    rows = list(measure(subject(make), CPU, CEILINGS))
    assert [row.ms for row in rows] == [None, None]
    assert rows[0].why == "wrong: error 0.1" and rows[1].why.startswith("raised ZeroDivisionError")


def test_floor_is_the_slower_of_both_ceilings() -> None:
    def make(name: str) -> Callable[[], Any]:
        return lambda: torch.ones(3)

    for flops, moved, floor in ((3e6, 1e6, 0.1), (3e9, 1e6, 3.0)):
        for row in measure(subject(make, flops=flops, bytes=moved), CPU, CEILINGS):
            assert row.floor == pytest.approx(floor) and row.fraction == pytest.approx(floor / (row.ms or 0))


def test_nan_is_wrong() -> None:
    assert relative(torch.tensor([1.0, torch.nan]), torch.ones(2).double()) == float("inf")


def test_time_is_up() -> None:
    assert bench(["attention"], budget=-1, tell=lambda text: None).unfinished
    with pytest.raises(KernelError, match="no suite atention; there are: attention"):
        bench(["atention"])
    assert list(SUITES) == ["attention", "linear", "few-rows", "decode", "fused"]


def test_calls_take_turns() -> None:
    order: list[str] = []
    interleaved({name: lambda name=name: order.append(name) for name in "ab"}, CPU, most_ms=1)  # type: ignore[misc]
    assert order[:6] == ["a", "b"] * 3
    seen: list[int] = []
    turn = rotate([lambda i=i: seen.append(i) for i in range(3)])  # type: ignore[misc]
    for _ in range(4):
        turn()
    assert seen == [0, 1, 2, 0]


def test_check_tells_of_every_back_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipegraph.kernels.bench.check.OPS", {"swiglu": "gated"})
    said: list[str] = []
    assert check("cpu", said.append, workers=1)
    assert said == ["swiglu/reference on cpu: 24 served, 0 failed", "swiglu/torch on cpu: 24 served, 0 failed"]
