"""Random graphs give what a plain evaluation gives, whatever the cache holds; random files raise only GraphError."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load, loads
from pipegraph.runtime.cache import MemoryCache
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Runner

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
Nodes = dict[str, tuple[str, dict[str, Any]]]


@st.composite
def graphs(draw: st.DrawFn) -> Nodes:
    """Nodes that read only from earlier ones, in a shuffled order."""
    made: list[tuple[str, tuple[str, dict[str, Any]]]] = []
    for i in range(draw(st.integers(1, 12))):

        def value(count: int = i) -> Any:
            if count == 0 or draw(st.integers(0, 3)) == 0:
                return draw(st.integers(0, 2))
            return [str(draw(st.integers(0, count - 1))), 0]

        kind = draw(st.sampled_from(["Add", "Add", "Divide", "Switch"]))
        names = {"Add": ["a", "b"], "Divide": ["a"], "Switch": ["yes", "no"]}[kind]
        inputs = {name: value() for name in names}
        if kind == "Switch":
            inputs["which"] = draw(st.booleans())
        made.append((str(i), (kind, inputs)))
    return dict(draw(st.permutations(made)))


def evaluate(nodes: Nodes) -> dict[str, int]:
    found: dict[str, int] = {}
    for id in sorted(nodes, key=int):
        kind, inputs = nodes[id]
        got = {k: found[v[0]] if isinstance(v, list) else v for k, v in inputs.items()}
        match kind:
            case "Add":
                found[id] = got["a"] + got["b"]
            case "Divide":
                found[id] = got["a"] // 2
            case _:
                found[id] = got["yes"] if got["which"] else got["no"]
    return found


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """One runner for all examples: its small cache holds some of the results of earlier ones."""
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path))
    return Runner(cache=MemoryCache(20 * 256))


@QUICK
@given(nodes=graphs(), data=st.data())
def test_results_are_those_of_a_plain_evaluation(
    catalog: Catalog, shared: Runner, tmp_path: Path, nodes: Nodes, data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.sampled_from(sorted(nodes)), min_size=1, unique=True))
    document = {
        "pipegraph": 1,
        "nodes": {id: {"class_type": kind, "inputs": inputs} for id, (kind, inputs) in nodes.items()},
        "outputs": {id: [id, 0] for id in ends},
    }
    want = evaluate(nodes)
    planned = plan(check(load(document), catalog))
    result = shared.run(planned, output_dir=tmp_path)
    assert result.outputs == {id: want[id] for id in ends}
    freed = [i for group in planned.frees for i in group]
    assert len(freed) == len(set(freed)) and not set(freed) & {at for at, _ in planned.outputs.values()}


words = st.sampled_from(["pipegraph", "nodes", "inputs", "outputs", "class_type", "Add", "a", "type", "INT", "$input"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | words | st.text(max_size=3)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
)


@QUICK
@given(
    document=documents
    | st.builds(
        lambda n, i, o: {"pipegraph": 1, "nodes": n, "inputs": i, "outputs": o}, documents, documents, documents
    )
    | st.builds(
        lambda i: {"x": {"class_type": "Add", "inputs": i}, "s": {"class_type": "Save", "inputs": i}}, documents
    ),
    values=st.dictionaries(words, scalars, max_size=2),
)
def test_a_random_document_raises_nothing_but_graph_errors(
    catalog: Catalog, document: Any, values: dict[str, Any]
) -> None:
    text = json.dumps(document)
    with suppress(GraphError):
        plan(check(loads(text), catalog, values, overrides=values))


@QUICK
@given(text=st.text(alphabet='{}[]",:\\ud8019eE+-.aNn \n', max_size=40))
def test_random_text_raises_nothing_but_graph_errors(text: str) -> None:
    with suppress(GraphError):
        loads(text)
