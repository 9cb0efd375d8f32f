"""The conformance kit: check a back end against the definition of its op.

    report = conformance("attention", "my_backend", "cuda")
    assert report.passed, report

Runs a back end over the cases of its op (:mod:`proof.cases`) in every float dtype and compares with the reference in
float64 on the same stored inputs. Needs neither pytest nor a GPU; our own tests use the same cases and bounds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Any, Final, Literal

import torch
from torch import Tensor

from .dispatch import OPS, KernelError, backends
from .proof.cases import BOUNDS, CASES, REDUCED, Case

DTYPES: Final = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
Outcome = Literal["passed", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Check:
    """One case in one dtype."""

    case: str
    dtype: str
    outcome: Outcome
    why: str = ""
    """The failure, or why the case is not supported."""
    error: float = 0.0
    """Relative error (Frobenius norm) against float64."""


@dataclass(frozen=True, slots=True)
class Report:
    """Result of the kit."""

    op: str
    backend: str
    device: str
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(c for c in self.checks if c.outcome == "failed")

    @property
    def served(self) -> int:
        """Number of supported cases."""
        return sum(c.outcome != "refused" for c in self.checks)

    @property
    def passed(self) -> bool:
        """Whether some case is supported and none failed."""
        return self.served > 0 and not self.failed

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        head = f"{self.op}/{self.backend} on {self.device}: {verdict}, {self.served} served, {len(self.failed)} failed"
        head += f", {len(self.checks) - self.served} refused"
        return "\n  ".join([head, *(f"{c.case} in {c.dtype}: {c.why}" for c in self.failed)])


def conformance(
    op: str, backend: str, device: str = "cpu", *, dtypes: Sequence[torch.dtype] = DTYPES, every: int = 1
) -> Report:
    """Run every case of an op on one of its back ends.

    An unsupported case counts neither way; a back end without supported cases has not passed.

    Args:
        op: One of ``dispatch.OPS``.
        backend: Name of the back end.
        device: Device to run on.
        dtypes: Float dtypes to try.
        every: Run every n-th case only; a subset does not count as a proof.

    Raises:
        KernelError: unknown op or back end, or an op without cases.
    """
    if op not in OPS or op not in CASES:
        raise KernelError(f"the kit has no cases for `{op}`; it has: {', '.join(CASES)}")
    if backend not in backends(op):
        raise KernelError(f"{op} has no back end `{backend}`; there are: {', '.join(backends(op))}")
    run = getattr(import_module(f"pipegraph.kernels.ops.{OPS[op]}"), op)
    reduced = backends(op)[backend].numerics != "exact"
    checks = []
    for case in islice(CASES[op](), 0, None, every):
        for dtype in [d for d in case.dtypes or DTYPES if d in dtypes]:
            bound = max(REDUCED, BOUNDS[op][dtype]) if reduced else BOUNDS[op][dtype]
            checks.append(_check(run, case, backend, dtype, torch.device(device), bound))
    return Report(op, backend, device, tuple(checks))


def _check(
    run: Callable[..., Any], case: Case, backend: str, dtype: torch.dtype, device: torch.device, bound: float
) -> Check:
    name = str(dtype).removeprefix("torch.")
    stored = _map(case.arguments, lambda t: _stored(t, device, dtype))
    try:
        want = _call(run, case, _map(case.arguments, lambda t: _stored(t, device, dtype, wide=True)), "reference")
        result, copies = _call(run, case, stored, backend), _map(stored, Tensor.clone)
        with _poisoned():
            again = _call(run, case, copies, backend)
        if why := _differs(_tensors(result), _tensors(again)):
            return Check(case.name, name, "failed", f"the same call twice: {why}")
        if not case.mutates and (why := _differs(_tensors(stored), _tensors(copies))):
            return Check(case.name, name, "failed", f"changes its inputs: {why}")
        slices = {k: _strided(v) if isinstance(v, Tensor) else v for k, v in stored.items()}
        strided = _call(run, case, slices, backend)
    except KernelError as e:
        refused = "cannot serve" in str(e)
        return Check(case.name, name, "refused" if refused else "failed", str(e))
    except Exception as e:  # whatever another package's code raises is a finding
        return Check(case.name, name, "failed", f"{type(e).__name__}: {e}")
    worst = 0.0
    for prefix, output in (("", result), ("with inputs that are slices: ", strided)):
        why, error = _compare(_tensors(output), _tensors(want), dtype, bound, case)
        worst = max(worst, error)
        if why:
            return Check(case.name, name, "failed", prefix + why, worst)
    return Check(case.name, name, "passed", error=worst)


def _stored(t: Tensor, device: torch.device, dtype: torch.dtype, wide: bool = False) -> Tensor:
    """A tensor of a case in ``dtype``, or in float64 with the rounded values."""
    if t.dtype != torch.float64:
        return t.to(device)
    stored = t.to(device, dtype)
    return stored.double() if wide else stored


def _call(run: Callable[..., Any], case: Case, arguments: dict[str, Any], backend: str) -> Any:
    """The result of a call, or for an op that writes into arguments, these."""
    if case.mutates:
        arguments = arguments | {name: _map(arguments[name], Tensor.clone) for name in case.mutates}
    result = run(**arguments, backend=backend)
    return [arguments[name] for name in case.mutates] if case.mutates else result


def _compare(
    actual: list[Tensor], want: list[Tensor], dtype: torch.dtype, bound: float, case: Case
) -> tuple[str, float]:
    """The failure of a result, or an empty string, and its relative error."""
    if len(actual) != len(want):
        return f"{len(actual)} results for {len(want)}", 0.0
    worst = 0.0
    for i, (a, b) in enumerate(zip(actual, want, strict=True)):
        kind = dtype if i == 0 and b.dtype == torch.float64 else a.dtype
        if a.shape != b.shape or a.dtype != kind or a.device != b.device:
            description = f"{tuple(a.shape)} {a.dtype} on {a.device}"
            return f"result {i} is {description}, should be {tuple(b.shape)} {kind} on {b.device}", worst
        if not b.is_floating_point():
            off = int((a.long() - b.long()).abs().max()) if b.numel() else 0
            if off > case.steps:
                return f"result {i} is off by {off}, bound {case.steps}", worst
            continue
        odd, error = _error(a, b)
        worst = max(worst, error)
        limit = case.bound if case.bound and i == 0 else bound
        if odd or not error <= limit:
            return odd or f"result {i} has a relative error of {error:.2g}, bound {limit:.2g}", worst
    return "", worst


def _error(actual: Tensor, want: Tensor) -> tuple[str, float]:
    actual, want = actual.double(), want.double()
    plain = want.isfinite()
    if not torch.equal(plain, actual.isfinite()) or not torch.equal(
        want[~plain].nan_to_num(0.5), actual[~plain].nan_to_num(0.5)
    ):
        return f"NaN or Inf in {int((~actual.isfinite()).sum())} places, should be in {int((~plain).sum())}", 0.0
    size = want[plain].norm().item()
    return "", (actual[plain] - want[plain]).norm().item() / (size or 1.0)


def _differs(first: list[Tensor], second: list[Tensor]) -> str:
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        same = a.shape == b.shape and (a == b) | (a.isnan() & b.isnan() if a.is_floating_point() else False)
        if same is False or not bool(torch.as_tensor(same).all()):
            return f"tensor {i} differs"
    return ""


def _strided(t: Tensor) -> Tensor:
    """The same values as a slice of a larger tensor: the rows of a fused projection."""
    if t.ndim < 2 or not t.is_floating_point() or t.dtype.itemsize < 2:
        return t
    return torch.cat([t, t], -1)[..., : t.shape[-1]]


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply ``change`` to every tensor in nested containers and dataclasses."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {k: _map(v, change) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_map(v, change) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _map(getattr(value, f.name), change) for f in fields(value)})
    return value


def _tensors(value: Any) -> list[Tensor]:
    tensors: list[Tensor] = []

    def find(t: Tensor) -> Tensor:
        tensors.append(t)
        return t

    _map(value, find)
    return tensors


@contextmanager
def _poisoned() -> Iterator[None]:
    """Fill new memory with NaN, so that a result that is not fully written is detected."""
    before, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warn)
