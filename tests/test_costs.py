"""No test compares CPU time with seconds: it would fail on a slow machine and prove little on a fast one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.support.cost import within
from tests.test_layers import ROOT


def literal_seconds(tree: ast.AST) -> Iterator[int]:
    """Lines that compare a difference of ``process_time()`` with a number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "process_time()" in ast.unparse(node.left):
            if any(isinstance(c, ast.Constant) for c in node.comparators):
                yield node.lineno


def test_no_test_compares_cpu_time_with_seconds() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert not [f"{f.name}:{n}" for f in files for n in literal_seconds(ast.parse(f.read_text("utf-8")))]
    assert [*literal_seconds(ast.parse("assert time.process_time() - start < 2"))] == [1]


def test_what_takes_longer_than_allowed_fails() -> None:
    with within(1000):
        sum(range(1000))
    with pytest.raises(AssertionError, match="of CPU time"), within(0.01):
        sum(i * i for i in range(300_000))
