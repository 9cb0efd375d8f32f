"""Write a flat graph as a file that ComfyUI's editor opens, and that gives the same graph when it is read again.

What the editor cannot hold (text ids, ``auto``, seeds that are drawn, inputs and outputs of the graph) is stored in
``properties.pipegraph`` of a node and ``extra.pipegraph`` of the file, beside a value that the editor can show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ..schema import Graph, InputRef, Link, NodeUse
from ..write import graph_input
from .naming import SEEDS, Slot
from .sources import PRIMITIVE

STORED: Final = "pipegraph"
"""Key under which what only our form has is stored."""
WIDTH, ROW, HEAD, FIELD, LONG_FIELD = 320, 22, 36, 26, 130
"""Pixels: a node's width, a row of sockets, its title, a widget, a widget of several lines."""


class Facts(NamedTuple):
    """What must be known of a type of node to write one."""

    inputs: Sequence[tuple[str, str, bool]]
    """Name, type, and whether it may be left out, in order."""
    outputs: Sequence[tuple[str, str]]
    """Name and type, in order."""
    slots: Sequence[Slot]
    """Inputs that have widgets, in order."""
    defaults: Mapping[str, Any]
    long: frozenset[str]
    """Inputs whose widgets have several lines."""


class Box(NamedTuple):
    """A node to be placed."""

    width: int
    height: int
    sources: Sequence[str]


Place = Callable[[Mapping[str, Box]], Mapping[str, tuple[int, int]]]
"""Where nodes lie: from their sizes and what they read from."""


def editor(
    graph: Graph,
    facts: Callable[[str], Facts | None],
    place: Place,
    filled: Mapping[tuple[str, str], Any] | None = None,
) -> dict[str, Any]:
    """A file of version 0.4.

    Args:
        graph: What to write, values named.
        facts: What is known of a type of node.
        place: Lays out the nodes.
        filled: (node, input) -> the value that the editor shows for ``auto``, a seed to be drawn, or an input of the
            graph; the node is "" for inputs of the graph themselves.
    """
    return _Writing(graph, facts, place, filled or {}).document()


