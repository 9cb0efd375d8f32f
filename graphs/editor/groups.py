"""Group nodes, which older editors saved before there were subgraphs; each is read as a subgraph.

``extra.groupNodes[NAME]`` lists inner nodes, known by their places in the list, and links between them. The type of an
instance is ``workflow>NAME``; its inputs are those of the inner nodes that no inner link feeds, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import Problems, shown
from .document import ENTRY, EXIT, Border, EditorNode, Output, Scope, Socket, Wire, node_of, wire_of

GROUP_PREFIXES: Final = ("workflow>", "workflow/")
"""How the types of instances of group nodes begin."""


def is_group(type: str) -> bool:
    """Whether this is the type of an instance of a group node."""
    return type.startswith(GROUP_PREFIXES)


def scope_of(
    host: EditorNode, groups: Mapping[str, Any], problems: Problems
) -> tuple[Scope, Mapping[str, tuple[Any, ...]]] | None:
    """The inside of an instance of a group node and the values of its widgets by inner node; None if it is none."""
    if not is_group(host.type):
        return None
    name = host.type[len(GROUP_PREFIXES[0]) :]
    data = groups.get(name)
    if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), list):
        return None
    listed = [node_of({**raw, "id": str(i)}) for i, raw in enumerate(data["nodes"]) if isinstance(raw, Mapping)]
    nodes = {node.id: node for node in listed if node}
    links = _links(data.get("links"), nodes)
    fed = {(link.target, link.target_slot): link.id for link in links.values()}
    inner_nodes, inputs = _inputs(host, nodes, fed, links, problems)
    outputs = _outputs(host, inner_nodes, data, links)
    return Scope(host.type, name, inner_nodes, links, inputs, outputs), _split(host, nodes, problems)


def _links(listed: Any, nodes: Mapping[str, EditorNode]) -> dict[int, Wire]:
    """Inner links ``[node, slot, node, slot, ...]``, numbered."""
    links: dict[int, Wire] = {}
    for raw in listed if isinstance(listed, list) else ():
        link = wire_of([len(links), *raw[:4]]) if isinstance(raw, list) and len(raw) >= 4 else None
        if link and link.origin in nodes and link.target in nodes:
            links[link.id] = link
    return links


def _inputs(
    host: EditorNode,
    nodes: Mapping[str, EditorNode],
    fed: Mapping[tuple[str, int], int],
    links: dict[int, Wire],
    problems: Problems,
) -> tuple[dict[str, EditorNode], tuple[Border, ...]]:
    """The inner nodes with their links, and the borders: each input of the instance finds the inner one it stands for.

    It has the name of the inner input, or that after the title or type of the inner node where the name is there twice.
    """
    free = [(n.id, i, s) for n in nodes.values() for i, s in enumerate(n.inputs) if (n.id, i) not in fed]
    free.sort(key=lambda entry: entry[2].widget is not None)
    linked = dict(fed)
    borders: list[Border] = []
    for socket in host.inputs:
        entry = next((e for e in free if _stands_for(socket.name, e[2])), None)
        if entry is None:
            if socket.link is not None:
                message = f'no node inside the group node has the input "{socket.name}"'
                problems.add("bad_link", message, node=host.id, title=host.title or host.type, input=socket.name)
            continue
        free.remove(entry)
        id, number, inner = entry
        link = Wire(max(links, default=-1) + 1, ENTRY, len(borders), id, number, inner.type)
        links[link.id] = link
        linked[id, number] = link.id
        borders.append(Border(socket.name, inner.type, (link.id,)))
    inner_nodes = {
        node.id: node._replace(
            inputs=tuple(s._replace(link=linked.get((node.id, i))) for i, s in enumerate(node.inputs))
        )
        for node in nodes.values()
    }
    return inner_nodes, tuple(borders)


def _stands_for(outer: str, inner: Socket) -> bool:
    names = [name for name in (inner.label, inner.name) if name]
    return any(outer == name or outer.endswith(f" {name}") for name in names)


def _outputs(
    host: EditorNode, nodes: Mapping[str, EditorNode], data: Mapping[str, Any], links: dict[int, Wire]
) -> tuple[Border, ...]:
    """Outputs that no inner link uses, and those that are named in ``external``, in order."""
    used = {(link.origin, link.slot) for link in links.values()}
    external = {(str(e[0]), e[1]) for e in data.get("external") or () if isinstance(e, list) and len(e) >= 2}
    config = data.get("config")
    config = config if isinstance(config, Mapping) else {}
    ends: list[tuple[str, int, Output]] = []
    for node in nodes.values():
        shown_by_user = config.get(node.id)
        shown_by_user = shown_by_user.get("output") if isinstance(shown_by_user, Mapping) else None
        for i, output in enumerate(node.outputs):
            chosen = shown_by_user.get(str(i)) if isinstance(shown_by_user, Mapping) else None
            visible = chosen.get("visible") if isinstance(chosen, Mapping) else None
            if visible if isinstance(visible, bool) else (node.id, i) not in used or (node.id, i) in external:
                ends.append((node.id, i, output))
    borders = []
    for number, (id, slot, output) in enumerate(ends):
        link = Wire(max(links, default=-1) + 1, id, slot, EXIT, number, output.type)
        links[link.id] = link
        name = host.outputs[number].name if number < len(host.outputs) else output.name
        borders.append(Border(name, output.type, (link.id,)))
    return tuple(borders)


def _split(host: EditorNode, nodes: Mapping[str, EditorNode], problems: Problems) -> Mapping[str, tuple[Any, ...]]:
    """The values of the instance, which are those of all inner nodes one after the other."""
    counts = [len(node.values) for node in nodes.values()]
    if not host.values:
        return {}
    if sum(counts) != len(host.values):
        message = f"the group node has {sum(counts)} values inside, and the file gives it {len(host.values)}"
        hint = "In ComfyUI's editor turn it into a subgraph, and save."
        more: dict[str, Any] = {
            "node": host.id,
            "title": host.title or host.type,
            "got": ", ".join(shown(value, 20) for value in host.values[:12]),
            "hint": hint,
        }
        problems.add("unnamed_values", message, **more)
        return {}
    split, at = {}, 0
    for node, count in zip(nodes.values(), counts, strict=True):
        split[node.id] = host.values[at : at + count]
        at += count
    return split
