"""No module imports itself by way of others, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
from tests.test_layers import MAY, ROOT, imports


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of a module that run at some time: all but ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from [child, *running(child)]


def circles(root: Path) -> list[set[str]]:
    """Modules that import each other in a ring, without the ``pipegraph.`` before their names."""
    files = [f for folder in MAY for f in (root / folder).rglob("*.py")]
    names = {
        "pipegraph." + ".".join(f.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): f for f in files
    }
    graph = nx.DiGraph()
    for module, file in names.items():
        for _, name in imports(file, running(ast.parse(file.read_text("utf-8"))), root):
            target = name if name in names else name.rpartition(".")[0]
            if target in names and target != module:
                graph.add_edge(module, target)
    rings = (ring for ring in nx.strongly_connected_components(graph) if len(ring) > 1)
    return [{name.removeprefix("pipegraph.") for name in ring} for ring in rings]


def test_there_are_no_circles() -> None:
    assert not circles(ROOT)


def test_a_circle_is_seen(tmp_path: Path) -> None:
    """Also by an import inside a function; not by one for types alone."""
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "a.py").write_text("def f():\n    from .b import x\n")
    (tmp_path / "graphs" / "b.py").write_text("from .a import f\n")
    (tmp_path / "graphs" / "c.py").write_text("if TYPE_CHECKING:\n    from .d import y\n")
    (tmp_path / "graphs" / "d.py").write_text("from . import c\n")
    assert circles(tmp_path) == [{"graphs.a", "graphs.b"}]
