"""One picture of a batch alone."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from PIL import Image, PngImagePlugin

from pipegraph.graphs.item import alone
from pipegraph.graphs.load import load
from pipegraph.graphs.schema import Link

GRAPH: dict[str, Any] = {
    "pipegraph": 1,
    "inputs": {"n": {"type": "INT", "default": 3}},
    "nodes": {
        "5": {
            "class_type": "EmptySD3LatentImage",
            "inputs": {"width": 64, "height": 64, "batch_size": {"$input": "n"}},
        },
        "3": {"class_type": "KSampler", "inputs": {"latent_image": ["5", "LATENT"], "model": ["1", 0], "cfg": 5}},
        "4": {"class_type": "X", "inputs": {"five": "5", "list": {"__value__": ["5", 0]}}},
    },
    "outputs": {"empty": ["5", 0], "latent": ["3", 0]},
}


def test_the_empty_latent_is_narrowed_for_all_who_read_it() -> None:
    before = copy.deepcopy(GRAPH)
    made = alone(GRAPH, 2)
    assert made is not None and GRAPH == before
    assert made["nodes"]["5_item"] == {
        "class_type": "LatentFromBatch",
        "inputs": {"samples": ["5", 0], "batch_index": 2, "length": 1},
    }
    assert made["nodes"]["3"]["inputs"] == {"latent_image": ["5_item", "LATENT"], "model": ["1", 0], "cfg": 5}
    assert made["nodes"]["4"] == GRAPH["nodes"]["4"] and made["nodes"]["5"] == GRAPH["nodes"]["5"]
    assert made["outputs"] == {"empty": ["5_item", 0], "latent": ["3", 0]} and made["inputs"] == GRAPH["inputs"]


def test_names_that_are_taken() -> None:
    made = alone({**GRAPH, "nodes": {**GRAPH["nodes"], "5_item": {"class_type": "X", "inputs": {}}}}, 0)
    assert made is not None and made["nodes"]["3"]["inputs"]["latent_image"] == ["5_item_", "LATENT"]


def test_batches_that_are_made_otherwise_are_left_alone() -> None:
    repeated = {"class_type": "RepeatLatentBatch", "inputs": {"samples": ["5", 0], "amount": 2}}
    assert alone({**GRAPH, "nodes": {**GRAPH["nodes"], "6": repeated}}, 1) is None
    assert alone({"pipegraph": 1, "nodes": {"1": {"class_type": "LoadImage", "inputs": {"image": "a"}}}}, 1) is None


def png(tmp_path: Path, made: Any, **others: Any) -> Path:
    info = PngImagePlugin.PngInfo()
    for key, document in {"pipegraph": made, **others}.items():
        info.add_text(key, json.dumps(document))
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png", pnginfo=info)
    return tmp_path / "a.png"


def test_a_picture_of_a_batch_is_loaded_as_the_graph_of_that_picture(tmp_path: Path) -> None:
    whole = load(png(tmp_path, {"graph": GRAPH}))
    one = load(png(tmp_path, {"graph": GRAPH, "batch_index": 2, "batch_size": 3}))
    assert "5_item" not in whole.nodes
    assert one.nodes["5_item"].inputs == {"samples": Link("5", 0), "batch_index": 2, "length": 1}
    assert one.inputs == whole.inputs


def test_one_picture_of_a_batch_keeps_the_editors_form(tmp_path: Path) -> None:
    editor: dict[str, Any] = {"nodes": [], "links": []}
    for record in ({"graph": GRAPH}, {"graph": GRAPH, "batch_index": 2}):
        assert load(png(tmp_path, record, workflow=editor)).workflow == editor


def test_a_picture_without_empty_latents_is_loaded_whole(tmp_path: Path) -> None:
    graph = {"pipegraph": 1, "nodes": {"1": {"class_type": "LoadImage", "inputs": {"image": "a"}}}}
    assert list(load(png(tmp_path, {"graph": graph, "batch_index": 1})).nodes) == ["1"]
    assert not load(png(tmp_path, {"graph": {"pipegraph": 1}, "batch_index": 1})).nodes
