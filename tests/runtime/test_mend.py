"""What mends a problem is data in it, for programs that write graphs."""

from __future__ import annotations

import json
from typing import Any

import pytest

import pipegraph as pg


def mend_of(nodes: dict[str, Any], inputs: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """The mends of a graph's problems, by code; what ``--json`` prints."""
    document = {"pipegraph": 1, "inputs": inputs or {}, "nodes": nodes}
    with pytest.raises(pg.GraphError) as caught:
        pg.load(document).check(**values)
    listed = json.loads(json.dumps([problem.as_dict() for problem in caught.value.problems]))
    return {problem["code"]: problem.get("mend") for problem in listed}


EMPTY = {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64}}


def empty(**inputs: Any) -> dict[str, Any]:
    return {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64} | inputs}


@pytest.mark.parametrize(
    ("nodes", "code", "mend"),
    [
        ({"a": {"class_type": "KSamplr", "inputs": {}}}, "unknown_node", {"names": ["KSampler"]}),
        ({"a": empty(widht=3)}, "unknown_input", {"names": ["width"]}),
        ({"empty": EMPTY, "b": empty(width=["emtpy", 0])}, "unknown_source", {"names": ["empty"]}),
        (
            {"empty": EMPTY, "b": {"class_type": "PreviewAny", "inputs": {"source": ["empty", "LATNET"]}}},
            "unknown_output",
            {"names": ["LATENT"]},
        ),
        ({"a": empty(width="wide")}, "wrong_type", {"types": ["INT"]}),
        ({"a": EMPTY, "b": empty(width=["a", 0])}, "wrong_type", {"types": ["INT"]}),
        (
            {"a": empty(width=8)},
            "out_of_range",
            {"range": {"minimum": 16, "maximum": 16384}, "nearest": [16]},
        ),
        (
            {"a": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x"}}},
            "missing_input",
            {"missing": {"name": "images", "type": "IMAGE"}},
        ),
    ],
)
def test_mends(nodes: dict[str, Any], code: str, mend: dict[str, Any]) -> None:
    assert mend_of(nodes)[code] == mend


def test_choices_and_the_nearest_of_them() -> None:
    mend = mend_of({"a": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "eular"}}})["not_in_list"]
    assert mend["names"][0] == "euler" and "uni_pc" in mend["choices"]


def test_inputs_of_the_graph() -> None:
    ports = {
        "size": {"type": "INT", "min": 16, "max": 64},
        "kind": {"type": "COMBO", "choices": ["a", "b"], "default": "a"},
    }
    nodes = {
        "a": empty(width={"$input": "size"}),
        "b": {"class_type": "PreviewAny", "inputs": {"source": {"$input": "kind"}}},
    }
    assert mend_of(nodes, ports)["missing_graph_input"] == {"missing": {"name": "size", "type": "INT"}}
    mends = mend_of(nodes, ports, size=99, kind="A", sise=3)
    assert mends["out_of_range"] == {"range": {"minimum": 16, "maximum": 64}}
    assert mends["not_in_list"] == {"choices": ["a", "b"], "names": ["a"]}
    assert mends["unknown_run_input"] == {"names": ["size"]}


def test_a_mended_graph_is_right() -> None:
    """What the mend says is put in the place of what was wrong."""
    nodes = {"a": empty(width=8), "b": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "eular"}}}
    mends = mend_of(nodes)
    nodes["a"]["inputs"]["width"] = mends["out_of_range"]["nearest"][0]
    nodes["b"]["inputs"]["sampler_name"] = mends["not_in_list"]["names"][0]
    nodes["c"] = {"class_type": "PreviewAny", "inputs": {"source": ["a", 0]}}
    pg.load({"pipegraph": 1, "nodes": nodes}).check()
