"""What can be wrong with a file of ComfyUI's editor: one clear error each, and soon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.cost import within

from pipegraph.graphs.errors import GraphError, Problem
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.schema import Graph
from pipegraph.limits import EDITOR_NODES, GRAPH_DEPTH
from pipegraph.runtime.check import check, examine

from .editor_files import file, graph, library, node, subgraph

SHOW = node(9, "PreviewAny", ["source * 1"])


def ring_of_reroutes(count: int) -> dict[str, Any]:
    nodes = [node(n, "Reroute", [f"x * {n}"], ["*"]) for n in range(1, count + 1)]
    links = [f"{n} {n - 1 or count} 0 {n} 0 *" for n in range(1, count + 1)]
    return file([*nodes, node("end", "PreviewAny", ["source * 0"])], [*links, f"0 {count} 0 0 0 *"])


def doubled(levels: int) -> dict[str, Any]:
    """Each subgraph holds two of the next."""
    graphs = [
        subgraph(f"s{i}", [node(1, f"s{i + 1}" if i < levels else "PreviewAny"), node(2, f"s{i + 1}")], [])
        for i in range(levels)
    ]
    return file([node(1, "s0")], subgraphs=[*graphs, subgraph(f"s{levels}", [node(1, "PreviewAny")], [])])


def in_each_other(levels: int) -> dict[str, Any]:
    graphs = [subgraph(f"s{i}", [node(1, f"s{i + 1}")], []) for i in range(levels)]
    return file([node(1, "s0")], subgraphs=[*graphs, subgraph(f"s{levels}", [node(1, "PreviewAny")], [])])


def looped() -> list[dict[str, Any]]:
    return [
        subgraph("a", [node(1, "b")], [], name="First"),
        subgraph("b", [node(1, "c")], [], name="Second"),
        subgraph("c", [node(1, "a")], [], name="Third"),
    ]


CASES: list[tuple[Mapping[str, Any], str, str]] = [
    ({"nodes": [], "links": []}, "unknown_form", "no graph of ComfyUI's editor"),
    ({"nodes": [{"id": "a", "type": "invocation", "data": {}}], "edges": []}, "unknown_form", '"edges"'),
    ({"nodes": [{"id": "a", "type": "n8n.set", "parameters": {}}], "connections": {}}, "unknown_form", '"connections"'),
    (file([node(9, "PreviewAny"), {"id": 3}]), "bad_graph", 'an object with "id" and "type"'),
    (file([SHOW]), "bad_link", "link 1 is not in the file"),
    (file([SHOW], ["1 5 0 9 0 *"]), "bad_link", 'from the node "5", which is not in the file'),
    (file([node(9, "PreviewAny")]) | {"links": [[1, 9, 0, 9, "x", "*"]]}, "bad_link", "two nodes and two slots"),
    (
        file(
            [node(1, "Anything", [], ["A", "B"]), node(9, "PreviewAny", ["source *"])], ["2 1 0 9 0 A", "3 1 1 9 0 B"]
        ),
        "bad_link",
        "names neither",
    ),
    (
        file([node(1, "Anything", [], ["A"]), node(9, "PreviewAny", ["source *"])], ["2 1 0 9 0 A"]),
        "bad_link",
        "does not name it",
    ),
    (file([node(9, "PreviewAny")] * 2), "ambiguous_id", 'two nodes have the id "9"'),
    (file([node(1, "a")], subgraphs=looped()), "recursive_subgraph", '"First" contains itself'),
    (
        file([node(1, "workflow>g")], extra={"groupNodes": {"g": {"nodes": [{"type": "workflow>g"}]}}}),
        "recursive_subgraph",
        "workflow>g",
    ),
    (file([node(1, "0e6f7b52-6c4a-4f29-9a3e-0a7f4b3d2c11")]), "unknown_subgraph", "does not hold the subgraph"),
    (file([node(n, "PreviewAny") for n in range(100_000)]), "too_large", "100,000 nodes"),
    (doubled(30), "too_large", "with all subgraphs unfolded"),
    (in_each_other(GRAPH_DEPTH + 1), "too_deep", f"{GRAPH_DEPTH + 2} deep"),
]


def refused(document: Any) -> tuple[Problem, ...]:
    with within(20):
        with pytest.raises(GraphError) as caught:
            load(document)
    return caught.value.problems


@pytest.mark.parametrize(("document", "code", "message"), CASES, ids=[f"{i}-{c[1]}" for i, c in enumerate(CASES)])
def test_each_fault_is_one_error(document: Mapping[str, Any], code: str, message: str) -> None:
    problems = [p for p in refused(document) if p.code == code]
    assert len(problems) == 1
    assert message in str(problems[0])


def test_a_file_that_is_cut_off() -> None:
    text = json.dumps(file([SHOW], ["1 5 0 9 0 *"]))
    with pytest.raises(GraphError) as caught:
        loads(text[:-20], "cut.json")
    (problem,) = caught.value.problems
    assert problem.code == "invalid_json" and "cut.json" in problem.place


@pytest.mark.parametrize("count", [1, 2, 5000])
def test_reroutes_in_a_circle(count: int) -> None:
    document = ring_of_reroutes(count)
    document["links"][-1][3] = "end"
    (problem,) = refused(document)
    assert (problem.code, problem.node, problem.input) == ("bad_link", "end", "source")
    assert "in a circle" in problem.message


def test_a_long_chain_of_reroutes_with_many_readers() -> None:
    count = 9000
    nodes = [node(0, "EmptyImage", [], ["IMAGE"])]
    nodes += [node(n, "Reroute", [f"x * {n}"], ["*"]) for n in range(1, count + 1)]
    nodes += [node(count + n, "PreviewAny", [f"source * {count + n}"]) for n in range(1, count + 1)]
    links = [f"{n} {n - 1} 0 {n} 0 *" for n in range(1, count + 1)]
    links += [f"{count + n} {count} 0 {count + n} 0 *" for n in range(1, count + 1)]
    document = file(nodes, links)
    with within(40):
        flat = load(document)
    assert {use.inputs["source"] for use in flat.nodes.values() if use.type == "PreviewAny"} == {("0", 0)}


def test_the_largest_file_is_read() -> None:
    nodes = [node(n, "PreviewAny") for n in range(EDITOR_NODES)]
    assert len(load(file(nodes)).nodes) == EDITOR_NODES


def test_a_ring_of_nodes_is_told_by_checking() -> None:
    nodes = [node(1, "ImageInvert", ["image IMAGE 1"], ["IMAGE"]), node(2, "PreviewImage", ["images IMAGE 2"])]
    flat = graph(file(nodes, ["1 1 0 1 0 IMAGE", "2 1 0 2 0 IMAGE"]))
    assert codes(flat) == ["cycle"]


# What ComfyUI's forms may hold and the native form may not


def codes(flat: Graph) -> list[str]:
    with pytest.raises(GraphError) as caught:
        check(flat, library())
    return [p.code for p in caught.value.problems]


EMPTY = {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}}
SAVE: dict[str, Any] = {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}}
IDLE = {"class_type": "ImageInvert", "inputs": {}}
API: dict[str, Any] = {"1": EMPTY, "2": SAVE}


@pytest.mark.parametrize(
    ("nodes", "note"),
    [
        ({**API, "5": IDLE}, ("idle_node", "5", "")),
        ({**API, "5": {"class_type": "Unheard", "inputs": {}}, "6": {**IDLE, "inputs": {"image": ["5", 0]}}}, None),
        (
            {**API, "2": {**SAVE, "inputs": {**SAVE["inputs"], "video-preview": ""}}},
            ("unknown_input", "2", "video-preview"),
        ),
    ],
)
def test_what_no_output_needs_and_unknown_inputs_are_notes(
    nodes: dict[str, Any], note: tuple[str, str, str] | None
) -> None:
    notes = examine(load(nodes), library()).notes
    if note:
        assert [(n.code, n.node, n.input) for n in notes] == [note]
    checked = check(load(nodes), library())
    assert checked.nodes.keys() == {"1", "2"} == checked.graph.nodes.keys()
    assert "video-preview" not in checked.graph.nodes["2"].inputs
    with pytest.raises(GraphError):
        check(load({"pipegraph": 1, "nodes": nodes}), library())


def test_an_input_of_another_choice_is_a_note() -> None:
    resize = {"input": ["1", 0], "resize_type": "scale by multiplier", "resize_type.multiplier": 2.0}
    stale = {**resize, "resize_type.width": 640}
    nodes = {
        **API,
        "3": {"class_type": "ResizeImageMaskNode", "inputs": stale},
        "2": {**SAVE, "inputs": {"images": ["3", 0]}},
    }
    (note,) = examine(load(nodes), library()).notes
    assert (note.code, note.input) == ("unused_input", "resize_type.width")
    checked = check(load(nodes), library())
    assert checked.nodes["3"].values["resize_type.width"] == 512  # the default, which does not count either
    assert codes(load({"pipegraph": 1, "nodes": nodes})) == ["unused_input"]


@pytest.mark.parametrize("native", [False, True])
def test_a_link_from_an_unknown_node_makes_no_second_error(native: bool) -> None:
    nodes = {
        "1": {"class_type": "Unheard", "inputs": {}},
        "2": {"class_type": "ComfyMathExpression", "inputs": {"expression": "a + 1", "values.a": ["1", 0]}},
        "3": {"class_type": "PreviewAny", "inputs": {"source": ["2", 0]}},
    }
    assert codes(load({"pipegraph": 1, "nodes": nodes} if native else nodes)) == ["unknown_node"]


def test_faults_of_what_no_output_needs_do_not_count() -> None:
    document = file(
        [
            node(1, "EmptyImage", [], ["IMAGE"], widgets_values=[8, 8, 1, 0]),
            node(2, "PreviewImage", ["images IMAGE 1"]),
            node(5, "ImageInvert", ["image IMAGE 77"]),
        ],
        ["1 1 0 2 0 IMAGE"],
    )
    flat = graph(document)
    assert [p.node for p in flat.problems] == ["5"]
    checked = check(flat, library())
    assert checked.nodes.keys() == {"1", "2"}
    assert [(n.code, n.node) for n in checked.notes] == [("idle_node", "5")]


def test_a_node_that_lacks_an_input_says_which_node_was_muted() -> None:
    nodes = [
        node(1, "EmptyImage", [], ["IMAGE"], mode=2, title="The picture"),
        node(2, "PreviewImage", ["images IMAGE 1"], title="Look at it"),
    ]
    with pytest.raises(GraphError) as caught:
        check(graph(file(nodes, ["1 1 0 2 0 IMAGE"])), library())
    (problem,) = caught.value.problems
    assert (problem.code, problem.title, problem.input) == ("missing_input", "Look at it", "images")
    assert '"The picture" (1), which is muted' in problem.hint
