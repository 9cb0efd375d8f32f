"""What Python shows of workflows, plans and results, and runs that save nothing."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import pipegraph as pg

GRAPH: dict[str, Any] = {
    "pipegraph": 1,
    "inputs": {"text": {"type": "STRING", "default": "<script>alert(1)</script>"}},
    "nodes": {
        "empty": {"class_type": "EmptyImage", "inputs": {"width": 600, "height": 300, "batch_size": 10, "color": 255}},
        "text": {"class_type": "PrimitiveString", "inputs": {"value": {"$input": "text"}}},
        "save": {"class_type": "SaveImage", "inputs": {"images": ["empty", "IMAGE"]}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["text", 0]}},
    },
    "outputs": {"image": ["empty", "IMAGE"], "text": ["text", 0]},
}


def test_a_result_shows_thumbnails_and_escaped_texts(tmp_path: Path) -> None:
    result = pg.load(GRAPH, out=tmp_path).run()
    html = result._repr_html_()
    pictures = [Image.open(io.BytesIO(base64.b64decode(data))) for data in re.findall(r"base64,([^\"]+)", html)]
    assert [p.size for p in pictures] == [(256, 128)] * 8 and pictures[0].getpixel((9, 9)) == (0, 0, 255)
    assert "and 2 more" in html and 'title="600 x 300"' in html
    assert "<script" not in html and "&lt;script&gt;" in html
    assert str(result.files[0]) in html


def test_what_python_prints_is_short(tmp_path: Path) -> None:
    workflow = pg.load("flux.json", out=tmp_path)
    plan = workflow.plan(seed=1)
    for value in (workflow, plan):
        assert len(str(value)) < 500 and "<script" not in value._repr_html_() and len(value._repr_html_()) < 10_000
    assert "prompt" in str(workflow) and "KSampler" in plan._repr_html_() and "steps" in workflow._repr_html_()
    assert len(str(workflow.check(seed=1))) < 500
    result = pg.load(GRAPH, out=tmp_path).run()
    assert len(str(result)) < 500 and "image" in str(result)


def test_a_run_that_saves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    kept = pg.load(GRAPH, out=tmp_path / "kept").run()
    result = pg.load(GRAPH, out=out, save=False).run()
    assert torch.equal(result["image"], kept["image"]) and result["text"] == kept["text"]
    assert not result.files and not out.exists() and len(kept.files) == 10


def test_without_outputs_there_is_nothing_to_give() -> None:
    with pytest.raises(pg.GraphError, match="has no outputs") as error:
        pg.load({**GRAPH, "outputs": {}}, save=False).run()
    assert [p.code for p in error.value.problems] == ["no_outputs"]


def test_an_output_of_a_node_that_saves() -> None:
    graph = {**GRAPH, "outputs": {"image": ["save", 0]}}
    with pytest.raises(pg.GraphError, match="needs this node, which saves") as error:
        pg.load(graph, save=False).run()
    assert [(p.code, p.node) for p in error.value.problems] == [("output_saves", "save")]
