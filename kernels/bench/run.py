"""Measure back ends: ceilings of this machine first, each result checked against float64 before it is timed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from pipegraph.kernels.current_device import current
from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.proven import version_of

from .suites import SUITES, Maker, Subject
from .timing import Call, interleaved

NEVER: Final = ("reference", "reference-w8a8")
"""Back ends that are there to be right, not fast."""


@dataclass(frozen=True, slots=True)
class Row:
    """One back end on one subject."""

    op: str
    shape: str
    backend: str
    ms: float | None
    """Median; None if it was not timed."""
    p10: float | None = None
    p90: float | None = None
    error: float | None = None
    """Relative error against float64."""
    tflops: float | None = None
    gbs: float | None = None
    """GB/s that must be moved at least."""
    floor: float | None = None
    """Milliseconds at the ceilings of this machine."""
    fraction: float | None = None
    """floor / ms."""
    why: str = ""
    """Why it was not timed."""


@dataclass(frozen=True, slots=True)
class Bench:
    """All that was measured."""

    environment: dict[str, str]
    ceilings: dict[str, float]
    """``copy`` in GB/s, the library's matrix products in TFLOPS (TOPS), ``launch`` in ms."""
    rows: tuple[Row, ...]
    unfinished: bool
    """True if time ran out."""

    @property
    def wrong(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.why.startswith(("wrong", "raised")))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def bench(
    suites: Iterable[str] = tuple(SUITES), device: str = "cpu", budget: float = 420, tell: Callable[[str], None] = print
) -> Bench:
    """Run suites on a device; on a CPU in tiny shapes, which show only that all works.

    Args:
        suites: Names of ``SUITES``.
        device: ``cuda``, ``cpu``, ...
        budget: Seconds after which no new benchmark starts.
        tell: Called with each line of the table.
    """
    suites = tuple(suites)
    if unknown := [name for name in suites if name not in SUITES]:
        raise KernelError(f"there is no suite {', '.join(unknown)}; there are: {', '.join(SUITES)}")
    torch_device = torch.device(device)
    with current(torch_device):  # events and graphs are the current device's
        return _run(suites, torch_device, budget, tell)


def _run(suites: tuple[str, ...], device: torch.device, budget: float, tell: Callable[[str], None]) -> Bench:
    start = time.monotonic()
    torch.manual_seed(0)
    make = Maker(device)
    ceilings = measure_ceilings(make)
    tell("ceilings: " + ", ".join(f"{name} {value:.4g}" for name, value in ceilings.items()))
    tell(HEAD)
    rows: list[Row] = []
    unfinished = False
    for name in suites:
        for subject in SUITES[name](make):
            if time.monotonic() - start > budget:
                unfinished = True
                break
            for row in measure(subject, device, ceilings):
                rows.append(row)
                tell(line(row))
    return Bench(environment(device), ceilings, tuple(rows), unfinished)


def measure(subject: Subject, device: torch.device, ceilings: dict[str, float]) -> Iterator[Row]:
    """Check and time every back end of a subject, in turns."""
    names = [b for b in subject.only or backends(subject.op) if b in backends(subject.op) and b not in NEVER]
    want = subject.want()
    calls: dict[str, Call] = {}
    errors: dict[str, float] = {}
    for name in names:
        call = subject.make(name)
        try:
            errors[name] = error = relative(subject.part(call()), want)
        except KernelError as e:
            yield Row(subject.op, subject.shape, name, None, why=str(e).rpartition("cannot serve: ")[2])
        except Exception as e:  # a back end that breaks must not end the others
            yield Row(subject.op, subject.shape, name, None, why=f"raised {type(e).__name__}: {str(e)[:200]}")
        else:
            if error <= _bound(subject, name):
                calls[name] = call
            else:
                yield Row(subject.op, subject.shape, name, None, error=error, why=f"wrong: error {error:.2g}")
    if not calls:
        return
    floor = 1e3 * max(subject.flops / ceilings[subject.product] / 1e12, subject.bytes / ceilings["copy"] / 1e9)
    for name, times in interleaved(calls, device, graph=subject.graph).items():
        yield Row(
            subject.op,
            subject.shape,
            name,
            times.median,
            times.p10,
            times.p90,
            errors[name],
            subject.flops / times.median / 1e9,
            subject.bytes / times.median / 1e6,
            floor,
            floor / times.median,
        )


