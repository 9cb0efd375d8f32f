"""A graph as a file of one of the kinds that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pipegraph.graphs.schema import Graph
from pipegraph.runtime.catalog import Catalog

from .mermaid import mermaid
from .paint import png, svg
from .scene import scene

SUFFIXES: Final = (".svg", ".png", ".mmd", ".md")


def file_of(graph: Graph, catalog: Catalog, path: Path, marks: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file, of the kind that its suffix names; other arguments as for ``scene``.

    Raises:
        ValueError: the suffix names no kind.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"a drawing is a file that ends in {', '.join(SUFFIXES)}, got {path.name}")
    if suffix in (".svg", ".png"):
        drawn = scene(graph, catalog, marks)
        return svg(drawn).encode() if suffix == ".svg" else png(drawn)
    text = mermaid(graph, catalog, marks)
    return (f"```mermaid\n{text}```\n" if suffix == ".md" else text).encode()
