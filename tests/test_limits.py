"""The page of limits shows what the code enforces."""

from __future__ import annotations

import ast
from ast import AnnAssign, Name
from itertools import pairwise
from pathlib import Path

from pipegraph import limits

ROOT = Path(__file__).parents[1]


def rows() -> list[str]:
    """One row of the table for each constant: its name, its value, and the docstring below it."""
    body = ast.parse(Path(limits.__file__).read_text()).body
    names = {b: a.target.id for a, b in pairwise(body) if isinstance(a, AnnAssign) and isinstance(a.target, Name)}
    texts = {name: ast.literal_eval(doc.value) for doc, name in names.items() if isinstance(doc, ast.Expr)}
    return [f"| `{name}` | {getattr(limits, name):,} | {text} |" for name, text in texts.items()]


def test_the_page_lists_every_limit_with_its_value() -> None:
    page = (ROOT / "docs" / "limits.md").read_text()
    assert len(rows()) > 5
    table = page.split("| --- | --- | --- |\n")[1].split("\n\n")[0]
    assert table.rstrip().split("\n") == rows()
