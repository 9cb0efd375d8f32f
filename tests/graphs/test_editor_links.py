"""Links in files of ComfyUI's editor: reroutes, notes, muted and bypassed nodes, both forms of a link."""

from __future__ import annotations

from typing import Any

import pytest

from pipegraph.graphs.schema import Link

from .editor_files import file, graph, inputs, node

LOAD = node(1, "LoadImage", out=["IMAGE", "MASK"], widgets_values=["a.png", "image"])


def through(*between: dict[str, Any], wanted: str = "IMAGE", links: list[str]) -> dict[str, Any]:
    """A picture, something between, and a node that takes it."""
    end = node(9, "PreviewImage" if wanted == "IMAGE" else "MaskPreview", [f"images {wanted} 99"])
    return file([LOAD, *between, end], links)


def test_reroutes_are_followed() -> None:
    nodes = [node(n, "Reroute", [f"x * {n}"], ["*"]) for n in (2, 3)]
    flat = inputs(through(*nodes, links=["2 1 0 2 0 *", "3 2 0 3 0 *", "99 3 0 9 0 IMAGE"]))
    assert flat == {"1": {"image": "a.png"}, "9": {"images": Link("1", 0)}}


def test_version_1_has_links_as_objects_and_reroutes_that_are_drawn_only() -> None:
    link = {"id": 99, "origin_id": 1, "origin_slot": 1, "target_id": 9, "target_slot": 0, "type": "MASK", "parentId": 4}
    document = through(wanted="MASK", links=[])
    document |= {"version": 1, "links": [link], "reroutes": [{"id": 4, "pos": [0, 0], "linkIds": [99]}], "state": {}}
    assert inputs(document)["9"] == {"images": Link("1", 1)}


def test_notes_are_left_out() -> None:
    nodes = [node(5, "Note", widgets_values=["hello"]), node(6, "MarkdownNote", widgets_values=["# hello"])]
    assert inputs(through(*nodes, links=["99 1 0 9 0 IMAGE"])).keys() == {"1", "9"}


def test_set_and_get_nodes_meet_by_their_name() -> None:
    nodes = [
        node(2, "SetNode", ["IMAGE IMAGE 2"], ["*"], widgets_values=["cat"]),
        node(3, "GetNode", [], ["IMAGE"], widgets_values=["cat"]),
    ]
    assert inputs(through(*nodes, links=["2 1 0 2 0 IMAGE", "99 3 0 9 0 IMAGE"]))["9"] == {"images": Link("1", 0)}


def bypassed(sockets: list[str], out: list[str]) -> dict[str, Any]:
    return node(2, "Anything", sockets, out, mode=4)


@pytest.mark.parametrize(
    ("sockets", "out", "slot", "came"),
    [
        (["image IMAGE 2"], ["IMAGE"], 0, 0),
        (["mask MASK 3", "image IMAGE 2"], ["IMAGE"], 0, 0),
        (["mask MASK 3", "image IMAGE 2"], ["MASK", "IMAGE"], 1, 0),
        (["other IMAGE", "image IMAGE 2"], ["MASK", "IMAGE"], 1, 0),
        (["either IMAGE,MASK 2", "mask MASK 3"], ["IMAGE,MASK"], 0, 0),
        (["any * 2"], ["*"], 0, 0),
        (["mask MASK 3", "either IMAGE,MASK 2"], ["LATENT", "IMAGE"], 1, 0),
    ],
)
def test_a_bypassed_node_hands_on_what_fits(sockets: list[str], out: list[str], slot: int, came: int) -> None:
    """The input of the same number if the types allow it, else the first of the type, else the first that fits."""
    numbers = {text.split()[-1]: i for i, text in enumerate(sockets)}
    links = [f"2 1 0 2 {numbers['2']} IMAGE", f"99 2 {slot} 9 0 IMAGE"]
    links += [f"3 1 1 2 {numbers['3']} MASK"] if "3" in numbers else []
    flat = inputs(through(bypassed(sockets, out), links=links))
    assert flat.keys() == {"1", "9"}
    assert flat["9"] == {"images": Link("1", came)}


@pytest.mark.parametrize(
    ("between", "why"),
    [
        (node(2, "Anything", ["image IMAGE 2"], ["IMAGE"], mode=2, title="Sharpen"), '"Sharpen" (2), which is muted'),
        (bypassed(["mask MASK 3"], ["IMAGE"]), "bypassed and has no input of the type IMAGE"),
    ],
)
def test_nothing_comes_through_and_the_reason_is_kept(between: dict[str, Any], why: str) -> None:
    links = ["99 2 0 9 0 IMAGE", "2 1 0 2 0 IMAGE" if between["mode"] == 2 else "3 1 1 2 0 MASK"]
    flat = graph(through(between, links=links))
    assert not flat.problems and flat.nodes["9"].inputs == {}
    assert flat.editor
    assert why in flat.editor.lost["9", "images"]


def test_the_input_names_its_link_and_that_counts() -> None:
    """A second link of the list leads there too, as editors leave them behind."""
    flat = graph(through(links=["98 1 1 9 0 IMAGE", "99 1 0 9 0 IMAGE"]))
    assert not flat.problems and flat.nodes["9"].inputs == {"images": Link("1", 0)}
    assert flat.editor
    (note,) = flat.editor.notes
    assert (note.code, note.node, note.input) == ("bad_link", "9", "images") and "99 and 98" in note.message
