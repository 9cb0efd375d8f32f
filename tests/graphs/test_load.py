"""Graphs are read from every form, and what is wrong with a document is told at once."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from pipegraph.graphs import ready_made, write
from pipegraph.graphs.errors import GraphError, Problem, nearest
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.plain import plain
from pipegraph.graphs.schema import Graph, InputRef, Link
from pipegraph.limits import GRAPH_DEPTH

NATIVE: dict[str, Any] = {
    "pipegraph": 1,
    "title": "Blur",
    "inputs": {"size": {"type": "INT", "default": 3, "min": 1, "max": 9, "description": "How far."}},
    "nodes": {
        "a": {"class_type": "Open", "inputs": {"name": "x.png", "list": {"__value__": [1, [2]]}, "none": None}},
        "b": {"class_type": "Blur", "title": "Soft", "inputs": {"image": ["a", "IMAGE"], "size": {"$input": "size"}}},
    },
    "outputs": {"image": ["b", 0]},
}
API: dict[str, Any] = {
    "a": {"class_type": "Open", "inputs": {"name": "x.png"}, "_meta": {"title": "My file"}, "is_changed": [1]},
    "57:8": {"class_type": "Blur", "inputs": {"image": ["a", 0], "size": 2.5}},
}


def codes(document: Any) -> list[str]:
    with pytest.raises(GraphError) as caught:
        loads(json.dumps(document)) if not isinstance(document, str | bytes) else loads(document)
    return [p.code for p in caught.value.problems]


def native(**nodes: Any) -> dict[str, Any]:
    return {"pipegraph": 1, "nodes": nodes}


def test_native_form() -> None:
    graph = load(NATIVE)
    assert (graph.form, graph.title) == ("native", "Blur")
    assert graph.nodes["a"].inputs == {"name": "x.png", "list": [1, [2]], "none": None}
    assert graph.nodes["b"].inputs == {"image": Link("a", "IMAGE"), "size": InputRef("size")}
    assert graph.nodes["b"].title == "Soft"
    assert graph.outputs == {"image": Link("b", 0)}
    assert (graph.inputs["size"].default, graph.inputs["size"].maximum) == (3, 9)


def test_api_form() -> None:
    graph = load(API)
    assert graph.form == "api"
    assert graph.nodes["a"].title == "My file"
    assert graph.nodes["57:8"].inputs == {"image": Link("a", 0), "size": 2.5}


def test_a_graph_written_and_read_again_is_the_same() -> None:
    for document in (NATIVE, API):
        graph = load(document)
        again = load(write.native(graph))
        assert (again.nodes, again.inputs, again.outputs) == (graph.nodes, graph.inputs, graph.outputs)


def test_written_values_become_defaults() -> None:
    document = write.native(load(NATIVE), {"size": 7})
    assert document["inputs"]["size"] == {"type": "INT", "default": 7, "description": "How far.", "min": 1, "max": 9}


def test_api_form_has_inputs_filled_in() -> None:
    document = write.api(load(NATIVE), {"size": 7}, lambda link: 0)
    assert document["b"] == {"class_type": "Blur", "inputs": {"image": ["a", 0], "size": 7}, "_meta": {"title": "Soft"}}
    assert document["a"]["inputs"]["list"] == {"__value__": [1, [2]]}
    assert load(document).form == "api"


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ([], "unknown_form"),
        ({}, "unknown_form"),
        ({"a": 1}, "unknown_form"),
        ({"nodes": [], "links": []}, "unknown_form"),
        ({"pipegraph": 2, "nodes": {}}, "unknown_version"),
        ({"pipegraph": True}, "unknown_version"),
        ({"pipegraph": "1"}, "unknown_version"),
        ({"a": {"class_type": "X"}, "b": {"inputs": {}}}, "bad_graph"),
        (native(a={"class_type": ""}), "bad_graph"),
        (native(a={"class_type": "X", "inputs": []}), "bad_graph"),
        (native(a={"class_type": "X", "input": {}}), "unknown_key"),
        ({**native(), "outptus": {}}, "unknown_key"),
        ({**native(), "inputs": {"x": {"type": "IMAGE"}}}, "bad_graph"),
        ({**native(), "inputs": {"x": {"type": "INT", "min": "1"}}}, "bad_graph"),
        ({**native(), "outputs": {"x": "a"}}, "bad_link"),
        (native(a={"class_type": "X", "inputs": {"v": [1, 2, 3]}}), "bad_link"),
        (native(a={"class_type": "X", "inputs": {"v": [4, 0]}}), "bad_link"),
        (native(a={"class_type": "X", "inputs": {"v": ["4", True]}}), "bad_link"),
        (native(a={"class_type": "X", "inputs": {"v": {"$input": 1}}}), "bad_graph"),
        ('{"a": {"class_type": "X", "inputs": {"v": 1, "v": ["b", 0]}}}', "duplicate_key"),
    ],
)
def test_each_fault_of_a_document(document: Any, code: str) -> None:
    assert codes(document) == [code]


def test_ids_that_differ_only_by_type() -> None:
    with pytest.raises(GraphError) as caught:
        load({1: {"class_type": "X"}, "1": {"class_type": "X"}})
    assert [p.code for p in caught.value.problems] == ["ambiguous_id"]


def test_values_that_are_no_json() -> None:
    with pytest.raises(GraphError, match="object is no JSON value"):
        load({"a": {"class_type": "X", "inputs": {"v": object()}}})
    with pytest.raises(GraphError, match="nan is no JSON number"):
        load({"a": {"class_type": "X", "inputs": {"v": float("nan")}}})


def test_a_number_as_node_id_in_a_link_has_a_hint() -> None:
    with pytest.raises(GraphError, match=r'write \["4", 0\]'):
        load({"a": {"class_type": "X", "inputs": {"v": [4, 0]}}})


def test_all_faults_are_told_at_once() -> None:
    document = {
        **native(a={}, b={"class_type": "X", "inputs": {"v": [1], "w": [2, 3]}, "x": 1}),
        "inputs": {"i": {"type": "?"}},
        "outputs": {"o": 1},
        "extra": 1,
    }
    assert sorted(codes(document)) == sorted(
        ["unknown_key", "bad_graph", "unknown_key", "bad_link", "bad_link", "bad_graph", "bad_link"]
    )


def test_a_file_that_does_not_exist_has_a_hint() -> None:
    with pytest.raises(GraphError, match=r'Did you mean "flux.json"'):
        load("fluxx.json")


def test_ready_made_graphs_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "flux.json" in ready_made.names()
    assert load("flux").nodes == load("flux.json").nodes
    monkeypatch.chdir(tmp_path)
    Path("flux.json").write_text(json.dumps(API))
    assert load("flux.json").form == "api"  # a file wins


@pytest.mark.parametrize("name", ready_made.names())
def test_ready_made_graphs_are_sound(name: str) -> None:
    graph = load(name)
    used = {v.name for n in graph.nodes.values() for v in n.inputs.values() if isinstance(v, InputRef)}
    assert used == graph.inputs.keys()


def picture(**texts: str) -> bytes:
    info, data = PngImagePlugin.PngInfo(), io.BytesIO()
    for key, text in texts.items():
        info.add_itxt(key, text)
    Image.new("RGB", (2, 2)).save(data, "PNG", pnginfo=info)
    return data.getvalue()


def test_a_picture_gives_its_graph() -> None:
    both = picture(prompt=json.dumps(API), pipegraph=json.dumps({"graph": NATIVE}), workflow='{"nodes": []}')
    graph = loads(both)
    assert graph.nodes == load(NATIVE).nodes and graph.workflow == {"nodes": []}
    assert loads(picture(prompt=json.dumps(API))).nodes == load(API).nodes
    assert codes(picture(other="x")) == ["no_graph_in_picture"]


def test_nearest_names() -> None:
    assert nearest("ksampler", ["KSampler", "VAEDecode"]) == 'Did you mean "KSampler"?'
    assert nearest("xyz", ["KSampler"]) == ""


def test_ten_thousand_nodes() -> None:
    nodes = {str(i): {"class_type": "X", "inputs": {"v": [str(i + 1), 0]}} for i in range(10_000)}
    assert isinstance(load(nodes), Graph)


def test_parts_of_forms_are_no_inputs_in_the_api_form() -> None:
    inputs = {"image": "a.png", "upload": "image", "choose file to upload": "image", "control_after_generate": "fixed"}
    node = {"class_type": "LoadImage", "inputs": inputs}
    assert load({"1": node}).nodes["1"].inputs == {"image": "a.png"}
    assert load({"pipegraph": 1, "nodes": {"1": node}}).nodes["1"].inputs == inputs


def test_the_body_of_a_prompt_request_is_a_graph() -> None:
    nodes = {"prompt": {"class_type": "A", "inputs": {}}, "2": {"class_type": "B", "inputs": {"a": ["prompt", 0]}}}
    body = {"prompt": nodes, "client_id": "x", "extra_data": {}}
    assert load(body).nodes == load(nodes).nodes and load(body).form == "api"


def test_limits_that_nothing_can_keep() -> None:
    with pytest.raises(GraphError, match='"max" must be at least "min", which is 9; got 1'):
        load({"pipegraph": 1, "inputs": {"n": {"type": "INT", "min": 9, "max": 1}}, "nodes": {}})


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("INT", {"min": "1"}),
        ("INT", {"min": 0.5}),
        ("INT", {"max": True}),
        ("FLOAT", {"min": []}),
        ("FLOAT", {"min": 2, "max": 1}),
        ("STRING", {"min": 1}),
        ("BOOLEAN", {"max": 1}),
        ("COMBO", {"min": 0}),
        ("STRING", {"choices": "abc"}),
        ("COMBO", {"choices": []}),
        ("COMBO", {"choices": [1]}),
        ("INT", {"choices": ["1"]}),
        ("STRING", {"default": ["a", 0]}),
        ("STRING", {"default": {}}),
        ("STRING", {"multiline": "yes"}),
        ("STRING", {"description": 1}),
        (["INT"], {}),
        (None, {}),
    ],
)
def test_a_graph_input_is_held_to_its_form(kind: Any, entry: dict[str, Any]) -> None:
    assert codes({"pipegraph": 1, "inputs": {"x": {"type": kind, **entry}}, "nodes": {}}) == ["bad_graph"]


def test_a_picture_with_the_editors_form_alone_is_read(tmp_path: Path) -> None:
    texts = PngImagePlugin.PngInfo()
    editor = {"nodes": [{"id": 4, "type": "Draw", "widgets_values_named": {"size": 3}}], "links": [], "version": 0.4}
    texts.add_text("workflow", json.dumps(editor))
    Image.new("RGB", (1, 1)).save(tmp_path / "editor.png", pnginfo=texts)
    graph = load(tmp_path / "editor.png")
    assert graph.form == "editor" and graph.nodes["4"].type == "Draw" and graph.workflow == editor


@pytest.mark.parametrize("document", [{"title": 3}, {"inputs": {"x": {"type": "INT", "description": 3}}}])
def test_what_is_no_text_is_shown(document: dict[str, Any]) -> None:
    with pytest.raises(GraphError) as refused:
        loads(json.dumps({"pipegraph": 1, "nodes": {}, **document}))
    problem = refused.value.problems[0]
    assert problem.got == "3" and "must be text" in problem.message


def test_problems_say_where_they_are() -> None:
    assert loads('{"pipegraph": 1, "nodes": {}}', "a.json").source == "a.json"
    with pytest.raises(GraphError) as refused:
        loads("{}", "a.json")
    assert refused.value.problems[0].place == "a.json"
    with pytest.raises(GraphError) as refused:
        loads('{"a": {"class_type": "X"}, "b": {"inputs": {}}}')
    assert refused.value.problems[0].node == "b"


def test_a_problem_in_one_line() -> None:
    problem = Problem(
        code="x", message="is wrong", node="3", title="Sampler", input="cfg", got="2", wanted="1", hint="Do."
    )
    assert str(problem) == 'node "3" (Sampler), input "cfg": is wrong; got 2; wanted 1. Do.'
    assert str(Problem(code="x", message="is wrong")) == "is wrong"


def test_copies_of_json_values() -> None:
    value = {"a": [1, 2.5, None, True], "b": {"c": "d"}}
    assert plain(value) == value
    deep: Any = 1
    for _ in range(GRAPH_DEPTH):
        deep = [deep]
    assert plain(deep) == deep
    for wrong in ([deep], {1: "a"}, {"a": 1, 2: 3}, math.inf, {1, 2}):
        with pytest.raises(ValueError, match=r"nested deeper|no JSON"):
            plain(wrong)
