"""The examples run, and the documentation shows the same code."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from PIL import Image

import pipegraph as pg
from pipegraph.graphs import ready_made
from pipegraph.graphs.load import parse

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
NODE = EXAMPLES / "custom_node" / "vignette.py"


def test_the_custom_node_is_short() -> None:
    lines = [line for line in NODE.read_text().splitlines() if line.strip()]
    assert len(lines) < 20


def test_the_page_shows_the_code_that_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "write-a-node.md").read_text(), re.S)
    assert blocks[0] == NODE.read_text()


def test_the_other_nodes_of_the_page_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "write-a-node.md").read_text(), re.S)
    imports = ["collections.abc import Generator", "typing import Annotated", "annotated_types import Ge"]
    head = (
        "".join(f"from {line}\n" for line in [*imports, "pipegraph.nodes.wire import Image"])
        + "import pipegraph as pg\n"
    )
    (tmp_path / "nodes.py").write_text(head + "\n".join(blocks[1:]))
    (tmp_path / "table.csv").write_text("a\nb\n")
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    graph = {
        "pipegraph": 1,
        "nodes": {
            "make": {"class_type": "EmptyImage", "inputs": {"width": 10, "height": 4}},
            "cut": {"class_type": "ImageHalves", "inputs": {"image": ["make", 0]}},
            "text": {"class_type": "SaveText", "inputs": {"text": "hello"}},
            "count": {"class_type": "CountLines", "inputs": {"file": "table.csv"}},
            "pick": {"class_type": "PickWord", "inputs": {"text": "b a c", "count": 5, "seed": None}},
        },
        "outputs": {
            "left": ["cut", "left"],
            "right": ["cut", 1],
            "lines": ["count", "lines"],
            "words": ["pick", "word"],
        },
    }
    workflow = pg.load(graph, nodes=[tmp_path / "nodes.py"], out=tmp_path / "out")
    result = workflow.run()
    assert result["lines"] == 2 and len(result["words"].split()) == 5 and "pick.seed" in result.record["seeds"]
    (tmp_path / "table.csv").write_text("a\nb\nc\n")
    again = workflow.run({"pick.seed": result.record["seeds"]["pick.seed"]})
    assert again["lines"] == 3 and again["words"] == result["words"] and not again.warnings
    assert len(workflow.run({"pick.count": "auto"})["words"].split()) == 1  # no model recommends: the default
    with pytest.raises(pg.GraphError, match="'as written', 'sorted'"):
        workflow.check({"pick.order": "reversed"})
    assert result["left"].shape == result["right"].shape == (1, 4, 5, 3)
    assert [path.read_text() for path in result.files] == ["hello"]


def test_the_custom_node_runs(tmp_path: Path) -> None:
    Image.new("RGB", (9, 9), "white").save(tmp_path / "white.png")
    workflow = pg.load(EXAMPLES / "custom_node" / "graph.json", nodes=[NODE], out=tmp_path)
    image = workflow.run(image=tmp_path / "white.png", strength=1.0)["image"]
    assert image[0, 4, 4].tolist() == [1, 1, 1] and image[0, 0, 0].tolist() == [0, 0, 0]


def test_the_python_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "python_api.py"))["main"](str(tmp_path), steps=1)
    shown = capsys.readouterr().out
    assert "saved" in shown and "from the cache: " in shown and 'Did you mean "seed"' in shown
    assert len([*tmp_path.glob("*.png")]) == 2


def test_the_batch_example_runs_and_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "prompts.txt").write_text("a red apple\n\na blue car\n")
    batch = runpy.run_path(str(EXAMPLES / "batch.py"))["main"]
    assert batch(str(tmp_path / "prompts.txt"), str(tmp_path / "out"), steps=1) == 0
    made = sorted((tmp_path / "out").rglob("*.png"))
    assert [path.parent.name for path in made] == ["0000", "0002"]
    times = [path.stat().st_mtime_ns for path in made]
    assert batch(str(tmp_path / "prompts.txt"), str(tmp_path / "out"), steps=1) == 0
    assert [path.stat().st_mtime_ns for path in made] == times
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_comfyui_graph_runs(tmp_path: Path) -> None:
    workflow = pg.load(EXAMPLES / "comfyui_api.json", out=tmp_path)
    (made,) = workflow.run({"6.text": "a blue car", "3.seed": 8, "3.steps": 1}).files
    assert made.name.startswith("star")
    with Image.open(made) as picture:
        assert picture.size == (128, 128)
        prompt = json.loads(picture.info["prompt"])
    assert prompt["6"]["inputs"]["text"] == "a blue car" and prompt["3"]["inputs"]["model"] == ["4", 0]


def test_json_in_the_docs_is_a_graph() -> None:
    found = 0
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"```json\n(.*?)```", page.read_text(), re.S):
            if '"pipegraph": 1' in block and "..." not in block:
                parse(json.loads(block))
                found += 1
    assert found


def test_graphs_named_in_the_docs_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        for name in re.findall(r"\bflux\w*\.json", page.read_text()):
            assert name in ready_made.names(), f"{page.name} names {name}"


def test_links_of_the_docs_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *EXAMPLES.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
