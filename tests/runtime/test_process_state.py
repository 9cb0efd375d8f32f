"""What a node changes for the whole process is put back when it ends, and a warning says so."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.node import NodeEvent, Progress, node
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Result, Runner

CHANGES: Mapping[str, tuple[Callable[[], object], Callable[[], Any]]] = {
    "the current folder": (lambda: os.chdir("/"), os.getcwd),
    "the environment": (lambda: os.environ.update(PIPEGRAPH_TEST="1"), lambda: dict(os.environ)),
    "torch's default dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "torch's default device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "torch's threads": (lambda: torch.set_num_threads(3), torch.get_num_threads),
    "torch's gradient mode": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "torch's deterministic mode": (
        lambda: torch.use_deterministic_algorithms(True),
        torch.are_deterministic_algorithms_enabled,
    ),
    "torch's precision of matrix products": (
        lambda: torch.set_float32_matmul_precision("medium"),
        torch.get_float32_matmul_precision,
    ),
    "cuDNN's benchmark mode": (
        lambda: setattr(torch.backends.cudnn, "benchmark", True),
        lambda: torch.backends.cudnn.benchmark,
    ),
    "cuDNN's deterministic mode": (
        lambda: setattr(torch.backends.cudnn, "deterministic", True),
        lambda: torch.backends.cudnn.deterministic,
    ),
    "torch's random generator": (lambda: torch.manual_seed(1), lambda: torch.get_rng_state().tolist()),
    "NumPy's random generator": (lambda: np.random.seed(1), lambda: np.random.get_state()[1].tolist()),  # type: ignore[index]
    "Python's random generator": (lambda: random.seed(1), random.getstate),
}


@node("Change", category="toy")
def change(what: str) -> Generator[NodeEvent, None, int]:
    """Change something for the whole process.

    Args:
        what: A key of CHANGES.
    """
    CHANGES[what][0]()
    yield Progress(1, 1)
    if what.startswith("torch's d"):
        raise ValueError("no luck")
    return 1


@node("Shuffle", category="toy", effect="volatile")
def shuffle() -> int:
    """Draw from the process's generators, as a node may that is never cached."""
    torch.rand(1)
    return random.randrange(100)


@node("Draw", category="toy")
def draw() -> int:
    """Draw from the process's generator, though it claims to be pure."""
    return random.randrange(1 << 60)


def run(tmp_path: Path, kind: str, warned: list[str], **inputs: Any) -> Result:
    graph = load({"pipegraph": 1, "nodes": {"a": {"class_type": kind, "inputs": inputs}}, "outputs": {"x": ["a", 0]}})

    def listen(event: Any) -> None:
        if event.kind == "warning":
            warned.append(event.data["message"])

    return Runner().run(plan(check(graph, Catalog.of(change, shuffle, draw))), output_dir=tmp_path, on_event=listen)


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_put_back_and_said(what: str, tmp_path: Path) -> None:
    before, warned = CHANGES[what][1](), list[str]()
    try:
        run(tmp_path, "Change", warned, what=what)
    except Exception as e:
        assert "no luck" in str(e)
    assert CHANGES[what][1]() == before
    assert warned[-1] == f"Change changed {what} for the whole process; it was restored"
    assert len(warned) == 1 or "the environment" in warned[0]  # torch's deterministic mode sets a variable


def test_a_volatile_node_may_draw(tmp_path: Path) -> None:
    state, warned = random.getstate(), list[str]()
    run(tmp_path, "Shuffle", warned)
    assert random.getstate() != state and not warned


def test_a_pure_node_that_draws_gives_the_same_again_and_is_named(tmp_path: Path) -> None:
    warned: list[str] = []
    assert run(tmp_path, "Draw", warned)["x"] == run(tmp_path, "Draw", warned)["x"]
    assert warned == ["Draw changed Python's random generator for the whole process; it was restored"] * 2
