"""Resolve the source of an input: upstream through subgraphs, reroutes, primitives and bypassed nodes.

A muted node gives nothing. A bypassed node hands on one of its inputs: that of the same number as the output if the
types allow it, else the first of exactly the type that is wanted, else the first that fits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..schema import Link, WidgetValue
from .document import BYPASSED, ENTRY, EXIT, MUTED, NOTES, EditorNode, Wire
from .frames import Frame

PRIMITIVE: Final = "PrimitiveNode"
REROUTE: Final = "Reroute"
SET, GET = "SetNode", "GetNode"
VIRTUAL: Final = frozenset((PRIMITIVE, *NOTES, REROUTE, SET, GET))
"""Types that are nodes in the editor only."""


class Value(NamedTuple):
    """A value as it is."""

    value: Any


class Lost(NamedTuple):
    """The link leads to nothing."""

    reason: str
    meant: bool
    """By the user, who muted or bypassed a node; else the file is broken."""


Source = Link | Value | WidgetValue | Lost | None
"""None: nothing is linked."""


class Walker:
    """Finds sources; what was found once is known."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str, int, str], Source] = {}

    def source(self, frame: Frame, node: EditorNode, number: int) -> Source:
        """The source of a node's input."""
        path: dict[tuple[str, str, int, str], None] = {}
        place: tuple[Frame, EditorNode, int] = frame, node, number
        wanted = node.inputs[number].type
        result: Source | tuple[Frame, EditorNode, int, str]
        while True:
            result = self._step(*place, wanted, path)
            if not isinstance(result, tuple) or isinstance(result, Link | Value | WidgetValue | Lost):
                break
            place, wanted = result[:3], result[3]
        for key in path:
            self.known[key] = result
        return result

    def _step(
        self, frame: Frame, node: EditorNode, number: int, wanted: str, path: dict[tuple[str, str, int, str], None]
    ) -> Source | tuple[Frame, EditorNode, int, str]:
        """The source, or the next input to look at and the type that is wanted there."""
        id = node.inputs[number].link
        if id is None:
            return None
        link = frame.scope.links.get(id)
        if link is None:
            return Lost(f"its link {id} is not in the file", meant=False)
        if link.origin == ENTRY and frame.parent:
            return self._outside(frame, link)
        while True:
            key = frame.path, link.origin, link.slot, wanted
            if key in path:
                return Lost("reroutes and bypassed nodes lead in a circle", meant=False)
            if key in self.known:
                return self.known[key]
            path[key] = None
            origin = frame.scope.nodes.get(link.origin)
            if origin is None:
                return Lost(f'its link {id} comes from the node "{link.origin}", which is not in the file', meant=False)
            if origin.type == PRIMITIVE:
                return _primitive(frame, origin)
            if origin.mode == MUTED:
                return Lost(f"it comes from {_called(origin)}, which is muted", meant=True)
            if origin.mode == BYPASSED:
                through = _bypass(origin, link.slot, wanted)
                if through is None:
                    return Lost(f"{_called(origin)} is bypassed and has no input of the type {wanted}", meant=True)
                return frame, origin, through, origin.inputs[through].type
            child = frame.child(origin)
            if child is None:
                break
            inner = _exit(child, origin, link.slot)
            if isinstance(inner, Lost):
                return inner
            frame, link = child, inner
            if link.origin == ENTRY:  # a subgraph that hands an input straight on
                return self._outside(frame, link)
        if origin.type not in VIRTUAL:
            return Link(frame.flat(origin.id), link.slot)
        return _through(frame, origin, wanted)

    def _outside(self, frame: Frame, link: Wire) -> Source | tuple[Frame, EditorNode, int, str]:
        """The outer source of a subgraph's input."""
        host, parent = frame.host, frame.parent
        assert host
        assert parent
        if link.slot >= len(frame.scope.inputs):
            return Lost(f'the subgraph "{frame.scope.name}" has no input number {link.slot}', meant=False)
        number = frame.input_of(link.slot)
        if number is not None and host.inputs[number].link is not None:
            return parent, host, number, frame.scope.inputs[link.slot].type
        value = frame.widget(link.slot)
        if value is None:
            border = frame.scope.inputs[link.slot]
            name = border.label or border.name
            return Lost(f'nothing is linked to the input "{name}" of the subgraph "{frame.within}"', meant=True)
        return value if isinstance(value, WidgetValue) else Value(value[0])


def _exit(child: Frame, host: EditorNode, slot: int) -> Wire | Lost:
    """The link inside a subgraph that an output of its instance stands for; the instance may list fewer outputs."""
    outputs = child.scope.outputs
    name = host.outputs[slot].name if slot < len(host.outputs) else None
    number = next((i for i, border in enumerate(outputs) if border.name == name), None)
    if number is None:
        return Lost(f'the subgraph "{child.within}" has no output {name or slot}', meant=False)
    links = child.scope.links
    inner = next((links[id] for id in outputs[number].links if id in links), None)
    inner = inner or next((w for w in links.values() if (w.target, w.target_slot) == (EXIT, number)), None)
    if inner:
        return inner
    missing = ", ".join(str(id) for id in outputs[number].links)
    why = f"its link {missing} is not in the file" if missing else "nothing inside is linked to it"
    return Lost(f'the subgraph "{child.within}" gives nothing by its output "{name}": {why}', meant=False)


def primitive_value(frame: Frame, node: EditorNode) -> Any:
    """The value of a primitive, None if it has none."""
    value = frame.inner.get((node.id, "value"), (node.named or {}).get("value"))
    values = frame.by_position.get(node.id, node.values)
    return values[0] if value is None and values else value


def _primitive(frame: Frame, node: EditorNode) -> Source:
    """The value of a primitive, which the widgets that it is linked to take."""
    value = primitive_value(frame, node)
    return Lost(f"{_called(node)} has no value", meant=False) if value is None else Value(value)


def _through(frame: Frame, node: EditorNode, wanted: str) -> Source | tuple[Frame, EditorNode, int, str]:
    """The input that a node of the editor hands on."""
    if node.type == GET:
        name = node.values[0] if node.values else None
        listed: Frame | None = frame
        while listed:  # a name that is set outside holds inside of subgraphs too
            for other in listed.scope.nodes.values():
                if other.type == SET and other.values and other.values[0] == name and other.inputs:
                    return listed, other, 0, wanted
            listed = listed.parent
        return Lost(f'no SetNode has the name "{name}"', meant=False)
    if node.type in NOTES or not node.inputs:
        return Lost(f"{_called(node)} gives nothing", meant=False)
    return frame, node, 0, wanted


def _bypass(node: EditorNode, slot: int, wanted: str) -> int | None:
    """The input that a bypassed node hands on for an output."""
    inputs = [socket.type for socket in node.inputs]
    offered = node.outputs[slot].type if slot < len(node.outputs) else "*"
    if not inputs:
        return None
    if wanted == "*":
        return slot if slot < len(inputs) else 0
    fitting = [i for i, kind in enumerate(inputs) if _fits(kind, offered) and _fits(kind, wanted)]
    if slot in fitting:
        return slot
    return next((i for i, kind in enumerate(inputs) if kind == wanted), fitting[0] if fitting else None)


def _fits(type: str, other: str) -> bool:
    """Whether the editor would link sockets of these types."""
    if "*" in (type, other) or type == other:
        return True
    first, second = set(type.lower().split(",")), set(other.lower().split(","))
    return bool(first & second) or "*" in first | second


def _called(node: EditorNode) -> str:
    return f'the node "{node.title or node.type}" ({node.id})'
