"""The example of docs/graph-format.md is a graph."""

from __future__ import annotations

import re
from pathlib import Path

from pipegraph.graphs.load import loads
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check

PAGE = Path(__file__).parents[2] / "docs" / "graph-format.md"


def test_the_example_is_a_graph() -> None:
    text = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)[0]
    checked = check(loads(text), Catalog.load())
    assert checked.outputs == {"image": ("decode", 0)} and checked.inputs["steps"] == "auto"
