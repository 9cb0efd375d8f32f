"""Graphs from one form into another and back: nothing is lost, and doing it again changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipegraph.cli import main
from pipegraph.convert import FORMS, Form, convert
from pipegraph.graphs import ready_made
from pipegraph.graphs.editor.write import Box
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.layout import place
from pipegraph.runtime.check import examine

from .end_to_end.test_editor_file import EDITOR
from .graphs.editor_files import file, library, node

GRAPHS = ready_made.names()


def turned(source: Any, to: Form) -> dict[str, Any]:
    """The document in another form, as it is read from a file."""
    document: dict[str, Any] = json.loads(json.dumps(convert(load(source), to, library()).document))
    return document


@pytest.mark.parametrize("name", GRAPHS)
def test_our_form_survives_the_editor(name: str) -> None:
    """Values that the editor cannot show come back as they were: ``auto``, text ids, inputs and outputs."""
    native, shown = turned(name, "native"), turned(name, "editor")
    again = turned(shown, "native")
    assert again.pop("meta")["editor"] == shown
    assert again == native
    assert examine(load(shown), library()).needs == examine(load(name), library()).needs


@pytest.mark.parametrize("to", FORMS)
@pytest.mark.parametrize("name", [*GRAPHS, "a file of the editor"])
def test_again_changes_nothing(name: str, to: Form) -> None:
    document = turned(EDITOR if name not in GRAPHS else name, to)
    assert turned(document, to) == document


def test_a_file_of_the_editor_comes_back_whole() -> None:
    """With its subgraphs, groups, notes, places and whatever an extension has put there."""
    group = {"title": "All", "bounding": [0, 0, 9, 9], "extension": True}
    original = {**EDITOR, "groups": [group], "extra": {"ds": {"scale": 2}, "other": [1]}}
    assert turned(turned(original, "native"), "editor") == original


def test_a_change_in_our_form_wins_over_the_file_it_came_from() -> None:
    native = turned(EDITOR, "native")
    native["nodes"]["57:7"]["inputs"]["steps"] = 5
    result = convert(load(native), "editor", library())
    assert "subgraphs are unfolded" in result.notes[0]
    assert turned(result.document, "native")["nodes"] == native["nodes"]


def test_a_change_in_the_editor_wins_over_the_default_it_stood_for() -> None:
    shown = turned("flux.json", "editor")
    steps = next(n for n in shown["nodes"] if n["type"] == "KSampler")
    assert steps["properties"]["pipegraph"]["id"] == "sample"
    steps["widgets_values_named"]["steps"] = 3
    width = next(n for n in shown["nodes"] if n.get("title") == "width" and n["type"] == "PrimitiveNode")
    width["widgets_values"][0] += 16
    defaults = {name: entry["default"] for name, entry in turned(shown, "native")["inputs"].items()}
    assert defaults["steps"] == 3 and defaults["width"] == width["widgets_values"][0]
    assert defaults["height"] == defaults["cfg"] == "auto" and defaults["prompt"] == "a red apple on the beach"


def test_what_comfyui_opens() -> None:
    shown = turned("flux.json", "editor")
    nodes = {n["properties"].get("pipegraph", {}).get("id") or n["title"]: n for n in shown["nodes"]}
    sample = nodes["sample"]
    assert sample["widgets_values"][:2] == [0, "fixed"] and len(sample["widgets_values"]) == 7
    assert "auto" not in sample["widgets_values"]
    assert [(i["name"], i["type"], i["link"] is not None) for i in sample["inputs"]] == [
        ("model", "MODEL", True),
        ("positive", "CONDITIONING", True),
        ("negative", "CONDITIONING", True),
        ("latent_image", "LATENT", True),
    ]
    width = nodes["width"]
    assert (width["type"], width["outputs"][0]["type"], len(width["outputs"][0]["links"])) == (
        "PrimitiveNode",
        "INT",
        2,
    )
    sockets = {i["name"]: i for i in nodes["latent"]["inputs"]}
    assert sockets["width"]["widget"] == {"name": "width"}
    for id, origin, slot, target, target_slot, _ in shown["links"]:
        source, reader = (next(n for n in shown["nodes"] if n["id"] == number) for number in (origin, target))
        assert id in source["outputs"][slot]["links"] and reader["inputs"][target_slot]["link"] == id
    assert {tuple(entry) for entry in shown["extra"]["linearData"]["inputs"]} >= {(str(width["id"]), "value")}


def entry(type: str, title: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": type, "inputs": inputs, "_meta": {"title": title}}


LARGER = {"resize_type": "scale by multiplier", "resize_type.multiplier": 2.5, "scale_method": "area"}
API = {
    "3": entry("EmptyImage", "Canvas", width=8, height=8, batch_size=1, color=0),
    "57:8": entry("ResizeImageMaskNode", "Larger", input=["3", 0], **LARGER),
    "9": entry("Unheard", "Unheard", picture=["57:8", 0], strength=0.5, box={"__value__": [1, 2]}),
    "10": entry("PreviewImage", "PreviewImage", images=["9", 1]),
}


def test_the_api_form_survives_the_editor_with_nodes_that_we_lack() -> None:
    assert turned(turned(API, "editor"), "api") == API


def test_values_whose_names_are_not_known_are_refused() -> None:
    document = file([node(1, "Unheard", widgets_values=[1, "b"]), node(2, "PreviewAny")])
    with pytest.raises(GraphError) as caught:
        convert(load(document), "api", library())
    (problem,) = caught.value.problems
    assert (problem.code, problem.node, problem.got) == ("unnamed_values", "1", "[1, 'b']")


def test_auto_without_its_model_stays_with_a_note() -> None:
    native = turned("flux.json", "native")
    native["inputs"]["model"]["default"] = "not/there"
    document, notes = convert(load(native), "api", library())
    assert document["sample"]["inputs"]["steps"] == "auto"
    assert "no value is known for" in notes[0] and "steps" in notes[0]


def test_a_seed_to_be_drawn_is_0_in_comfyuis_forms() -> None:
    native = turned("flux.json", "native")
    native["inputs"]["seed"]["default"] = None
    assert turned(native, "api")["sample"]["inputs"]["seed"] == 0
    assert turned(turned(native, "editor"), "native")["inputs"]["seed"]["default"] is None


def test_the_command_writes_a_file_or_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "flux_for_comfyui.json"
    for args in (["flux.json", "--to", "editor", "--out", str(path)], [str(path), "--to", "native"]):
        with pytest.raises(SystemExit) as ended:
            main(["convert", *args])
        assert ended.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert document["pipegraph"] == 1 and document["meta"]["editor"] == json.loads(path.read_text())


def test_boxes_lie_right_of_what_they_read_from_and_apart() -> None:
    boxes = {
        "load": Box(100, 50, []),
        "far": Box(100, 50, []),
        **{f"n{i}": Box(100 + 10 * i, 40 + 30 * i, ["load"]) for i in range(4)},
        "join": Box(200, 300, ["n0", "n1", "n2", "n3", "far"]),
        "ring": Box(100, 50, ["join", "ring2"]),
        "ring2": Box(100, 50, ["ring"]),
    }
    corners = place(boxes)
    for id, box in boxes.items():
        for source in box.sources if "ring" not in id else ():
            assert corners[source][0] + boxes[source].width < corners[id][0]
    assert corners["far"][0] == corners["n0"][0], "next to its reader"
    areas = [(x, y, x + boxes[id].width, y + boxes[id].height) for id, (x, y) in corners.items()]
    for i, (left, top, right, bottom) in enumerate(areas):
        for other in areas[:i]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_links_do_not_cross_where_they_need_not() -> None:
    boxes = {f"a{i}": Box(10, 10, []) for i in range(6)} | {f"b{i}": Box(10, 10, [f"a{5 - i}"]) for i in range(6)}
    corners = place(boxes)
    heights = [(corners[f"a{5 - i}"][1], corners[f"b{i}"][1]) for i in range(6)]
    assert [a for a, _ in sorted(heights)] == [a for a, _ in sorted(heights, key=lambda pair: pair[1])]
