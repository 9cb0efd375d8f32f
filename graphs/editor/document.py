"""The file of ComfyUI's editor as plain values: nodes, links, subgraphs. Forms 0.4 and 1.0 become one.

In 0.4 a link is a list ``[id, origin, slot, target, slot, type]``, in 1.0 and inside subgraphs an object. An input
names its link, and that counts; the ends that the link names must agree with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pipegraph.limits import EDITOR_NODES

from ..errors import Problem, Problems, shown

ENTRY, EXIT = "-10", "-20"
"""Ids under which links inside a subgraph name its own inputs and outputs."""
NOTES: Final = ("Note", "MarkdownNote")
"""Types of nodes that hold a text for people."""
ALWAYS, MUTED, BYPASSED = 0, 2, 4
"""Modes of a node; 1 and 3 (on an event, on a trigger) run like 0."""
_FORM: Final = 'a file of ComfyUI\'s editor: "nodes" and "links" are lists, each node has "id" and "type"'


class Socket(NamedTuple):
    """An input of a node as the file lists it."""

    name: str
    type: str
    link: int | None
    widget: str | None
    """Name of the widget that it belongs to."""
    label: str = ""
    """Label in the editor."""


class Output(NamedTuple):
    """An output of a node as the file lists it."""

    name: str
    type: str


class Wire(NamedTuple):
    """A link: from the output ``slot`` of ``origin`` to the input ``target_slot`` of ``target``."""

    id: int
    origin: str
    slot: int
    target: str
    target_slot: int
    type: str = "*"


class Border(NamedTuple):
    """An input or output of a subgraph, and the links inside that begin or end there."""

    name: str
    type: str
    links: tuple[int, ...]
    label: str = ""


class EditorNode(NamedTuple):
    """A node as the file has it."""

    id: str
    type: str
    title: str
    mode: int
    inputs: tuple[Socket, ...]
    outputs: tuple[Output, ...]
    values: tuple[Any, ...]
    """Values of widgets by position."""
    named: Mapping[str, Any] | None
    """Values of widgets by name, where the file has them so."""
    properties: Mapping[str, Any]


class Scope(NamedTuple):
    """The graph of the file, or the inside of a subgraph."""

    id: str
    name: str
    nodes: Mapping[str, EditorNode]
    links: Mapping[int, Wire]
    inputs: tuple[Border, ...] = ()
    outputs: tuple[Border, ...] = ()


class Document(NamedTuple):
    """A file of the editor."""

    root: Scope
    subgraphs: Mapping[str, Scope]
    """By the id that is the type of their instances."""
    groups: Mapping[str, Any]
    """``extra.groupNodes``: the group nodes that editors made before there were subgraphs."""
    notes: tuple[Problem, ...] = ()
    """Unknown data of the file."""
    extra: Mapping[str, Any] = {}
    """Further data of the editor and its extensions."""


def is_editor(document: Any) -> bool:
    """Whether a JSON value is a file of a graph editor: ComfyUI's or another one's."""
    return isinstance(document, Mapping) and isinstance(document.get("nodes"), list) and "pipegraph" not in document


def parse(document: Mapping[str, Any], problems: Problems, source: str = "") -> Document:
    """Read a file; invalid parts are added to ``problems`` and left out."""
    return _Parser(problems, source).document(document)


class _Parser:
    def __init__(self, problems: Problems, source: str) -> None:
        self.problems, self.source = problems, source
        self.notes: list[Problem] = []

    def bad(self, message: str, place: str, got: Any = None, code: str = "bad_graph", **more: Any) -> None:
        self.problems.add(code, message, place=place, got="" if got is None else shown(got), **more)

    def document(self, document: Mapping[str, Any]) -> Document:
        nothing = Document(Scope("", "", {}, {}), {}, {})
        foreign = next((key for key in ("edges", "connections", "wires") if key in document), "")
        if not isinstance(document.get("links"), list) or not _are_nodes(document["nodes"]):
            hint = f'It has "{foreign}": another program wrote it.' if foreign else ""
            self.bad("this is no graph of ComfyUI's editor", self.source, code="unknown_form", wanted=_FORM, hint=hint)
            return nothing
        listed = [(document, "")] + [(inner, where) for inner, where in _definitions(document)]
        count = sum(len(inner["nodes"]) for inner, _ in listed if isinstance(inner.get("nodes"), list))
        if count > EDITOR_NODES:
            wanted = f"at most {EDITOR_NODES:,}"
            self.bad(f"the file has {count:,} nodes", self.source, code="too_large", wanted=wanted)
            return nothing
        subgraphs: dict[str, Scope] = {}
        for inner, where in listed[1:]:
            if isinstance(inner.get("nodes"), list) and type(id := inner.get("id")) is str:
                subgraphs[id] = self.scope(inner, where)
            else:
                self.bad('a subgraph is an object with "id" and "nodes"', where, inner)
        extra = mapping(document.get("extra"))
        root = self.scope(document, "")
        return Document(root, subgraphs, mapping(extra.get("groupNodes")), tuple(self.notes), extra)

    def scope(self, document: Mapping[str, Any], where: str) -> Scope:
        nodes: dict[str, EditorNode] = {}
        for i, raw in enumerate(document["nodes"]):
            node = node_of(raw)
            if node is None:
                self.bad('a node is an object with "id" and "type"', f"{where}nodes[{i}]", raw)
                continue
            self.two_values(node, raw)
            if node.id in nodes:
                self.bad(f'two nodes have the id "{node.id}"', f"{where}nodes[{i}]", code="ambiguous_id", node=node.id)
            nodes[node.id] = node
        links: dict[int, Wire] = {}
        for i, raw in enumerate(document.get("links") or ()):
            if raw is None:  # the place of a link that was cut
                continue
            link = wire_of(raw)
            if link is None:
                self.bad("a link names its id, two nodes and two slots", f"{where}links[{i}]", raw, "bad_link")
            elif link.id in links and links[link.id] != link:
                self.bad(f"two links have the id {link.id}", f"{where}links[{i}]", code="bad_link")
            else:
                links[link.id] = link
        borders = [
            tuple(_border(raw) for raw in document.get(side) or () if isinstance(raw, Mapping)) if where else ()
            for side in ("inputs", "outputs")
        ]
        id, name = str(document.get("id") or ""), str(document.get("name") or "")
        scope = Scope(id, name, nodes, links, borders[0], borders[1])
        self.ends(scope, where)
        return scope

    def two_values(self, node: EditorNode, raw: Mapping[str, Any]) -> None:
        """Say where a file has one value by name and another by position."""
        by_name = mapping(raw.get("widgets_values_named"))
        if node.named is None or node.type in NOTES or node.named == by_name:
            return
        for name, value in by_name.items():
            if node.named.get(name) != value:
                message = f"the file has two values, by name {shown(value)}; that by position counts, as in the editor"
                more: dict[str, Any] = {"node": node.id, "title": node.title or node.type, "input": name}
                self.notes.append(Problem(code="two_values", message=message, got=shown(node.named.get(name)), **more))

    def ends(self, scope: Scope, where: str) -> None:
        """Links that the inputs they lead into do not name: an input holds one link, and its word counts."""
        named = {(node.id, socket.link) for node in scope.nodes.values() for socket in node.inputs}
        ends: dict[tuple[str, int], list[int]] = {}
        for link in scope.links.values():
            node = scope.nodes.get(link.target)
            if node and (node.id, link.id) not in named and link.target_slot < len(node.inputs):
                ends.setdefault((node.id, link.target_slot), []).append(link.id)
        for (id, slot), links in ends.items():
            node = scope.nodes[id]
            socket = node.inputs[slot]
            more: dict[str, Any] = {"node": id, "title": node.title, "input": socket.name, "place": f"{where}links"}
            if socket.link in scope.links:
                listed = ", ".join(map(str, links))
                message = f"two links lead there, {socket.link} and {listed}; the input names {socket.link}"
                self.notes.append(Problem(code="bad_link", message=message, **more))
            elif len(links) > 1:
                message = f"two links lead there, {links[0]} and {links[1]}, and the input names neither"
                self.problems.add("bad_link", message, **more)
            elif socket.link is None:
                message = f"the link {links[0]} leads there, and the input does not name it"
                self.problems.add("bad_link", message, **more)


def node_of(raw: Any) -> EditorNode | None:
    """A node, or None if it has no id or type."""
    if not isinstance(raw, Mapping) or type(raw.get("id")) not in (int, str) or not raw.get("type"):
        return None
    named, values = raw.get("widgets_values_named"), raw.get("widgets_values")
    if isinstance(values, Mapping):
        named = named if isinstance(named, Mapping) else values
        values = ()
    mode, inputs, outputs = raw.get("mode"), raw.get("inputs"), raw.get("outputs")
    return EditorNode(
        id=str(raw["id"]),
        type=str(raw["type"]),
        title=raw["title"] if isinstance(raw.get("title"), str) else "",
        mode=mode if type(mode) is int else ALWAYS,
        inputs=tuple(_socket(mapping(s)) for s in inputs) if isinstance(inputs, list) else (),
        outputs=tuple(Output(str(mapping(s).get("name", "")), _type(mapping(s).get("type"))) for s in outputs)
        if isinstance(outputs, list)
        else (),
        values=tuple(values) if isinstance(values, list) else (),
        named=_named(named, values) if isinstance(named, Mapping) else None,
        properties=mapping(raw.get("properties")),
    )


def _named(named: Mapping[str, Any], values: Any) -> Mapping[str, Any]:
    """Values by name; where the file has others by position those count, as its editor shows them."""
    if not isinstance(values, list) or len(values) != len(named):
        return named
    pairs = zip(named.items(), values, strict=True)
    merged = {name: value if _kind(value) is _kind(old) else old for (name, old), value in pairs}
    return merged if [*merged.values()] == values else named


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _are_nodes(nodes: list[Any]) -> bool:
    """Whether any entry could be a node of ComfyUI: foreign editors keep theirs elsewhere."""
    return any(
        _is_map(n) and "id" in n and "type" in n and not {"data", "parameters", "wires"} & n.keys() for n in nodes
    )


def _definitions(document: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """The subgraphs of a file with their places, also those that are defined inside others."""
    inner_graphs: list[tuple[Mapping[str, Any], str]] = []
    waiting = [(document, "")]
    while waiting:
        outer, where = waiting.pop()
        subgraphs = mapping(outer.get("definitions")).get("subgraphs")
        for i, inner in enumerate(subgraphs if isinstance(subgraphs, list) else ()):
            place = f"{where}definitions.subgraphs[{i}]."
            inner_graphs.append((mapping(inner), place))
            waiting.append((mapping(inner), place))
    return inner_graphs


def _socket(raw: Mapping[str, Any]) -> Socket:
    widget = raw.get("widget")
    name = widget.get("name") if isinstance(widget, Mapping) else None
    link = raw.get("link")
    label = raw.get("label")
    return Socket(
        name=str(raw.get("name", "")),
        type=_type(raw.get("type")),
        link=link if type(link) is int else None,
        widget=name if isinstance(name, str) else None,
        label=label if isinstance(label, str) else "",
    )


def wire_of(raw: Any) -> Wire | None:
    """A link of either form, or None if it is none."""
    if isinstance(raw, Mapping):
        keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
        parts = [raw.get(key) for key in keys]
    elif isinstance(raw, list) and len(raw) >= 5:
        parts = [*raw[:6], None][:6]
    else:
        return None
    id, origin, slot, target, target_slot, kind = parts
    try:
        return Wire(_whole(id), _id(origin), _whole(slot), _id(target), _whole(target_slot), _type(kind))
    except ValueError:
        return None


def _border(raw: Mapping[str, Any]) -> Border:
    ids = raw.get("linkIds")
    label = raw.get("label")
    return Border(
        name=str(raw.get("name", "")),
        type=_type(raw.get("type")),
        links=tuple(dict.fromkeys(i for i in ids if type(i) is int)) if isinstance(ids, list) else (),
        label=label if isinstance(label, str) else "",
    )


def _whole(value: Any) -> int:
    """A whole number, which some files keep as text."""
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.isdigit():
        return int(value)
    raise ValueError


def _id(value: Any) -> str:
    if type(value) in (int, str):
        return str(value)
    raise ValueError


def _type(value: Any) -> str:
    """A type of sockets; numbers, as old editors wrote them for events, and nothing are any type."""
    if isinstance(value, list):
        return ",".join(str(kind) for kind in value)
    return value if isinstance(value, str) and value else "*"


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)
