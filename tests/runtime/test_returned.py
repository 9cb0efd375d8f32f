"""What a node returned is held against its types, and the node that returned it is blamed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch

from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.errors import RunError
from pipegraph.runtime.node import Wire, node
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Runner


def returns(kind: Any, value: Any) -> Callable[[], Any]:
    def fn() -> Any:
        """Give a value."""
        return value

    fn.__annotations__["return"] = kind
    return node("Give", category="toy")(fn)


def result(tmp_path: Path, kind: Any, value: Any) -> Any:
    document = {"pipegraph": 1, "nodes": {"give": {"class_type": "Give"}}, "outputs": {"out": ["give", 0]}}
    planned = plan(check(load(document), Catalog.of(returns(kind, value)), {}))
    return Runner().run(planned, output_dir=tmp_path)["out"]


WRONG = [
    ("IMAGE", torch.zeros(4, 4, 3), r"IMAGE must be a tensor \[batch, .*; the node returned Tensor\[4, 4, 3\]"),
    ("IMAGE", torch.zeros(1, 3, 4, 5), r"returned Tensor\[1, 3, 4, 5\]"),
    ("IMAGE", np.zeros((1, 4, 4, 3)), r"returned ndarray\[1, 4, 4, 3\]"),
    ("IMAGE", None, "returned None"),
    ("IMAGE", "hello", "returned 'hello'"),
    ("MASK", torch.zeros(1, 4, 4, 1), r"returned Tensor\[1, 4, 4, 1\]"),
    ("LATENT", torch.zeros(1, 4, 8, 8), 'a dictionary with "samples"'),
    ("LATENT", {"sample": 1}, "returned dict of 1"),
    ("CONDITIONING", (1, 2), "returned tuple of 2"),
    ("SIGMAS", torch.zeros(1, 3), r"returned Tensor\[1, 3\]"),
    ("PALETTE", None, "must be PALETTE; the node returned None"),
    ("IMAGE,MASK", torch.zeros(4), r"channels\] or a tensor"),
]


@pytest.mark.parametrize(("wire", "value", "message"), WRONG)
def test_a_wrong_value_is_told_of_the_node_that_returned_it(
    tmp_path: Path, wire: str, value: Any, message: str
) -> None:
    with pytest.raises(RunError, match=message) as error:
        result(tmp_path, Annotated[Any, Wire(wire)], value)
    assert error.value.problem.node == "give"


@pytest.mark.parametrize(("kind", "value"), [(int, 1.0), (int, True), (int, "1"), (str, 1), (bool, 1), (float, None)])
def test_plain_values_are_exact(tmp_path: Path, kind: Any, value: Any) -> None:
    with pytest.raises(RunError, match=r'node "give".*must be'):
        result(tmp_path, kind, value)


RIGHT: list[tuple[Any, Any]] = [
    (Annotated[Any, Wire("IMAGE")], torch.zeros(2, 4, 5, 4)),
    (Annotated[Any, Wire("IMAGE")] | None, None),
    (Annotated[Any, Wire("MASK")], torch.zeros(4, 4)),
    (Annotated[Any, Wire("LATENT")], {"samples": torch.zeros(1, 4, 8, 8)}),
    (Annotated[Any, Wire("CONDITIONING")], []),
    (Annotated[Any, Wire("PALETTE")], "anything"),
    (Annotated[Any, Wire("IMAGE,MASK")], torch.zeros(1, 4, 4)),
    (Annotated[Any, Wire("*")], None),
    (int | None, None),
    (float, 2),
]


@pytest.mark.parametrize(("kind", "value"), RIGHT)
def test_a_right_value_goes_on(tmp_path: Path, kind: Any, value: Any) -> None:
    given = result(tmp_path, kind, value)
    assert type(given) is type(value) or (value == 2 and type(given) is float)
