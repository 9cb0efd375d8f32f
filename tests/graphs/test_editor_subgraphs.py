"""Subgraphs in files of ComfyUI's editor: flat ids, promoted widgets, slots that were shortened, group nodes."""

from __future__ import annotations

from typing import Any

import pytest

from pipegraph.graphs.schema import Link

from .editor_files import file, graph, inputs, node, subgraph

SIZE = "EmptyLatentImage"


def latent(id: int, *sockets: str, values: tuple[int, int, int] = (512, 512, 1)) -> dict[str, Any]:
    return node(id, SIZE, sockets, ["LATENT"], widgets_values=[*values])


def instance(id: int, of: str, sockets: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return node(id, of, sockets or [], more.pop("out", ["LATENT"]), **more)


MAKE = subgraph(
    "make",
    [latent(8, "width INT * 1", "height INT * 2")],
    ["1 -10 0 8 0 INT", "2 -10 1 8 1 INT", "3 8 0 -20 0 LATENT"],
    ["width INT 1", "height INT 2"],
    ["LATENT LATENT 3"],
    name="Make it",
)


def test_ids_are_scoped_and_links_cross_the_border() -> None:
    nodes = [instance(57, "make"), node(9, "PreviewAny", ["source * 1"])]
    flat = inputs(file(nodes, ["1 57 0 9 0 LATENT"], subgraphs=[MAKE]))
    assert flat == {"57:8": {"width": 512, "height": 512, "batch_size": 1}, "9": {"source": Link("57:8", 0)}}


def test_a_subgraph_in_a_subgraph_gets_its_values_through_shortened_lists_of_inputs() -> None:
    """Of three inputs only the last is linked, and the instances list that one alone, two levels deep."""
    third = subgraph(
        "three",
        [latent(8, "width INT * 1", "height INT * 2", "batch_size INT * 3", values=(8, 8, 8))],
        ["1 -10 0 8 0 INT", "2 -10 1 8 1 INT", "3 -10 2 8 2 INT", "4 8 0 -20 0 LATENT"],
        ["a INT 1", "b INT 2", "c INT 3"],
        ["x LATENT", "LATENT LATENT 4"],
    )
    outer = subgraph(
        "outer",
        [instance(3, "three", ["c INT * 1"], out=["LATENT"])],
        ["1 -10 2 3 0 INT", "2 3 0 -20 1 LATENT"],
        ["a INT", "b INT", "c INT 1"],
        ["x LATENT", "LATENT LATENT 2"],
    )
    nodes = [
        node(1, "PrimitiveInt", [], ["INT"], widgets_values=[4, "fixed"]),
        instance(2, "outer", ["c INT * 5"]),
        node(9, "PreviewAny", ["source * 6"]),
    ]
    flat = inputs(file(nodes, ["5 1 0 2 0 INT", "6 2 0 9 0 LATENT"], subgraphs=[outer, third]))
    assert flat == {
        "1": {"value": 4},
        "2:3:8": {"width": 8, "height": 8, "batch_size": Link("1", 0)},
        "9": {"source": Link("2:3:8", 0)},
    }


def test_three_instances_of_a_subgraph_in_a_row() -> None:
    blur = subgraph(
        "blur",
        [node(1, "ImageInvert", ["image IMAGE 1"], ["IMAGE"])],
        ["1 -10 0 1 0 IMAGE", "2 1 0 -20 0 IMAGE"],
        ["image IMAGE 1"],
        ["IMAGE IMAGE 2"],
    )
    nodes = [node(1, "EmptyImage", [], ["IMAGE"], widgets_values=[8, 8, 1, 0])]
    nodes += [instance(n, "blur", [f"image IMAGE {n}"], out=["IMAGE"]) for n in (2, 3, 4)]
    links = [f"{n} {n - 1} 0 {n} 0 IMAGE" for n in (2, 3, 4)]
    flat = inputs(file(nodes, links, subgraphs=[blur]))
    assert {id: flat[id]["image"] for id in ("2:1", "3:1", "4:1")} == {
        "2:1": Link("1", 0),
        "3:1": Link("2:1", 0),
        "4:1": Link("3:1", 0),
    }


def test_values_of_an_instance_go_to_the_widgets_inside() -> None:
    by_place = instance(1, "make", widgets_values=[640, None])
    by_name = instance(2, "make", ["height INT *"], widgets_values=[1, 2], widgets_values_named={"height": 480})
    flat = inputs(file([by_place, by_name], subgraphs=[MAKE]))
    assert flat["1:8"] == {"width": 640, "height": 512, "batch_size": 1}
    assert flat["2:8"] == {"width": 512, "height": 480, "batch_size": 1}


def test_more_values_than_widgets_are_an_error() -> None:
    (problem,) = graph(file([instance(1, "make", widgets_values=[1, 2, 3], title="Big")], subgraphs=[MAKE])).problems
    assert (problem.code, problem.node, problem.title) == ("unnamed_values", "1", "Big")


@pytest.mark.parametrize("as_text", [False, True])
def test_older_files_list_pairs_of_a_node_and_its_widget(as_text: bool) -> None:
    """One of them is an input of the subgraph too, another is of no input; a value that lacks is the inner one."""
    pairs: Any = [["8", "batch_size"], ["8", "height"], ["8", "width"], ["8", "$$canvas-image-preview"]]
    if as_text:
        pairs = str(pairs).replace("'", '"')
    host = instance(5, "make", properties={"proxyWidgets": pairs}, widgets_values=[3, 480])
    flat = inputs(file([host], subgraphs=[MAKE]))
    assert flat == {"5:8": {"width": 512, "height": 480, "batch_size": 3}}


def test_a_pair_may_name_a_widget_of_an_inner_instance() -> None:
    outer = subgraph("outer", [instance(3, "make", properties={"proxyWidgets": [["8", "batch_size"]]})], [], [], [])
    pairs = [["3", "height"], ["3", "batch_size"]]
    host = instance(5, "outer", properties={"proxyWidgets": pairs}, widgets_values=[480, 6])
    assert inputs(file([host], subgraphs=[outer, MAKE]))["5:3:8"] == {"width": 512, "height": 480, "batch_size": 6}


def test_a_pair_may_name_a_primitive() -> None:
    inner = subgraph(
        "inner",
        [node(1, "PrimitiveNode", [], ["INT"], widgets_values=[5, "fixed"]), latent(8, "width INT * 1")],
        ["1 1 0 8 0 INT"],
    )
    host = instance(5, "inner", properties={"proxyWidgets": [["1", "value"]]}, widgets_values=[64])
    flat = inputs(file([host, instance(6, "inner")], subgraphs=[inner]))
    assert flat["5:8"]["width"] == 64 and flat["6:8"]["width"] == 5


def test_an_input_that_feeds_a_widget_and_a_plain_socket_takes_the_widgets_value() -> None:
    """So does a second widget: the first counts."""
    inner = subgraph(
        "inner",
        [
            node(1, "PreviewAny", ["source * 1"]),
            latent(8, "width INT * 2", values=(640, 512, 1)),
            latent(9, "width INT * 3", values=(1, 512, 1)),
        ],
        ["1 -10 0 1 0 INT", "2 -10 0 8 0 INT", "3 -10 0 9 0 INT"],
        ["width INT 1 2 3"],
    )
    flat = inputs(file([instance(5, "inner"), instance(6, "inner", widgets_values=[320])], subgraphs=[inner]))
    assert [flat[f"5:{n}"].get("width") or flat["5:1"]["source"] for n in (1, 8, 9)] == [640, 640, 640]
    assert [flat[f"6:{n}"].get("width") or flat["6:1"]["source"] for n in (1, 8, 9)] == [320, 320, 320]


def test_the_widget_may_be_of_a_node_that_is_bypassed() -> None:
    inner = subgraph(
        "inner",
        [node(1, "PreviewAny", ["source * 1"]), {**latent(8, "width INT * 2", values=(640, 512, 1)), "mode": 4}],
        ["1 -10 0 1 0 INT", "2 -10 0 8 0 INT"],
        ["width INT 1 2"],
    )
    assert inputs(file([instance(5, "inner")], subgraphs=[inner])) == {"5:1": {"source": 640}}


def test_a_value_whose_name_cannot_be_known_makes_no_second_error() -> None:
    """The widget is of a node that we lack, and its values stand by position."""
    inner = subgraph(
        "inner",
        [node(1, "PreviewAny", ["source * 1"]), node(8, "Unheard", ["width INT * 2"], widgets_values=[1, 2, 3])],
        ["1 -10 0 1 0 INT", "2 -10 0 8 0 INT"],
        ["width INT 1 2"],
    )
    flat = graph(file([instance(5, "inner")], subgraphs=[inner]))
    assert not flat.problems and "source" in flat.nodes["5:1"].inputs


def test_an_input_that_is_handed_straight_to_an_output() -> None:
    inner = subgraph("inner", [], ["1 -10 0 -20 0 IMAGE"], ["image IMAGE 1"], ["IMAGE IMAGE 1"])
    nodes = [
        node(1, "EmptyImage", [], ["IMAGE"], widgets_values=[8, 8, 1, 0]),
        instance(2, "inner", ["image IMAGE 1"], out=["IMAGE"]),
        node(9, "PreviewImage", ["images IMAGE 2"]),
    ]
    assert inputs(file(nodes, ["1 1 0 2 0 IMAGE", "2 2 0 9 0 IMAGE"], subgraphs=[inner]))["9"] == {
        "images": Link("1", 0)
    }


@pytest.mark.parametrize(("mode", "linked"), [(4, True), (2, False)])
def test_a_muted_or_bypassed_instance_brings_no_inner_node(mode: int, linked: bool) -> None:
    nodes = [
        latent(1),
        node(2, "make", ["samples LATENT 1"], ["LATENT"], mode=mode),
        node(9, "PreviewAny", ["source LATENT 2"]),
    ]
    flat = inputs(file(nodes, ["1 1 0 2 0 LATENT", "2 2 0 9 0 LATENT"], subgraphs=[MAKE]))
    assert flat.keys() == {"1", "9"}
    assert flat["9"] == ({"source": Link("1", 0)} if linked else {})


def test_a_subgraph_may_be_defined_in_another() -> None:
    outer = subgraph("outer", [instance(3, "make")], []) | {"definitions": {"subgraphs": [MAKE]}}
    assert inputs(file([instance(5, "outer")], subgraphs=[outer])).keys() == {"5:3:8"}


def test_errors_show_titles_and_subgraphs() -> None:
    inner = subgraph("inner", [node(1, "PreviewAny", ["source * 7"], title="Look")], [], name="Inside")
    outer = subgraph("outer", [instance(3, "inner")], [], name="Outside")
    (problem,) = graph(file([instance(5, "outer", title="My part")], subgraphs=[outer, inner])).problems
    assert (problem.node, problem.title, problem.input) == ("5:3:1", "My part / Inside / Look", "source")
    assert "link 7 is not in the file" in problem.message


GROUP = {
    "nodes": [
        {**latent(0), "id": None, "widgets_values": [64, 32, 1]},
        {
            **node(0, "KSampler", ["model MODEL", "latent_image LATENT 1"], ["LATENT"]),
            "widgets_values": [7, "fixed", 3],
        },
        {**node(0, "VAEDecode", ["samples LATENT 2", "vae VAE"], ["IMAGE"]), "widgets_values": []},
    ],
    "links": [[0, 0, 1, 1, 1, "LATENT"], [1, 0, 2, 0, 2, "LATENT"]],
    "external": [[1, 0, "LATENT"]],
}


@pytest.mark.parametrize("prefix", ["workflow>", "workflow/"])
def test_group_nodes_of_old_editors(prefix: str) -> None:
    host = node(
        4,
        f"{prefix}draw",
        ["model MODEL 1", "vae VAE 2"],
        ["LATENT", "IMAGE"],
        widgets_values=[128, 32, 2, 9, "fixed", 5],
    )
    host["inputs"][1] = {"name": "VAEDecode vae", "type": "VAE", "link": 2}
    nodes = [
        node(1, "CheckpointLoaderSimple", [], ["MODEL", "CLIP", "VAE"], widgets_values=["x.safetensors"]),
        host,
        node(9, "PreviewImage", ["images IMAGE 3"]),
        node(10, "PreviewAny", ["source LATENT 4"]),
    ]
    links = ["1 1 0 4 0 MODEL", "2 1 2 4 1 VAE", "3 4 1 9 0 IMAGE", "4 4 0 10 0 LATENT"]
    flat = inputs(file(nodes, links, extra={"groupNodes": {"draw": GROUP}}))
    assert flat["4:0"] == {"width": 128, "height": 32, "batch_size": 2}
    sampler = flat["4:1"]
    assert (sampler["model"], sampler["latent_image"]) == (Link("1", 0), Link("4:0", 0))
    assert (sampler["seed"], sampler["steps"]) == (9, 5)
    assert flat["4:2"] == {"samples": Link("4:1", 0), "vae": Link("1", 2)}
    assert flat["9"] == {"images": Link("4:2", 0)} and flat["10"] == {"source": Link("4:1", 0)}


def test_a_group_node_with_another_number_of_values_is_an_error() -> None:
    host = node(4, "workflow>draw", [], ["IMAGE"], widgets_values=[1, 2], title="Draw")
    (problem,) = graph(file([host], extra={"groupNodes": {"draw": GROUP}})).problems
    assert (problem.code, problem.node, problem.title) == ("unnamed_values", "4", "Draw")
    assert "subgraph" in problem.hint
