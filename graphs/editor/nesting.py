"""How subgraphs lie in each other, before any is unfolded: none may contain itself, and the whole has its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pipegraph.limits import EDITOR_NODES, GRAPH_DEPTH

from ..errors import Problems
from .document import Document
from .groups import GROUP_PREFIXES


def fits(document: Document, problems: Problems, source: str) -> bool:
    """Whether the file can be flattened; else a problem says why."""
    inner = _types(document)
    size: dict[str, int] = {}
    depth: dict[str, int] = {}
    open_: list[str] = [""]
    path: set[str] = set()
    while open_:  # depth first, without recursion
        scope = open_[-1]
        if scope in size:
            open_.pop()
            continue
        path.add(scope)
        waiting = [type for type in inner[scope] if type in inner and type not in size]
        if ring := next((type for type in waiting if type in path), None):
            name = _name(document, ring)
            problems.add("recursive_subgraph", f'the subgraph "{name}" contains itself', place=source)
            return False
        if waiting:
            open_.append(waiting[0])
            continue
        size[scope] = sum(size.get(type, 1) for type in inner[scope])
        depth[scope] = max((depth[type] + 1 for type in inner[scope] if type in inner), default=0)
        path.discard(open_.pop())
    if depth[""] > GRAPH_DEPTH:
        message, wanted = f"subgraphs lie {depth['']} deep in each other", f"at most {GRAPH_DEPTH}"
        problems.add("too_deep", message, place=source, wanted=wanted)
    if size[""] > EDITOR_NODES:
        message, wanted = f"with all subgraphs unfolded the graph has {size['']:,} nodes", f"at most {EDITOR_NODES:,}"
        problems.add("too_large", message, place=source, wanted=wanted)
    return depth[""] <= GRAPH_DEPTH and size[""] <= EDITOR_NODES


def _types(document: Document) -> dict[str, list[str]]:
    """Types of the nodes inside each subgraph and group node, by the type of its instances; "" is the whole graph."""
    inner = {id: [n.type for n in scope.nodes.values()] for id, scope in document.subgraphs.items()}
    for name, data in document.groups.items():
        nodes = data.get("nodes") if isinstance(data, Mapping) else None
        types = _listed(nodes) if isinstance(nodes, list) else []
        for prefix in GROUP_PREFIXES:
            inner[prefix + name] = types
    inner[""] = [n.type for n in document.root.nodes.values()]
    return inner


def _listed(nodes: Iterable[object]) -> list[str]:
    return [str(node.get("type")) for node in nodes if isinstance(node, Mapping)]


def _name(document: Document, type: str) -> str:
    scope = document.subgraphs.get(type)
    return scope.name or scope.id if scope else type
