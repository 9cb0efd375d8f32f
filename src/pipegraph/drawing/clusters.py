"""Which boxes a graph is drawn in: the subgraphs that its nodes came from, and the groups of the editor's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipegraph.graphs.editor.document import is_editor
from pipegraph.graphs.schema import Graph


class Cluster(NamedTuple):
    """A box around nodes."""

    id: str
    title: str


def clusters(graph: Graph) -> dict[str, tuple[Cluster, ...]]:
    """The boxes that each node lies in, the outermost first."""
    groups = _groups(graph.workflow) if graph.form == "editor" and is_editor(graph.workflow) else {}
    paths: dict[str, tuple[Cluster, ...]] = {}
    for use in graph.nodes.values():
        parts = use.id.split(":")
        titles = use.within.split(" / ") if use.within else []
        path = [groups[parts[0]]] if parts[0] in groups else []
        for depth in range(1, len(parts)):
            title = titles[depth - 1] if len(titles) == len(parts) - 1 else use.within or parts[depth - 1]
            path.append(Cluster(":".join(parts[:depth]), title))
        paths[use.id] = tuple(path)
    return paths


def _groups(document: Mapping[str, Any]) -> dict[str, Cluster]:
    """The smallest group of a file of the editor that each of its nodes begins in."""
    smallest: dict[str, tuple[float, Cluster]] = {}
    listed = document.get("groups")
    for number, group in enumerate(listed if isinstance(listed, list) else ()):
        bounding = _numbers(group.get("bounding") if isinstance(group, Mapping) else None, 4)
        if bounding is None:
            continue
        left, top, width, height = bounding
        cluster = Cluster(f"group {number}", str(group.get("title") or "Group"))
        for node in document["nodes"]:
            at = _numbers(node.get("pos") if isinstance(node, Mapping) else None, 2)
            if at and left <= at[0] <= left + width and top <= at[1] <= top + height:
                id, area = str(node.get("id")), width * height
                if id not in smallest or area < smallest[id][0]:
                    smallest[id] = (area, cluster)
    return {id: cluster for id, (_, cluster) in smallest.items()}


def _numbers(value: Any, count: int) -> Sequence[float] | None:
    """``[x, y, ...]``, or ``{"0": x, "1": y, ...}`` as old editors write it."""
    if isinstance(value, Mapping):
        value = [value.get(str(i)) for i in range(count)]
    if isinstance(value, list) and len(value) >= count and all(type(v) in (int, float) for v in value[:count]):
        return [float(v) for v in value[:count]]
    return None
