"""Read a file of ComfyUI's editor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import Problems
from ..schema import Graph
from .document import parse
from .flatten import flatten


def read(document: Mapping[str, Any], source: str, problems: Problems) -> Graph:
    """The graph of a file, flat; the values that stand by position get their names from ``naming.named``."""
    graph = flatten(parse(document, problems, source), problems, source)
    if not graph.nodes and not problems:
        problems.add("bad_graph", "the file holds no node that runs", place=source)
    return replace(graph, workflow=document)
