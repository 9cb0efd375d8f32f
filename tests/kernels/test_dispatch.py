"""How a back end is chosen, overridden and explained."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels import dispatch
from pipegraph.kernels.dispatch import Backend, KernelError, explain, noting, parse, register, use
from pipegraph.kernels.ops.attention import OP, Signature, attention

Q = torch.randn(1, 2, 3, 8, generator=torch.Generator().manual_seed(0))
CALLS: list[str] = []


def marked(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    CALLS.append("marked")
    return torch.zeros(*q.shape[:3], v.shape[3])


def rough(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    CALLS.append("rough")
    return torch.zeros(*q.shape[:3], v.shape[3])


def at_most_three(s: Signature) -> str:
    return "" if s.q[2] <= 3 else f"{s.q[2]} queries are more than 3"


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two more back ends: a slow one for 3 queries or fewer, and a fast one that is not exact."""
    CALLS.clear()
    monkeypatch.setattr(dispatch, "proven", lambda *_: True)
    register(
        Backend("attention", "marked", marked, rank=lambda s: 1, source="elsewhere", refuses=at_most_three),
    )
    register(Backend("attention", "rough", rough, rank=lambda s: 99, numerics="reduced", source="elsewhere"))
    yield
    for name in ("marked", "rough"):
        del dispatch._backends["attention"][name]
    OP.memo.clear()


def test_argument_beats_context(others: None) -> None:
    with use(attention="marked"):
        attention(Q, Q, Q)
        attention(Q, Q, Q, backend="rough")
        with use("attention=reference"):
            attention(Q, Q, Q)
        attention(Q, Q, Q)
    attention(Q, Q, Q)
    assert CALLS == ["marked", "rough", "marked"]


def test_context_holds_for_its_thread_only(others: None) -> None:
    with use(attention="marked"):
        thread = threading.Thread(target=attention, args=(Q, Q, Q))
        thread.start()
        thread.join()
    assert CALLS == []


def test_explicit_choice_that_cannot_serve_says_why(others: None) -> None:
    long = torch.ones(1, 1, 4, 8)
    with use(attention="marked"), pytest.raises(KernelError, match=r"`marked` .* cannot serve: 4 queries are more"):
        attention(long, long, long)
    with pytest.raises(KernelError, match=r"no back end `mine`; there are: .*torch"):
        attention(Q, Q, Q, backend="mine")
    with pytest.raises(KernelError, match="no back end `tosch`; did you mean `torch`"), use(attention="tosch"):
        pass
    with pytest.raises(KernelError, match="no op `atention`; did you mean `attention`"), use(atention="torch"):
        pass


def test_a_wish_gives_way_where_it_cannot_be_met(others: None) -> None:
    long = torch.ones(1, 1, 4, 8)
    with use(attention="marked?"):
        attention(Q, Q, Q)
        assert torch.allclose(attention(long, long, long), long)
        assert explain("attention")[0].backend == "marked"
    assert CALLS == ["marked"]
    with pytest.raises(KernelError, match="no back end `tosch`"), use(attention="tosch?"):
        pass


def test_automatic_choice_never_lowers_the_numerics_class(others: None) -> None:
    attention(Q, Q, Q)
    assert CALLS == []
    attention(Q, Q, Q, precision="fast")
    assert CALLS == ["rough"]


def test_explain_lists_all_with_reasons(others: None) -> None:
    reports = {r.backend: r for r in explain("attention")}
    names = list(reports)
    assert names[0] == "torch" and [n for n in names if n in ("rough", "marked", "reference")] == [
        "rough",
        "marked",
        "reference",
    ]
    assert reports["torch"].chosen and "highest rank" in reports["torch"].why
    assert not reports["marked"].usable and reports["marked"].why == "4096 queries are more than 3"
    assert "lowers the numerics class" in reports["rough"].why and reports["rough"].source == "elsewhere"
    assert "`torch` ranks higher" in reports["reference"].why
    with use(attention="reference"):
        assert [(r.backend, r.why) for r in explain("attention") if r.chosen] == [("reference", "asked for by use()")]
    with use(attention="marked"):
        first = explain("attention")[0]
        assert not first.chosen and "asked for by use(), but it cannot serve: 4096" in first.why
    assert {r.op for r in explain()} >= {"attention", "linear"}


def test_noting_tells_what_calls_ran_on(others: None) -> None:
    attention(Q, Q, Q, backend="marked")
    with noting() as calls:
        assert not calls
        attention(Q, Q, Q, backend="reference")
        attention(Q, Q, Q)
    assert calls == {"attention": {"reference", "torch"}}
    attention(Q, Q, Q, backend="marked")
    assert calls == {"attention": {"reference", "torch"}}


