"""Inputs that there are with some values of another one, and inputs that not every model can use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest

from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.errors import DeclarationError
from pipegraph.runtime.node import Needs, Seed, Under, Wire, node
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Runner

Model = Annotated[str, Wire("MODEL")]
Seen = Annotated[Any, Wire("IMAGE"), Needs("pictures", "reads text only")]


@node("Draw", category="test", output="text")
def draw(
    mode: Literal["on", "off"] = "off",
    heat: Annotated[float, Under("mode", "on")] = 0.5,
    seed: Annotated[int, Seed(), Under("mode", "on")] = 0,
) -> str:
    """Tell what came.

    Args:
        mode: Whether to draw.
        heat: How much.
        seed: Of the draw.
    """
    return f"{mode} {heat} {seed}"


def _told(name: str) -> Mapping[str, Any]:
    return {"sees": {"pictures": True}, "blind": {"pictures": False}}.get(name, {})


@node("LoadThing", category="test", recommend=_told)
def load_thing(name: str) -> Model:
    """Load.

    Args:
        name: Of what.
    """
    return name


@node("MakeImage", category="test")
def make_image() -> Annotated[Any, Wire("IMAGE")]:
    """Make."""
    return "picture"


@node("Ask", category="test", output="text", output_node=True)
def ask(model: Model, image: Seen | None = None) -> str:
    """Ask.

    Args:
        model: Whom.
        image: About what.
    """
    return f"{model} {image}"


CATALOG = Catalog.of(draw, load_thing, make_image, ask)


def run(inputs: dict[str, Any], **overrides: Any) -> Any:
    document = {"pipegraph": 1, "nodes": {"a": {"class_type": "Draw", "inputs": inputs}}, "outputs": {"t": ["a", 0]}}
    found = plan(check(load(document), CATALOG, overrides={f"a.mode.{k}": v for k, v in overrides.items()}))
    return Runner().run(found)["t"]


def test_inputs_under_a_choice_are_named_by_it() -> None:
    assert run({}) == "off 0.5 0"
    assert run({"mode": "on", "mode.heat": 2, "mode.seed": 7}) == "on 2.0 7"
    assert run({"mode": "on"}, heat=3.0) == "on 3.0 0"
    assert run({"mode": "on", "mode.seed": None}).startswith("on 0.5 ")


def test_what_would_not_count_is_an_error() -> None:
    with pytest.raises(GraphError) as caught:
        run({"mode": "off", "mode.heat": 2})
    (problem,) = caught.value.problems
    assert (problem.code, problem.input, problem.node) == ("unused_input", "mode.heat", "a")
    assert '"mode" is "on"' in problem.message
    with pytest.raises(GraphError, match="has no input"):
        run({"mode": "on", "heat": 2})


def test_a_choice_comes_before_what_is_under_it() -> None:
    with pytest.raises(DeclarationError, match="is under `mode`, which comes before it"):

        @node("Bad", category="test", output="text")
        def bad(heat: Annotated[float, Under("mode", "on")] = 0.5) -> str:
            """Nothing.

            Args:
                heat: Nothing.
            """
            return ""


@pytest.mark.parametrize(("name", "fails"), [("sees", False), ("blind", True), ("unknown", False)])
def test_a_model_that_cannot_use_an_input_is_told_before_anything_runs(name: str, fails: bool) -> None:
    nodes: dict[str, Any] = {
        "m": {"class_type": "LoadThing", "inputs": {"name": name}},
        "i": {"class_type": "MakeImage", "inputs": {}},
        "q": {"class_type": "Ask", "inputs": {"model": ["m", 0], "image": ["i", 0]}},
    }
    if not fails:
        check(load({"pipegraph": 1, "nodes": nodes}), CATALOG)
        return
    with pytest.raises(GraphError) as caught:
        check(load({"pipegraph": 1, "nodes": nodes}), CATALOG)
    (problem,) = caught.value.problems
    assert (problem.code, problem.node, problem.input) == ("unable_model", "q", "image")
    assert problem.message == 'the model of "m" reads text only'
    del nodes["q"]["inputs"]["image"]
    check(load({"pipegraph": 1, "nodes": nodes}), CATALOG)
