"""Functions of a node's declaration that raise: the graph is not to blame, and the error says where the fault is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.errors import GraphError
from pipegraph.runtime.node import Auto, Choices, FileInput, FileName, Wire, node

Model = Annotated[Any, Wire("MODEL")]


def fail(*_: Any, **__: Any) -> Any:
    raise ArithmeticError("no luck")


@node("Plain", category="toy")
def plain(name: str = "a") -> Model:
    """A model.

    Args:
        name: Its name.
    """
    return name


@node("Choosing", category="toy")
def choosing(name: Annotated[str, Choices(fail)] = "a") -> str:
    """Choose.

    Args:
        name: What.
    """
    return name


@node("Finding", category="toy")
def finding(name: Annotated[str, FileInput(fail, list)] = "a") -> str:
    """Read.

    Args:
        name: What.
    """
    return name


@node("Judging", category="toy")
def judging(name: Annotated[str, FileInput(lambda name: [Path(name)], list, fail)] = "a") -> str:
    """Read.

    Args:
        name: What.
    """
    return name


@node("Naming", category="toy")
def naming(name: Annotated[str, FileName(fail)] = "a") -> str:
    """Write.

    Args:
        name: What.
    """
    return name


@node("Ruling", category="toy", check=fail)
def ruling(name: str = "a") -> str:
    """Have rules.

    Args:
        name: What.
    """
    return name


@node("Sizing", category="toy", size=fail)
def sizing(name: str = "a") -> str:
    """Take memory.

    Args:
        name: What.
    """
    return name


@node("Modelling", category="toy", check_model=fail)
def modelling(model: Model, name: str = "a") -> str:
    """Use a model.

    Args:
        model: Which.
        name: What.
    """
    return name


@node("Recommending", category="toy", recommend=lambda name: fail())
def recommending(name: str = "a") -> Model:
    """Load.

    Args:
        name: What.
    """
    return name


@node("Stepping", category="toy")
def stepping(model: Model, steps: Annotated[int, Auto("steps")] = 1) -> int:
    """Take what the model recommends.

    Args:
        model: Which.
        steps: How many.
    """
    return steps


CATALOG = Catalog.of(plain, choosing, finding, judging, naming, ruling, sizing, modelling, recommending, stepping)


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("Choosing", "list of values"),
        ("Finding", "look-up of files"),
        ("Judging", "look-up of files"),
        ("Naming", "file name"),
        ("Ruling", "check"),
        ("Sizing", "check of size or model"),
        ("Modelling", "check of size or model"),
        ("Recommending", "recommend"),
    ],
)
def test_the_node_is_named_with_the_place_of_its_fault(kind: str, what: str) -> None:
    inputs: dict[str, Any] = {"name": "x"} | ({"model": ["p", 0]} if kind == "Modelling" else {})
    nodes = {"p": {"class_type": "Plain", "inputs": {}}, "n": {"class_type": kind, "inputs": inputs}}
    end = "n"
    if kind == "Recommending":
        end, nodes["s"] = "s", {"class_type": "Stepping", "inputs": {"model": ["n", 0], "steps": "auto"}}
    graph = load({"pipegraph": 1, "nodes": nodes, "outputs": {"x": [end, 0]}})
    with pytest.raises(GraphError) as caught:
        check(graph, CATALOG)
    problem = caught.value.problems[0]
    assert (problem.code, problem.node) == ("broken_node", "n")
    assert problem.message == f"its {what} failed: ArithmeticError: no luck"
    line = fail.__code__.co_firstlineno + 1
    assert problem.hint == f"The fault is in the node: {__file__}:{line}."
