"""One picture of a batch alone."""

from __future__ import annotations

import copy
from typing import Any

from pipegraph.graphs.item import alone

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
