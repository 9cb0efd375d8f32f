"""A graph as Mermaid text, which GitHub and many editors draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipegraph.graphs.errors import shown, visible
from pipegraph.graphs.schema import BAD, Graph, InputRef, Link, NodeUse
from pipegraph.runtime.catalog import Catalog

from .clusters import Cluster, clusters

STYLES: Final = {
    "missing": "fill:#fdecea,stroke:#c62828",
    "error": "fill:#fdecea,stroke:#c62828",
    "cached": "fill:#eaf5ea,stroke:#2e7d32",
    "not needed": "stroke-dasharray:5 4,color:#6b6b6b",
}
MOST_VALUES: Final = 8


def mermaid(graph: Graph, catalog: Catalog, marks: Mapping[str, str] | None = None) -> str:
    """A flow chart from left to right; arguments as for ``scene``."""
    marks = marks or {}
    numbers = {id: f"n{i}" for i, id in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    opened: tuple[Cluster, ...] = ()
    paths = clusters(graph)
    for use in sorted(graph.nodes.values(), key=lambda use: [cluster.id for cluster in paths[use.id]]):
        path = paths[use.id]
        same = 0
        while same < min(len(path), len(opened)) and path[same].id == opened[same].id:
            same += 1
        lines += ["  " * (depth + 1) + "end" for depth in reversed(range(same, len(opened)))]
        lines += [
            "  " * (depth + 1) + f"subgraph {_word(path[depth].id)}[{_quoted(path[depth].title)}]"
            for depth in range(same, len(path))
        ]
        opened = path
        style = f":::{_word(marks[use.id])}" if use.id in marks else ""
        lines.append("  " * (len(path) + 1) + f"{numbers[use.id]}[{_quoted(_label(use))}]{style}")
    lines += ["  " * (depth + 1) + "end" for depth in reversed(range(len(opened)))]
    for use in graph.nodes.values():
        for name, value in use.inputs.items():
            if isinstance(value, Link) and value.node in numbers:
                lines.append(f"  {numbers[value.node]} -->|{_quoted(name)}| {numbers[use.id]}")
    for mark in dict.fromkeys(marks[id] for id in graph.nodes if id in marks):
        lines.append(f"  classDef {_word(mark)} {STYLES[mark]}")
    return "\n".join(lines) + "\n"


def _label(use: NodeUse) -> str:
    values = [
        f"{name}: {f'${value.name}' if isinstance(value, InputRef) else shown(value, 30)}"
        for name, value in use.inputs.items()
        if not isinstance(value, Link) and value is not BAD
    ]
    more = [f"... {len(values) - MOST_VALUES} more"] if len(values) > MOST_VALUES else []
    head = use.title or use.type
    return "\n".join([head, *([use.type] if head != use.type else []), *values[:MOST_VALUES], *more])


def _quoted(text: str) -> str:
    """Text in quotes; what Mermaid or HTML would read as a sign of its own becomes an entity."""
    plain = "".join(f"#{ord(c)};" if c in '"#<>&`\\*_' else c for c in visible(text))
    return '"' + "<br>".join(plain.splitlines() or [""]) + '"'


def _word(text: str) -> str:
    return "c" + "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
