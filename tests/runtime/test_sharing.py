"""What the cache hands out stays as it is: callers get copies, and a node that changes an input is found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.errors import RunError
from pipegraph.runtime.node import Lazy, NodeEvent, Progress, Wire, node
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Result, Runner
from pipegraph.runtime.sharing import copied

Latent = Annotated[Any, Wire("LATENT")]
Image = Annotated[Any, Wire("IMAGE")]
CALLS: Counter[str] = Counter()


@node("Ones", category="toy")
def ones() -> Latent:
    """A latent of ones."""
    CALLS["Ones"] += 1
    return {"samples": torch.ones(1, 2, 3, 3), "batch_index": [0]}


@node("Zero", category="toy")
def zero(latent: Latent) -> Latent:
    """Set to zero, in place.

    Args:
        latent: What is changed.
    """
    latent["samples"][:, 1].zero_()
    return latent


@node("Mask", category="toy")
def mask(latent: Latent) -> Generator[NodeEvent, None, Latent]:
    """Put a mask into the latent, then fail.

    Args:
        latent: What is changed.
    """
    yield Progress(1, 1)
    latent["noise_mask"] = torch.ones(1, 3, 3)
    raise ValueError("no luck")


@node("LateZero", category="toy")
def late_zero(latent: Lazy[Latent]) -> Latent:
    """Set to zero, in place, what is asked for late.

    Args:
        latent: What is changed.
    """
    latent.get()["samples"].zero_()
    return latent.get()


@node("ZeroThroughNumpy", category="toy")
def zero_through_numpy(latent: Latent) -> Latent:
    """Give a copy on and set the original to zero, unseen by torch.

    Args:
        latent: What is changed.
    """
    copy = {"samples": latent["samples"].clone()}
    latent["samples"].numpy()[:] = 0
    return copy


@node("Double", category="toy")
def double(latent: Latent) -> Latent:
    """Double.

    Args:
        latent: What is not changed.
    """
    return {**latent, "samples": latent["samples"] * 2}


@pytest.fixture
def go(tmp_path: Path, short: Callable[..., dict[str, Any]]) -> Callable[..., Result]:
    CALLS.clear()
    runner, catalog = Runner(), Catalog.of(ones, zero, zero_through_numpy, mask, late_zero, double)

    def run(nodes: Mapping[str, Any], end: str) -> Result:
        return runner.run(plan(check(load(short(nodes, end)), catalog)), output_dir=tmp_path)

    return run


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Zero", "changed_input"),
        ("ZeroThroughNumpy", "changed_input"),
        ("LateZero", "changed_input"),
        ("Mask", "node_failed"),
    ],
)
def test_a_node_that_changes_its_input_is_told_and_harms_no_later_run(
    go: Callable[..., Result], kind: str, code: str
) -> None:
    nodes = {"a": ("Ones", {}), "z": (kind, {"latent": ["a", 0]}), "d": ("Double", {"latent": ["a", 0]})}
    with pytest.raises(RunError) as caught:
        go(nodes, "z")
    problem = caught.value.problem
    assert (problem.code, problem.node) == (code, "z")
    assert code == "node_failed" or "input latent in place" in problem.message
    after = go({"a": nodes["a"], "d": nodes["d"]}, "d")["out"]
    assert after.keys() == {"samples", "batch_index"} and bool((after["samples"] == 2).all())


def test_a_caller_may_change_what_it_gets(go: Callable[..., Result]) -> None:
    nodes = {"a": ("Ones", {}), "d": ("Double", {"latent": ["a", 0]})}
    mine = go(nodes, "a")["out"]
    mine["samples"].zero_()
    mine["batch_index"].append(1)
    assert bool((go(nodes, "d")["out"]["samples"] == 2).all())
    assert go(nodes, "a")["out"]["batch_index"] == [0] and CALLS["Ones"] == 1


def test_copies_are_deep_for_containers_and_leave_the_rest() -> None:
    tensor, network, array = torch.ones(2), torch.nn.Linear(1, 1), torch.ones(2).numpy()
    value = [[tensor, {"pooled": tensor, "network": network}], (array, "text", 3)]
    made = copied(value)
    made[0][0].zero_()
    made[1][0][0] = 5
    assert tensor.tolist() == [1, 1] == array.tolist() and made[0][1]["network"] is network
    assert made[1][1:] == ("text", 3)
