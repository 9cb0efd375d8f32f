"""Promoted widgets and the inputs of App mode become inputs of the graph."""

from __future__ import annotations

from typing import Any

import pytest

from pipegraph.graphs import write
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.graphs.schema import Graph, GraphInput
from pipegraph.runtime.check import check, examine

from .editor_files import file, graph, library, node, subgraph

INNER = subgraph(
    "inner",
    [
        node(1, "PrimitiveFloat", ["value FLOAT * 3"], ["FLOAT"], title="How strong", widgets_values=[0.5]),
        node(8, "EmptyImage", ["width INT * 1", "height INT * 2"], ["IMAGE"], widgets_values=[64, 32, 1, 0]),
        node(9, "PreviewAny", ["source FLOAT 5"]),
    ],
    ["1 -10 0 8 0 INT", "2 -10 1 8 1 INT", "3 -10 2 1 0 FLOAT", "4 8 0 -20 0 IMAGE", "5 1 0 9 0 FLOAT"],
    ["width INT 1", "height INT 2", "value FLOAT 3"],
    ["IMAGE IMAGE 4"],
    name="Draw",
)


def host(id: int, *sockets: str, **more: Any) -> dict[str, Any]:
    return node(id, "inner", sockets, ["IMAGE"], **more)


def shown(*nodes: dict[str, Any], links: tuple[str, ...] = ("9 57 0 99 0 IMAGE",), **more: Any) -> dict[str, Any]:
    return file([*nodes, node(99, "PreviewImage", ["images IMAGE 9"])], links, subgraphs=[INNER], **more)


def values(flat: Graph) -> dict[str, Any]:
    return {name: port.default for name, port in flat.inputs.items()}


def test_inputs_of_a_subgraph_with_widgets_are_inputs_of_the_graph() -> None:
    flat = graph(shown(host(57, widgets_values=[128])))
    assert values(flat) == {"width": 128, "height": 32, "how_strong": 0.5}
    assert [port.type for port in flat.inputs.values()] == ["INT", "INT", "FLOAT"]
    assert flat.inputs["width"].description == "width of Draw"
    checked = check(flat, library(), {"height": "16"})
    assert dict(checked.nodes["57:8"].values) | {"color": 0} == {
        "width": 128,
        "height": 16,
        "batch_size": 1,
        "color": 0,
    }


def test_what_is_linked_is_no_input() -> None:
    document = shown(
        node(1, "PrimitiveInt", [], ["INT"], widgets_values=[77, "fixed"]),
        host(57, "width INT * 7"),
        links=("9 57 0 99 0 IMAGE", "7 1 0 57 0 INT"),
    )
    assert [*graph(document).inputs] == ["height", "how_strong"]


def test_labels_name_them_and_titles_part_what_is_called_alike() -> None:
    first, second = host(57, "width INT *", title="Big one"), host(58)
    first["inputs"][0]["label"] = "Wide Side"
    flat = graph(shown(first, second))
    assert [*flat.inputs] == [
        "wide_side",
        "big_one_height",
        "big_one_how_strong",
        "width",
        "58_height",
        "58_how_strong",
    ]


def test_a_muted_instance_offers_nothing() -> None:
    assert [*graph(shown(host(57), host(58, mode=2))).inputs] == ["width", "height", "how_strong"]


@pytest.mark.parametrize("given", [[], [3, 0.25]])
def test_older_files_promote_by_pairs(given: list[Any]) -> None:
    pairs = [["8", "batch_size"], ["1", "value"], ["8", "$$canvas-image-preview"]]
    flat = graph(shown(host(57, properties={"proxyWidgets": pairs}, widgets_values=given)))
    assert values(flat) == {
        "width": 64,
        "height": 32,
        "how_strong": (given or [0, 0.5])[1],
        "batch_size": (given or [1])[0],
    }
    assert flat.inputs["batch_size"].type == "INT"
    assert check(flat, library(), {"batch_size": 2}).nodes["57:8"].values["batch_size"] == 2


@pytest.mark.parametrize("address", ["8", "2a7c:8:width"])
def test_inputs_of_app_mode(address: str) -> None:
    document = file(
        [
            node(8, "EmptyImage", ["width INT *"], ["IMAGE"], title="Canvas", widgets_values=[64, 32, 1, 0]),
            node(7, "PrimitiveNode", [], ["INT"], title="Tall", widgets_values=[48, "fixed"]),
            node(9, "PreviewImage", ["images IMAGE 1"]),
        ],
        ["1 8 0 9 0 IMAGE"],
        extra={
            "linearData": {"inputs": [[address, "width"], ["8", "color"], [7, "value"], ["5", "x"]], "outputs": [9]}
        },
    )
    document["nodes"][0]["inputs"].append({"name": "height", "type": "INT", "link": 2, "widget": {"name": "height"}})
    document["links"].append([2, 7, 0, 8, 1, "INT"])
    flat = graph(document)
    assert values(flat) == {"width": 64, "color": 0, "tall": 48}
    assert flat.inputs["width"].description == "width of Canvas"
    image = check(flat, library(), {"width": 8, "tall": 24}).nodes["8"].values
    assert (image["width"], image["height"]) == (8, 24)


def test_what_an_option_sets_is_checked_as_a_value_of_the_node() -> None:
    with pytest.raises(GraphError) as caught:
        check(graph(shown(host(57))), library(), {"width": "0"})
    (problem,) = caught.value.problems
    assert (problem.code, problem.node, problem.input) == ("out_of_range", "57:8", "width")


def test_a_widget_of_no_plain_type_is_no_input_and_keeps_its_value() -> None:
    inner = subgraph(
        "inner",
        [node(1, "Boxes", ["box BOX * 1"], widgets_values_named={"box": [1, 2]})],
        ["1 -10 0 1 0 BOX"],
        ["box BOX 1"],
    )
    flat = graph(file([node(57, "inner")], subgraphs=[inner]))
    assert not flat.inputs and flat.nodes["57:1"].inputs == {"box": [1, 2]}


def test_an_input_that_only_idle_nodes_read_is_no_fault() -> None:
    flat = graph(shown(host(57), host(58, title="Idle")))
    assert "idle_width" in flat.inputs
    assert {note.code for note in examine(flat, library()).notes} == {"idle_node"}


def test_the_native_form_keeps_the_inputs() -> None:
    flat = graph(shown(host(57)))
    again = load(write.native(flat))
    assert again.inputs == flat.inputs and again.inputs["width"] == GraphInput(
        "width", "INT", required=False, default=64, description="width of Draw"
    )
    assert write.api(flat)["57:8"]["inputs"]["width"] == 64