class _Writing:
    def __init__(
        self,
        graph: Graph,
        facts: Callable[[str], Facts | None],
        place: Place,
        filled: Mapping[tuple[str, str], Any],
    ) -> None:
        self.graph, self.place, self.filled = graph, place, filled
        self.facts = {use.type: facts(use.type) for use in graph.nodes.values()}
        self.ids = _numbers(graph.nodes)
        self.links: list[list[Any]] = []
        self.outputs: dict[tuple[str, int], list[int]] = {}
        self.readers: dict[str, list[tuple[str, str]]] = {}
        for use in graph.nodes.values():
            for name, value in use.inputs.items():
                if isinstance(value, InputRef):
                    self.readers.setdefault(value.name, []).append((use.id, name))
        last = max(self.ids.values(), default=0)
        shared = [name for name, readers in self.readers.items() if len(readers) > 1]
        self.primitives = {name: last + 1 + i for i, name in enumerate(shared)}

    def document(self) -> dict[str, Any]:
        sockets = {use.id: self.sockets(use) for use in self.graph.nodes.values()}
        nodes = [self.node(use, sockets[use.id]) for use in self.graph.nodes.values()]
        nodes += [self.primitive(name) for name in self.primitives]
        boxes = self.boxes(nodes)
        places = self.place(boxes)
        for order, (node, id) in enumerate(zip(nodes, boxes, strict=True)):
            node |= {"pos": [*places[id]], "order": order}
        extra: dict[str, Any] = {STORED: self.stored()}
        if inputs := [[str(place["node"]), place["widget"]] for place in extra[STORED].get("inputs", {}).values()]:
            extra["linearData"] = {"inputs": inputs, "outputs": []}
        return {
            "last_node_id": max((node["id"] for node in nodes), default=0),
            "last_link_id": len(self.links),
            "nodes": nodes,
            "links": self.links,
            "groups": self.groups(nodes),
            "config": {},
            "extra": extra,
            "version": 0.4,
        }

    def sockets(self, use: NodeUse) -> list[dict[str, Any]]:
        """The inputs of a node with their links: those without widgets, and those with one that are linked."""
        facts = self.facts[use.type]
        known = {name: (type, optional) for name, type, optional in facts.inputs} if facts else {}
        widgets = {slot.name for slot in facts.slots} if facts else set()
        names = [name for name in known if name not in widgets and (name in use.inputs or "." not in name)]
        names += [name for name, value in use.inputs.items() if name not in names and self.source(value)]
        sockets: list[dict[str, Any]] = []
        for name in names:
            type, optional = known.get(name, ("*", True))
            socket: dict[str, Any] = {"name": name, "type": type, "link": None}
            if name in widgets or (facts is None and isinstance(use.inputs.get(name), InputRef)):
                socket["widget"] = {"name": name}
            elif optional:
                socket["shape"] = 7
            if source := self.source(use.inputs.get(name)):
                socket["link"] = len(self.links) + 1
                origin, slot, kind = source
                self.links.append([socket["link"], origin, slot, self.ids[use.id], len(sockets), kind or type])
                self.outputs.setdefault((str(origin), slot), []).append(socket["link"])
            sockets.append(socket)
        return sockets

    def source(self, value: Any) -> tuple[int, int, str] | None:
        """The node, the number of its output and its type that a link, or a shared input of the graph, comes from."""
        if isinstance(value, InputRef) and value.name in self.primitives:
            return self.primitives[value.name], 0, self.graph.inputs[value.name].type
        if not isinstance(value, Link) or value.node not in self.ids:
            return None
        slot, kind = self.output(value)
        return self.ids[value.node], slot, kind

    def output(self, link: Link) -> tuple[int, str]:
        """The number and the type of the output that a link means."""
        facts = self.facts[self.graph.nodes[link.node].type]
        outputs = facts.outputs if facts else ()
        names = [name for name, _ in outputs]
        number = names.index(link.output) if link.output in names else int(link.output)
        return number, outputs[number][1] if number < len(outputs) else ""

    def node(self, use: NodeUse, sockets: list[dict[str, Any]]) -> dict[str, Any]:
        facts = self.facts[use.type]
        id = self.ids[use.id]
        values, replaced = self.values(use)
        stored: dict[str, Any] = {"id": use.id} if str(id) != use.id else {}
        if replaced:
            stored["filled"] = replaced
        linked = [number for origin, number in self.outputs if origin == str(id)]
        outputs = facts.outputs if facts else [(f"output {i}", "*") for i in range(max(linked, default=-1) + 1)]
        return {
            "id": id,
            "type": use.type,
            "pos": [0, 0],
            "size": [WIDTH, self.height(use, sockets, outputs)],
            "flags": {},
            "order": 0,
            "mode": 0,
            "inputs": sockets,
            "outputs": [
                {"name": name, "type": kind, "links": self.outputs.get((str(id), i), []), "slot_index": i}
                for i, (name, kind) in enumerate(outputs)
            ],
            **({"title": use.title} if use.title else {}),
            "properties": {"Node name for S&R": use.type, **({STORED: stored} if stored else {})},
            "widgets_values": self.by_position(facts, values),
            "widgets_values_named": values,
        }

    def values(self, use: NodeUse) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of a node as the editor shows them, and our own for those that it could not."""
        values: dict[str, Any] = {}
        replaced: dict[str, Any] = {}
        for name, value in use.inputs.items():
            if isinstance(value, Link):
                continue
            if isinstance(value, InputRef):
                values[name] = self.shown(value.name)
                continue
            values[name] = self.filled.get((use.id, name), value)
            if values[name] != value or type(values[name]) is not type(value):
                replaced[name] = [value, values[name]]
        return values, replaced

    def shown(self, name: str) -> Any:
        """What the editor shows for an input of the graph."""
        return self.filled.get(("", name), self.graph.inputs[name].default)

    @staticmethod
    def by_position(facts: Facts | None, values: Mapping[str, Any]) -> list[Any]:
        """Values in the order of the widgets, with what becomes of a seed after it."""
        if facts is None:
            return [*values.values()]
        listed: list[Any] = []
        present = {**facts.defaults, **values}
        for slot in facts.slots:
            if (slot.choice and present.get(slot.choice) not in slot.values) or (
                slot.optional and slot.name not in values
            ):
                continue
            listed.append(present.get(slot.name))
            if slot.seed or slot.name in SEEDS:
                listed.append("fixed")
        return listed

    def primitive(self, name: str) -> dict[str, Any]:
        """A node of the editor that gives the value of an input of the graph to all that read it."""
        port, id = self.graph.inputs[name], self.primitives[name]
        first = self.readers[name][0][1]
        output = {"name": port.type, "type": port.type, "widget": {"name": first}, "links": self.outputs[str(id), 0]}
        return {
            "id": id,
            "type": PRIMITIVE,
            "pos": [0, 0],
            "size": [WIDTH, HEAD + 2 * FIELD + (LONG_FIELD if port.multiline else 0)],
            "flags": {},
            "order": 0,
            "mode": 0,
            "inputs": [],
            "outputs": [output],
            "title": name,
            "properties": {"Run widget replace on values": False},
            "widgets_values": [self.shown(name), "fixed"],
        }

    def stored(self) -> dict[str, Any]:
        """Title, inputs and outputs of the graph, with the places of the inputs in the file."""
        graph = self.graph
        stored: dict[str, Any] = {key: text for key in ("title", "description") if (text := getattr(graph, key))}
        inputs = {}
        for name, port in graph.inputs.items():
            readers = self.readers.get(name)
            if not readers:
                continue
            node, widget = (self.primitives[name], "value") if name in self.primitives else self.at(*readers[0])
            inputs[name] = {**graph_input(port), "shown": self.shown(name), "node": node, "widget": widget}
        if inputs:
            stored["inputs"] = inputs
        if graph.outputs:
            stored["outputs"] = {
                name: [self.ids[link.node], self.output(link)[0]] for name, link in graph.outputs.items()
            }
        return stored

    def at(self, node: str, name: str) -> tuple[int, str]:
        return self.ids[node], name

    def boxes(self, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Box]:
        sources: dict[str, list[str]] = {}
        for _, origin, _, target, _, _ in self.links:
            sources.setdefault(str(target), []).append(str(origin))
        return {(id := str(node["id"])): Box(node["size"][0], node["size"][1], sources.get(id, ())) for node in nodes}

    def height(self, use: NodeUse, sockets: Sequence[Any], outputs: Sequence[Any]) -> int:
        facts = self.facts[use.type]
        fields = [name for name, value in use.inputs.items() if not isinstance(value, Link)]
        long = sum(name in facts.long for name in fields) if facts else 0
        return HEAD + ROW * max(len(sockets), len(outputs)) + FIELD * (len(fields) - long) + LONG_FIELD * long

    def groups(self, nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A frame around the nodes of each subgraph that the graph was flattened from."""
        members: dict[str, list[Mapping[str, Any]]] = {}
        for use, node in zip(self.graph.nodes.values(), nodes, strict=False):
            if use.within:
                members.setdefault(use.within, []).append(node)
        groups = []
        for number, (title, inside) in enumerate(members.items()):
            left, top = (min(node["pos"][i] for node in inside) for i in (0, 1))
            right, bottom = (max(node["pos"][i] + node["size"][i] for node in inside) for i in (0, 1))
            bounding = [left - 20, top - HEAD - 40, right - left + 40, bottom - top + HEAD + 60]
            groups.append({"id": number + 1, "title": title, "bounding": bounding, "color": "#3f789e", "flags": {}})
        return groups


def _numbers(ids: Sequence[str] | Mapping[str, Any]) -> dict[str, int]:
    """A number for each id; those that are numbers keep theirs."""
    numbers = {id: int(id) for id in ids if id.isascii() and id.isdigit() and str(int(id)) == id and len(id) < 9}
    following = max(numbers.values(), default=0) + 1
    for id in ids:
        if id not in numbers:
            numbers[id] = following
            following += 1
    return {id: numbers[id] for id in ids}
