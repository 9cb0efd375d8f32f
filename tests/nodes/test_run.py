"""Picture nodes in graphs, run by the engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import pipegraph as pg
from pipegraph.graphs import ready_made
from pipegraph.graphs.picture import read_metadata
from pipegraph.nodes.image.files import load_image

from .conftest import STRICT

GRAPH: dict[str, Any] = {
    "1": {"class_type": "LoadImage", "inputs": {"image": "embedded/apple_cut_out.png"}},
    "2": {"class_type": "ImageScale", "inputs": {"image": ["1", 0], "width": 33, "height": 17, "crop": "center"}},
    "3": {"class_type": "Canny", "inputs": {"image": ["2", 0]}},
    "4": {"class_type": "ImageBatch", "inputs": {"image1": ["2", 0], "image2": ["3", 0]}},
    "5": {"class_type": "ImageToMask", "inputs": {"image": ["2", 0], "channel": "alpha"}},  # fails, if it runs
    "6": {"class_type": "MaskToImage", "inputs": {"mask": ["5", 0]}},
    "7": {"class_type": "ComfySwitchNode", "inputs": {"switch": False, "on_false": ["4", 0], "on_true": ["6", 0]}},
    "8": {"class_type": "SaveImage", "inputs": {"images": ["7", 0], "filename_prefix": "a/猫"}},
    "9": {"class_type": "GetImageSize", "inputs": {"image": ["4", 0]}},
    "10": {"class_type": "PreviewAny", "inputs": {"source": ["9", "batch_size"]}},
}


def test_a_graph_of_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = pg.load(GRAPH, out=tmp_path).run()
    assert [p.relative_to(tmp_path).as_posix() for p in result.files] == ["a/猫_00001_.png", "a/猫_00002_.png"]
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    assert load_image("a/猫_00001_.png", STRICT).IMAGE.shape == (1, 17, 33, 3)
    edges = load_image("a/猫_00002_.png", STRICT).IMAGE
    assert set(edges.flatten().tolist()) == {0.0, 1.0}
    found = read_metadata(result.files[1])
    assert json.loads(found["prompt"])["8"]["inputs"] == {"images": ["7", 0], "filename_prefix": "a/猫"}
    again = pg.load(result.files[1], out=tmp_path / "again").run()
    assert [p.read_bytes() for p in again.files] == [p.read_bytes() for p in result.files]


def test_the_branch_that_is_taken_runs(tmp_path: Path) -> None:
    graph = {**GRAPH, "7": {"class_type": "ComfySwitchNode", "inputs": {**GRAPH["7"]["inputs"], "switch": True}}}
    with pytest.raises(pg.RunError, match=r'node "5".*no alpha channel'):
        pg.load(graph, out=tmp_path).run()


def test_faults_are_told_before_anything_runs(tmp_path: Path) -> None:
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "embedded/aple_on_beach.png"}},
        "2": {"class_type": "ImageScale", "inputs": {"image": ["1", 0], "upscale_method": "lancsoz", "width": -1}},
        "3": {"class_type": "SaveImage", "inputs": {"images": ["1", "MASK"]}},
        "4": {"class_type": "Canny", "inputs": {"image": ["1", 0], "low_threshold": "high"}},
        "5": {"class_type": "SaveImage", "inputs": {"images": ["4", 0]}},
        "6": {"class_type": "PreviewImage", "inputs": {"images": ["2", 0]}},
    }
    with pytest.raises(pg.GraphError) as error:
        pg.load(graph, out=tmp_path).run()
    found = {(p.node, p.input) for p in error.value.problems}
    assert found == {
        ("1", "image"),
        ("2", "upscale_method"),
        ("2", "width"),
        ("3", "images"),
        ("4", "low_threshold"),
    }
    assert "embedded/apple_on_beach.png" in str(error.value) and "lanczos" in str(error.value)


def test_a_changed_file_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    workflow = pg.load(
        {
            "pipegraph": 1,
            "nodes": {"1": {"class_type": "LoadImage", "inputs": {"image": "a.png"}}},
            "outputs": {"image": ["1", 0]},
        }
    )
    seen = []
    for level in (10, 10, 200):
        Image.new("RGB", (4, 4), (level,) * 3).save(tmp_path / "a.png")
        seen.append(workflow.run()["image"])
    assert torch.equal(seen[0], seen[1]) and seen[2].max().item() == pytest.approx(200 / 255)


@pytest.mark.parametrize("name", ready_made.names())
def test_ready_made_graphs_are_complete(name: str) -> None:
    graph = pg.load(name).graph
    used = {v.name for n in graph.nodes.values() for v in n.inputs.values() if type(v).__name__ == "InputRef"}
    assert used == set(graph.inputs), "every input of the graph goes somewhere"
    assert graph.title and graph.description
    assert any(name.startswith(("image", "text", "video")) for name in graph.outputs)
    assert all(port.description for port in graph.inputs.values())
