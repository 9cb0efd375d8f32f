"""The schema of graph files."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.test_layers import ROOT

import pipegraph as pg
from pipegraph.json_schema import json_schema

PACK = '''
import pipegraph as pg

@pg.node("Two Words/3", category="math")
def half(n: int) -> int:
    """Halve.

    Args:
        n: A number.
    """
    return n // 2
'''
LIBRARY = sorted((ROOT / "graphs/library").glob("*.json"))


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema(pg.api.catalog())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_ready_made_graphs_fit(validator: Any, path: Path) -> None:
    assert validator.is_valid(json.loads(path.read_text("utf-8")))


BASE: dict[str, Any] = {
    "pipegraph": 1,
    "inputs": {"n": {"type": "INT", "default": 16}},
    "nodes": {
        "empty": {"class_type": "EmptyLatentImage", "inputs": {"width": 16, "height": {"$input": "n"}}},
        "noise": {"class_type": "RandomNoise", "inputs": {"noise_seed": None}},
        "pick": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "save": {"class_type": "PreviewAny", "inputs": {"source": ["empty", "LATENT"]}},
    },
}


@pytest.mark.parametrize(
    ("keys", "value", "fits"),
    [
        (("nodes", "empty", "inputs", "width"), 64, True),
        (("nodes", "empty", "inputs", "width"), ["noise", 0], True),
        (("nodes", "empty", "inputs", "width"), 8, False),
        (("nodes", "empty", "inputs", "width"), "wide", False),
        (("nodes", "empty", "inputs", "width"), 16.5, False),
        (("nodes", "empty", "inputs", "depth"), 16, False),
        (("nodes", "empty", "class_type"), "EmptyLatentImag", False),
        (("nodes", "pick", "inputs", "sampler_name"), "eular", False),
        (("nodes", "save", "inputs"), {}, False),
        (("nodes", "save", "inputs", "source"), ["empty"], False),
        (("pipegraph",), 2, False),
        (("inputs", "n", "type"), "IMAGE", False),
        (("$schema",), "./graph.schema.json", True),
        (("notes",), "", False),
    ],
)
def test_what_fits_is_what_the_check_takes(validator: Any, keys: tuple[str, ...], value: Any, fits: bool) -> None:
    document = copy.deepcopy(BASE)
    part = document
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    assert validator.is_valid(document) is fits
    try:
        pg.load(document).check()
        accepted = True
    except pg.GraphError as error:
        accepted = all(problem.code == "wrong_type" and problem.got.startswith("NOISE") for problem in error.problems)
    assert accepted is fits, "the check and the schema differ"


def test_the_command_takes_nodes_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    command = [sys.executable, "-m", "pipegraph", "schema", "--nodes", str(tmp_path / "pack.py")]
    schema = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    validator = jsonschema.Draft202012Validator(schema)
    node: dict[str, Any] = {"class_type": "Two Words/3", "inputs": {"n": 4}}
    assert validator.is_valid({"pipegraph": 1, "nodes": {"a": node}})
    assert not validator.is_valid({"pipegraph": 1, "nodes": {"a": node | {"inputs": {"m": 4}}}})
