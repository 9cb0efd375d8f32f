"""The report on ComfyUI's templates counts every node, link and value, and names what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipegraph.graphs.errors import Problem

from .graphs.editor_files import file, node

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

import template_coverage as coverage

PICTURE = node(1, "EmptyImage", [], ["IMAGE"], widgets_values=[8, 8, 1, 0])
GOOD = file([PICTURE, node(2, "PreviewImage", ["images IMAGE 1"]), node(3, "Note")], ["1 1 0 2 0 IMAGE"])
LACKING = file(
    [PICTURE, node(2, "Unheard", ["image IMAGE 1"], widgets_values=[1, 2]), node(3, "Unseen"), node(4, "Note")],
    ["1 1 0 2 0 IMAGE"],
)
WRONG = file(
    [node(1, "EmptyImage", [], ["IMAGE"], widgets_values=[0, 8, 1, 0]), node(2, "PreviewImage", ["images IMAGE 1"])],
    ["1 1 0 2 0 IMAGE"],
)
FILES = {"good": GOOD, "lacking": LACKING, "wrong": WRONG, "paid": LACKING}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, document in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    entries: list[dict[str, Any]] = [
        {"name": "good", "usage": 60, "models": ["A"]},
        {"name": "lacking", "usage": 30, "openSource": True, "models": ["A", "B"]},
        {"name": "wrong", "usage": 10, "openSource": True},
        {"name": "paid", "usage": 500, "openSource": False},
    ]
    (tmp_path / "index.json").write_text(json.dumps([{"title": "Image", "templates": entries}]))
    return tmp_path


def test_the_page_counts_and_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert coverage.main([str(folder), "--markdown", "--source", "ours 1.0"]) == 0
    page = capsys.readouterr().out
    assert ", ours 1.0;" in page
    assert "| templates | 3 |" in page and "| read and flattened | 3 |" in page
    assert "| **valid apart from missing files** | **1** (60 % of usage) |" in page
    assert "bypassed, muted | 9 | 7 + 2 + 0 + 0 + 0 + 0 |" in page
    assert "broken | 3 | 3 + 0 + 0 + 0 |" in page
    assert "not known | 14 | 12 + 0 + 2 |" in page
    assert "| Image | 3 | 1 | 100.0 % |" in page
    assert "| A | 2 | 1 | 90.0 % |" in page and "| ? | 1 | 0 | 10.0 % |" in page
    assert "| `Unheard` | 2 | 70 % |\n| `Unseen` | 3 | 100 % |" in page
    assert "| lacking | 30 | `Unheard`, `Unseen` |  |" in page
    assert "| wrong | 10 |  | width 0: out_of_range |" in page
    assert "paid" not in page.split("services are left out")[1]


def test_a_folder_without_an_index(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "index.json").unlink()
    (folder / "broken.json").write_text("{")
    assert coverage.main([str(folder)]) == 1
    printed = capsys.readouterr()
    assert "| templates | 5 |" in printed.out and "not read: broken" in printed.err
    assert coverage.main([str(folder), "--problems", "wrong"]) == 0
    assert 'input "width"' in capsys.readouterr().out


def test_types_come_in_the_order_that_completes_templates_soonest() -> None:
    def lacking(name: str, usage: int, *types: str) -> coverage.Template:
        problems = tuple(Problem(code="unknown_node", message="", got=type) for type in types)
        return coverage.Template(name, usage=usage, problems=problems)

    listed = [lacking("a", 1), lacking("b", 2, "X", "Y", "Z"), lacking("c", 3, "Y"), lacking("d", 4, "W")]
    assert [*coverage.greedy(listed)] == [("W", 2, 5), ("Y", 3, 8), ("X", 3, 8), ("Z", 4, 10)]