def _bound(subject: Subject, name: str) -> float:
    reduced = backends(subject.op)[name].numerics != "exact"
    return max(subject.bound, 5e-2) if reduced else subject.bound


def relative(actual: Tensor, want: Tensor) -> float:
    """Relative error in the Frobenius norm; NaN counts as infinite."""
    error = ((actual.double() - want).norm() / want.norm()).item()
    return error if error == error else float("inf")


def measure_ceilings(make: Maker) -> dict[str, float]:
    """Ceilings of this machine: copying, and the library's products of large square matrices of random numbers."""
    n = 1 << (16 if make.tiny else 29)
    a = torch.randint(0, 1 << 30, (n,), dtype=torch.int32, device=make.device)
    b = torch.empty_like(a)
    side = 64 if make.tiny else 8192
    x, y = make(side, side), make(side, side)
    small = make(16)
    calls: dict[str, Call] = {
        "copy": lambda: b.copy_(a),
        "half": lambda: x @ y.T,
        "launch": lambda: small.add_(1),
        **_eight_bit(x, y),
    }
    times = interleaved(calls, make.device)
    work = {name: 2e-9 * side**3 for name in ("half", "int8", "fp8")} | {"copy": 8e-6 * n}
    ceilings = {name: t.median if name == "launch" else work[name] / t.median for name, t in times.items()}
    return {"int8": ceilings["half"], "fp8": ceilings["half"]} | ceilings


def _eight_bit(x: Tensor, y: Tensor) -> dict[str, Call]:
    """Products of 8-bit numbers by torch, if supported."""
    if x.device.type != "cuda":
        return {}
    (a, b), scale = (t.clamp(-4, 4).mul(31).round().to(torch.int8) for t in (x, y)), torch.ones((), device=x.device)
    c, d = (t.to(torch.float8_e4m3fn) for t in (x, y))
    calls: dict[str, Call] = {
        "int8": lambda: torch._int_mm(a, b.T),
        "fp8": lambda: torch._scaled_mm(c, d.T, scale, scale, out_dtype=torch.bfloat16),
    }
    supported: dict[str, Call] = {}
    for name, call in calls.items():
        try:
            call()
        except RuntimeError:
            continue
        supported[name] = call
    return supported


def environment(device: torch.device) -> dict[str, str]:
    """Environment of the measurement."""
    name, capability = "cpu " + torch.backends.cpu.get_cpu_capability(), ""
    if device.type == "cuda":
        name, capability = torch.cuda.get_device_name(), ".".join(map(str, torch.cuda.get_device_capability()))
    versions = {p: version_of(p) for p in ("pipegraph", "triton", "flash-attn", "flashinfer-python", "sageattention")}
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": name,
        "capability": capability,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda or torch.version.hip or ""),
        **versions,
    }


HEAD: Final = f"{'op':13} {'shape':34} {'back end':13} {'ms':>9} {'TFLOPS':>8} {'GB/s':>8} {'of floor':>8} {'error':>8}"


def line(row: Row) -> str:
    """A row of the table."""
    head = f"{row.op:13} {row.shape:34} {row.backend:13} "
    if row.ms is None:
        return head + row.why
    numbers = f"{row.ms:9.4f} {row.tflops or 0:8.1f} {row.gbs or 0:8.0f} {row.fraction or 0:8.1%} {row.error or 0:8.1e}"
    return head + numbers


def read(path: Path) -> dict[str, Any]:
    """Read a file of ``Bench.save``."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data
