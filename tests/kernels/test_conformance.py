"""The conformance kit passes every back end that runs here, and catches wrong ones."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels import dispatch, proven
from pipegraph.kernels.backends.torch.attention import sdpa
from pipegraph.kernels.dispatch import OPS, Backend, KernelError, backends, explain, forget, register
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.proof.cases import CASES
from pipegraph.kernels.testing import conformance

HERE = [(op, b.name) for op in OPS for b in backends(op).values() if not b.missing()]


def test_every_op_has_cases() -> None:
    assert list(CASES) == list(OPS)


@pytest.mark.parametrize(("op", "backend"), HERE)
def test_every_back_end_passes(op: str, backend: str) -> None:
    report = conformance(op, backend)
    assert report.passed, report


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Registers an attention called ``mine`` of the package ``torch``: any package that is installed will do."""
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path))

    def one(fn: Callable[..., Any], **options: Any) -> None:
        register(Backend("attention", "mine", fn, rank=lambda s: 99, source="torch", **options))

    backends("attention")
    yield one
    dispatch._backends["attention"].pop("mine", None)
    forget()


def inexact(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    options["scale"] *= 1.001
    return sdpa(q, k, v, **options)


def one_key_too_many(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    if options["window"]:
        options["window"] += 1
    return sdpa(q, k, v, **options)


def wrong_dtype(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    return sdpa(q, k, v, **options).float()  # type: ignore[union-attr]


def writes_to_inputs(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    out = sdpa(q, k, v, **options)
    q *= 2
    return out


def leaves_a_row_unwritten(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    out = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype)
    whole = sdpa(q, k, v, **options)
    assert isinstance(whole, Tensor)
    out[:, :, 1:] = whole[:, :, 1:]
    return out


def ignores_strides(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    if not q.is_contiguous():
        q = torch.as_strided(q, q.shape, torch.empty(q.shape).stride())
    return sdpa(q, k, v, **options)


def random(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    out = sdpa(q, k, v, **options)
    return out + torch.rand_like(out) * 1e-9  # type: ignore[operator, arg-type]


def raises(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:
    raise RuntimeError("no kernel image")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (inexact, "relative error"),
        (one_key_too_many, "window of 7 in float32: result 0 has a relative error"),
        (wrong_dtype, "should be (2, 2, 33, 64) torch.float16"),
        (writes_to_inputs, "the same call twice"),
        (leaves_a_row_unwritten, "the same call twice"),
        (ignores_strides, "with inputs that are slices"),
        (random, "the same call twice"),
        (raises, "RuntimeError: no kernel image"),
    ],
)
def test_a_wrong_back_end_is_caught(add: Callable[..., None], wrong: Callable[..., Any], says: str) -> None:
    add(wrong, refuses=lambda s: "no log-sum-exp" if s.lse else "")
    report = conformance("attention", "mine")
    assert not report.passed and says in str(report)


def test_refusing_everything_is_no_pass(add: Callable[..., None]) -> None:
    add(inexact, refuses=lambda s: "not today")
    report = conformance("attention", "mine")
    assert not report.passed and report.served == 0 and not report.failed
    assert {c.why.rpartition(": ")[2] for c in report.checks} == {"not today"}


def test_a_reduced_back_end_has_wider_bounds(add: Callable[..., None]) -> None:
    add(
        inexact, refuses=lambda s: "" if s.q[3] == 64 and not (s.lse or s.softcap) else "plain only", numerics="reduced"
    )
    assert conformance("attention", "mine").passed


def test_unknown_names(add: Callable[..., None]) -> None:
    with pytest.raises(KernelError, match="no cases for `conv`"):
        conformance("conv", "torch")
    with pytest.raises(KernelError, match="no back end `mine`"):
        conformance("attention", "mine")


def test_another_packages_back_end_is_chosen_once_proven(add: Callable[..., None], tmp_path: Path) -> None:
    def chosen() -> list[str]:
        forget()
        return [r.backend for r in explain("attention") if r.chosen]

    add(sdpa, refuses=lambda s: "no log-sum-exp, no softcap" if s.lse or s.softcap else "")
    assert chosen() == ["torch"]
    why = next(r.why for r in explain("attention") if r.backend == "mine")
    assert why == "unverified; `pipegraph kernels attention --prove mine` tests it, else only by name"
    q = torch.ones(1, 1, 2, 4)
    assert torch.equal(attention(q, q, q, backend="mine"), q)
    proven.record("attention", "mine", "torch", "cpu", conformance("attention", "mine").passed)
    assert chosen() == ["mine"]
    file = tmp_path / "proven_kernels.json"
    file.write_text(
        json.dumps({k: v.replace(torch.__version__, "0.1") for k, v in json.loads(file.read_text()).items()})
    )
    proven._parse.cache_clear()
    assert chosen() == ["torch"], "another version must be proven again"
    proven.record("attention", "mine", "torch", "cpu", True)
    proven.record("attention", "mine", "torch", "cpu", False)
    assert chosen() == ["torch"]


def test_report_is_plain_data() -> None:
    report = conformance("linear", "torch")
    assert json.loads(json.dumps(dataclasses.asdict(report)))["checks"][0]["outcome"] == "passed"
