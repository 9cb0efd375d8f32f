"""Drawn graphs show every node, value and link, in boxes of subgraphs and groups, with marks."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import pipegraph as pg
from pipegraph.cli import main
from pipegraph.cli.graphs import page
from pipegraph.drawing.files import file_of
from pipegraph.drawing.mermaid import mermaid
from pipegraph.drawing.paint import MOST_PIXELS, color_of, png, svg
from pipegraph.drawing.scene import WIDTH, Frame, Scene, scene
from pipegraph.graphs import ready_made
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.schema import Graph

from ..graphs.editor_files import file, graph, library, node, subgraph

ROOT = Path(__file__).parents[2]
INNER = subgraph(
    "inner",
    [
        node(8, "EmptyImage", [], ["IMAGE"], title="Canvas <1>", widgets_values=[64, 32, 1, 0]),
        node(9, "ImageInvert", ["image IMAGE 1"], ["IMAGE"]),
    ],
    ["1 8 0 9 0 IMAGE", "4 9 0 -20 0 IMAGE"],
    [],
    ["IMAGE IMAGE 4"],
    name="Draw & invert",
)
EDITOR = file(
    [
        {**node(57, "inner", [], ["IMAGE"]), "pos": [10, 20]},
        {**node(2, "PreviewImage", ["images IMAGE 9"]), "pos": {"0": 900, "1": 20}},
        {**node(3, "Unheard", ["image IMAGE 10"], title="Mine"), "pos": [20, 30]},
    ],
    ["9 57 0 2 0 IMAGE", "10 57 0 3 0 IMAGE"],
    subgraphs=[INNER],
    groups=[
        {"title": "All", "bounding": [0, 0, 2000, 2000]},
        {"title": "Left", "bounding": [0, 0, 500, 500]},
        {"title": "broken", "bounding": "x"},
    ],
)


@pytest.fixture(scope="module")
def flat() -> Graph:
    return graph(EDITOR)


def inside(frame: Frame, other: Any, width: int) -> bool:
    across = frame.x < other.x and other.x + width < frame.x + frame.width
    return bool(across and frame.y < other.y and other.y + other.height < frame.y + frame.height)


def test_nodes_lie_in_the_frames_of_their_subgraphs_and_groups(flat: Graph) -> None:
    drawn = scene(flat, library())
    frames = {frame.title: frame for frame in drawn.frames}
    assert frames.keys() == {"All", "Left", "Draw & invert"}
    nodes = {n.id: n for n in drawn.nodes}
    holds = {title: {id for id, n in nodes.items() if inside(frame, n, WIDTH)} for title, frame in frames.items()}
    assert holds == {"All": {"2"}, "Left": {"57:8", "57:9", "3"}, "Draw & invert": {"57:8", "57:9"}}
    assert inside(frames["Left"], frames["Draw & invert"], frames["Draw & invert"].width)
    assert all(n.x > 0 and n.x + WIDTH < drawn.width and n.y + n.height < drawn.height for n in nodes.values())


def test_a_link_goes_from_its_output_to_its_input(flat: Graph) -> None:
    drawn = scene(flat, library())
    nodes = {n.id: n for n in drawn.nodes}
    ends = {
        (
            next(id for id, n in nodes.items() if n.x + WIDTH == e.start[0] and n.y < e.start[1] < n.y + n.height),
            next(id for id, n in nodes.items() if n.x == e.end[0] and n.y < e.end[1] < n.y + n.height),
        )
        for e in drawn.edges
    }
    assert ends == {("57:8", "57:9"), ("57:9", "2"), ("57:9", "3")}
    assert {edge.type for edge in drawn.edges} == {"IMAGE"}


def test_long_links_pass_between_nodes() -> None:
    """No straight part of a link runs through a box."""
    drawn = scene(load("flux.json"), library())
    lanes = [lane for edge in drawn.edges for lane in edge.lanes]
    assert lanes
    for left, right, y in lanes:
        assert 0 < y < drawn.height
        assert not [n for n in drawn.nodes if n.x < right and left < n.x + WIDTH and n.y <= y <= n.y + n.height]


def test_svg_is_xml_with_every_text(flat: Graph) -> None:
    tree = xml.fromstring(svg(scene(flat, library(), {"3": "missing", "2": "cached"})))
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Canvas <1>", "Draw & invert", "Mine", "width: 64", "missing", "cached", "EmptyImage · 57:8"} <= {*texts}
    assert len([*tree.iter("{http://www.w3.org/2000/svg}path")]) == 3


def test_control_characters_are_shown_as_escapes() -> None:
    hostile = load({"pipegraph": 1, "nodes": {"a": {"class_type": "X", "title": "\x1b[31m\x00", "inputs": {}}}})
    assert "\x1b" not in svg(scene(hostile, library())) + mermaid(hostile, library())


def test_png_is_as_large_as_the_scene_twice(flat: Graph) -> None:
    drawn = scene(flat, library())
    picture = Image.open(io.BytesIO(png(drawn)))
    assert picture.size == (2 * drawn.width, 2 * drawn.height)
    first = drawn.edges[0].start
    assert picture.convert("RGB").getpixel((2 * first[0], 2 * first[1])) == (0x3D, 0x85, 0xC6)


def test_a_huge_scene_is_drawn_smaller() -> None:
    picture = Image.open(io.BytesIO(png(Scene("", 40_000, 40_000, [], [], []))))
    assert picture.width * picture.height <= MOST_PIXELS * 1.01


def test_colors_are_those_of_the_type() -> None:
    assert color_of("MODEL") != color_of("CLIP") and color_of("SIGMAS") == color_of("SIGMAS") != color_of("NOISE")


def test_mermaid_has_nodes_links_subgraphs_and_marks(flat: Graph) -> None:
    text = mermaid(flat, library(), {"3": "missing"})
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "flowchart LR" and lines.count("end") == 3 == sum(line.startswith("subgraph ") for line in lines)
    assert any('"Canvas #60;1#62;<br>EmptyImage<br>width: 64' in line for line in lines)
    assert sum("-->" in line for line in lines) == 3
    assert (
        any(line.endswith(":::cmissing") for line in lines) and "classDef cmissing fill:#fdecea,stroke:#c62828" in lines
    )


def test_many_values_are_counted() -> None:
    node = {"class_type": "X", "inputs": {f"v{i}": i for i in range(30)}}
    drawn = scene(load({"pipegraph": 1, "nodes": {"a": node}}), library())
    assert drawn.nodes[0].lines[-1] == "... 19 more" and len(drawn.nodes[0].lines) == 12


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.mmd", "a.md"])
def test_the_suffix_names_the_kind(name: str, flat: Graph) -> None:
    start = {"svg": b"<svg", "png": b"\x89PNG", "mmd": b"flowchart", "md": b"```mermaid\nflowchart"}
    assert file_of(flat, library(), Path(name)).startswith(start[name[2:]])
    with pytest.raises(ValueError, match=r"ends in \.svg"):
        file_of(flat, library(), Path("a.gif"))


def test_the_command_marks_what_is_missing_wrong_or_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(EDITOR))
    with pytest.raises(SystemExit) as ended:
        main(["show", str(path)])
    assert ended.value.code == 0 and ":::cmissing" in capsys.readouterr().out
    idle = {**EDITOR, "nodes": [*EDITOR["nodes"][:2], node(7, "ImageInvert", ["image IMAGE"], ["IMAGE"])]}
    path.write_text(json.dumps(idle))
    with pytest.raises(SystemExit):
        main(["show", str(path), "--set", "57:8.width=0"])
    text = capsys.readouterr().out
    assert ":::cerror" in text and ":::cmissing" not in text
    with pytest.raises(SystemExit):
        main(["show", str(path), "--out", str(tmp_path / "graph.svg")])
    assert "not needed" in (tmp_path / "graph.svg").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["show", str(path), "--out", str(tmp_path / "graph.gif")])
    assert ended.value.code == 2


def test_a_workflow_marks_what_is_cached(tmp_path: Path) -> None:
    nodes = {
        "a": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 77}},
        "b": {"class_type": "ImageInvert", "inputs": {"image": ["a", 0]}},
        "idle": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 3}},
    }
    workflow = pg.load({"pipegraph": 1, "nodes": nodes, "outputs": {"x": ["b", 0]}}, device="cpu", out=tmp_path)
    before = workflow.show(tmp_path / "before.svg").read_text()
    assert before.count(">not needed<") == 1 and ">cached<" not in before
    workflow.run()
    assert workflow.show(tmp_path / "after.svg").read_text().count(">cached<") == 2


def test_the_page_of_ready_made_graphs_and_its_pictures_are_up_to_date() -> None:
    graphs = {name: loads(ready_made.find(name) or b"", name) for name in ready_made.names()}
    assert (ROOT / "docs" / "graphs.md").read_text() == page(graphs)
    for name, document in graphs.items():
        picture = (ROOT / "docs" / "images" / "graphs" / name).with_suffix(".svg")
        assert picture.read_bytes() == file_of(document, library(), picture), "pipegraph graphs --draw"
    assert re.findall(r"\((images/[^)]*)\)", page(graphs))
