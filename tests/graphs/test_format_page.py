"""docs/graph-format.md says what the code does: its codes are the code's, its example is a graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pipegraph.graphs.load
import pipegraph.runtime.check
from pipegraph.graphs.load import loads
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check

PAGE = Path(__file__).parents[2] / "docs" / "graph-format.md"
FOLDERS = [Path(str(module.__file__)).parent for module in (pipegraph.graphs.load, pipegraph.runtime.check)]


def raised() -> Iterator[str]:
    """Codes in calls that make a problem."""
    for path in (p for folder in FOLDERS for p in folder.glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            code = next((k.value for k in call.keywords if k.arg == "code"), None)
            if name in ("bad", "add", "_problem", "Misfit") and call.args:
                code = call.args[0]
            if isinstance(code, ast.Constant) and re.fullmatch(r"[a-z]+_[a-z_]+|cycle", str(code.value)):
                yield str(code.value)


def test_every_code_is_on_the_page_and_no_other() -> None:
    told = re.findall(r"^\| `([a-z_]+)` \|", PAGE.read_text().split("## What can be wrong")[1], re.M)
    assert sorted(told) == sorted(set(raised()))


def test_the_example_is_a_graph() -> None:
    text = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.S)[0]
    checked = check(loads(text), Catalog.load())
    assert checked.outputs == {"image": ("decode", 0)} and checked.inputs["steps"] == "auto"