def test_registration_refuses_a_taken_name_and_odd_callables(others: None) -> None:
    taken: Backend[Any] = Backend("attention", "torch", marked, rank=lambda s: 0, source="my-package")
    with pytest.raises(KernelError, match="from pipegraph and my-package"):
        register(taken)
    with pytest.raises(KernelError, match="unknown op `attn`"):
        register(replace(taken, op="attn"))
    with pytest.raises(KernelError, match="plain function"):
        register(replace(taken, name="built-in", fn=print))


def test_parse() -> None:
    assert parse("attention=torch, linear=reference") == {"attention": "torch", "linear": "reference"}
    assert parse("") == {}
    for wrong in ("attention", "attention=", "=torch"):
        with pytest.raises(KernelError, match="cannot read"):
            parse(wrong)


def test_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    def explained(value: str) -> list[tuple[str, str]]:
        monkeypatch.setenv(dispatch.VARIABLE, value)
        dispatch._environment.cache_clear()
        OP.memo.clear()
        return [(r.backend, r.why) for r in explain("attention") if r.chosen]

    assert explained("attention=reference") == [("reference", "asked for by PIPEGRAPH_KERNELS")]
    with noting() as calls:
        attention(Q, Q, Q)
    assert calls == {"attention": {"reference"}}
    assert explained("attention=reference?") == [("reference", "asked for by PIPEGRAPH_KERNELS")]
    with pytest.raises(KernelError, match="did you mean `reference`"):
        explained("attention=refrence")
    assert explained("")[0][0] == "torch"


class TwoGpus:
    """Stands for ``torch.cuda.device`` where there are two of them."""

    current = 0

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.before, TwoGpus.current = TwoGpus.current, self.device.index

    def __exit__(self, *_: object) -> None:
        TwoGpus.current = self.before


def test_back_ends_are_asked_and_run_on_the_gpu_of_the_tensors(others: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def current(*args: Any, **options: Any) -> int:
        return TwoGpus.current

    monkeypatch.setattr(torch.cuda, "device", TwoGpus)
    gpus = {"new": 1, "old": 0}
    both: list[Backend[Any]] = [
        Backend("attention", name, current, lambda s: 98, lambda s, gpu=gpu: "" if TwoGpus.current == gpu else "no")  # type: ignore[misc]
        for name, gpu in gpus.items()
    ]
    for backend in both:
        register(backend)
    try:
        picked = [OP.pick(call_key(torch.device("cuda", index))) for index in (0, 1, 0)]
    finally:
        for backend in both:
            del dispatch._backends["attention"][backend.name]
    assert [p.name for p in picked] == ["old", "new", "old"]
    assert [p.fn() for p in picked] == [0, 1, 0] and TwoGpus.current == 0
    assert OP.pick(call_key(Q.device), "marked").fn is marked  # nothing is put round back ends on a CPU


def call_key(device: torch.device) -> Any:
    return Q.shape, Q.shape, Q.shape, (Q.dtype,) * 3, device, None, None, False, None, False, "exact", None, None


def test_entry_points_are_loaded_and_their_faults_told(tmp_path: Any) -> None:
    (tmp_path / "plugin.py").write_text(
        "from pipegraph.kernels.dispatch import Backend\n"
        "def mine(x, weight, bias, low_rank): return x @ weight.T\n"
        "def add(register): register(Backend('linear', 'mine', mine, rank=lambda s: -1, source='plugin'))\n"
        "def fails(register): raise RuntimeError('no device')\n"
    )
    info = tmp_path / "plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[pipegraph.kernels]\ngood = plugin:add\nbad = plugin:fails\n")
    code = """
import sys
from pipegraph.kernels import dispatch
assert "torch" not in sys.modules, "importing the dispatcher loads torch"
for r in dispatch.explain(): print(r.op, r.backend, r.version, r.source, r.why)
assert not {"diffusers", "transformers", "triton"} & set(sys.modules)
"""
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    out = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert "linear mine 1 plugin unverified; `pipegraph kernels linear --prove mine` tests it" in out
    assert "* bad  entry point RuntimeError: no device" in out


def nothing(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    return q


def test_choice_is_cheap(others: None) -> None:
    """Goal: 3 us a call once chosen, quiet (benchmarks/dispatch.py); the bound leaves room."""
    register(Backend("attention", "marked-2", nothing, rank=lambda s: 100))
    try:
        with noting() as calls:
            attention(Q, Q, Q)
        assert calls == {"attention": {"marked-2"}}
        best = min(_seconds() for _ in range(50)) / 100
    finally:
        del dispatch._backends["attention"]["marked-2"]
    assert best < 10e-6


def _seconds() -> float:
    start = time.process_time()
    for _ in range(100):
        attention(Q, Q, Q)
    return time.process_time() - start
