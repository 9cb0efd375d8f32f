"""Settable inputs of an editor file: the inputs of its App mode, and promoted widgets.

Each becomes an input of the graph, named by what the editor shows, with the value of the file as its default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..schema import GraphInput, InputRef, WidgetValue
from .document import BYPASSED, MUTED, EditorNode, mapping
from .frames import FORM_WORDS, Frame, proxies_of, stored
from .sources import PRIMITIVE, VIRTUAL, primitive_value

TYPES: Final = ("STRING", "INT", "FLOAT", "BOOLEAN", "COMBO")


class _Offer(NamedTuple):
    """A widget that can be set from outside."""

    node: EditorNode
    widget: str
    shown: str
    """Label in the editor."""
    type: str
    """Empty if the file does not say it."""
    border: int | None = None
    """The number of the input, of an instance of a subgraph."""


def offered(root: Frame, extra: Mapping[str, Any]) -> dict[str, GraphInput]:
    """The inputs of the graph; what reads them gets a reference to them, and the default is the value so far."""
    ours = _ours(root, extra)
    offers: dict[tuple[str, str], _Offer] = {}
    for offer in [*_app(root, extra), *_promoted(root)]:
        if (offer.node.id, offer.widget) not in ours:
            offers.setdefault((offer.node.id, offer.widget), offer)
    inputs = {port.name: port for port in ours.values()}
    for offer in offers.values():
        name = _name(offer, [o for o in offers.values() if o is not offer], inputs)
        default = _take(root, offer, InputRef(name))
        inputs[name] = GraphInput(
            name=name,
            type=offer.type,
            required=False,
            default=default,
            description=f"{offer.shown} of {offer.node.title or _subgraph(root, offer.node) or offer.node.type}",
            multiline=offer.type == "STRING",
        )
    return inputs


def _ours(root: Frame, extra: Mapping[str, Any]) -> dict[tuple[str, str], GraphInput]:
    """Inputs of a graph of our own form that was written as a file of the editor, by node and widget."""
    inputs: dict[tuple[str, str], GraphInput] = {}
    for name, entry in mapping(stored(extra).get("inputs")).items():
        place = mapping(entry)
        node, widget = root.scope.nodes.get(str(place.get("node"))), place.get("widget")
        if node is None or not isinstance(widget, str) or place.get("type") not in TYPES:
            continue
        default = _take(root, _Offer(node, widget, widget, place["type"]), InputRef(name))
        choices, low, high = place.get("choices"), place.get("min"), place.get("max")
        description = place.get("description")
        inputs[node.id, widget] = GraphInput(
            name=name,
            type=place["type"],
            required="default" not in place,
            default=default,
            description=description if isinstance(description, str) else "",
            minimum=low if type(low) in (int, float) else None,
            maximum=high if type(high) in (int, float) else None,
            choices=tuple(map(str, choices)) if isinstance(choices, list) and choices else None,
            multiline=place.get("multiline") is True,
        )
    return inputs


def filled_in(root: Frame) -> dict[str, dict[str, tuple[Any, Any]]]:
    """What stands in the file for values of our own form that the editor cannot show, by node id; "": the inputs."""
    filled: dict[str, dict[str, tuple[Any, Any]]] = {}
    for name, entry in mapping(stored(root.document.extra).get("inputs")).items():
        if isinstance(entry, Mapping) and "shown" in entry:
            filled.setdefault("", {})[name] = (entry.get("default"), entry["shown"])
    for node in root.scope.nodes.values():
        pairs = mapping(stored(node.properties).get("filled"))
        values = {k: (pair[0], pair[1]) for k, pair in pairs.items() if isinstance(pair, list) and len(pair) == 2}
        if values:
            filled[root.flat(node.id)] = values
    return filled


def _app(root: Frame, extra: Mapping[str, Any]) -> Iterator[_Offer]:
    """Inputs of App mode: ``[node, widget]``, or ``[graph:node:widget, widget]``."""
    data = extra.get("linearData")
    listed = data.get("inputs") if isinstance(data, Mapping) else None
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, list) or len(entry) < 2 or not isinstance(entry[1], str):
            continue
        id = str(entry[0])
        node = root.scope.nodes.get(id) or root.scope.nodes.get(id.partition(":")[2].partition(":")[0])
        if node is None or node.mode in (MUTED, BYPASSED) or (node.type in VIRTUAL and node.type != PRIMITIVE):
            continue
        child = root.child(node)
        if child is None:
            socket = next((s for s in node.inputs if s.name == entry[1]), None)
            if socket is None or socket.link is None:
                shown = (socket.label if socket else "") or (node.title if node.type == PRIMITIVE else "") or entry[1]
                type = (
                    socket.type if socket else node.outputs[0].type if node.type == PRIMITIVE and node.outputs else ""
                )
                yield _Offer(node, entry[1], shown, type if type in TYPES else "")
        elif (border := child.border(entry[1])) is not None:
            yield from _of_border(node, child, border)


def _promoted(root: Frame) -> Iterator[_Offer]:
    for node in root.scope.nodes.values():
        child = root.child(node) if node.mode not in (MUTED, BYPASSED) else None
        if child is None:
            continue
        for border in range(len(child.scope.inputs)):
            yield from _of_border(node, child, border)
        for inner, widget in proxies_of(node):
            if inner in child.scope.nodes and widget not in FORM_WORDS and not widget.startswith("$$"):
                if not any(child.leads_to(border, inner, widget) for border in range(len(child.scope.inputs))):
                    title = child.scope.nodes[inner].title
                    yield _Offer(node, f"{inner}.{widget}", title if title and widget == "value" else widget, "")


def _of_border(node: EditorNode, child: Frame, border: int) -> Iterator[_Offer]:
    """An input of an instance, if it has a widget and nothing is linked to it."""
    number = child.input_of(border)
    if (number is None or node.inputs[number].link is None) and child.widget(border) is not None:
        entry = child.scope.inputs[border]
        label = (node.inputs[number].label if number is not None else "") or entry.label
        if not label and re.fullmatch(r"value(_\d+)?", entry.name):  # of a primitive, which its title tells more of
            label = next((inner.title for inner, _ in child.targets(border)), "")
        label = label or entry.name
        yield _Offer(node, entry.name, label, entry.type if entry.type in TYPES else "", border)


def _take(root: Frame, offer: _Offer, reference: InputRef) -> Any:
    """Put a reference in the place of a value; the value, or where it will be known."""
    node = offer.node
    child = root.child(node)
    if child is None:
        value = primitive_value(root, node) if node.type == PRIMITIVE else WidgetValue(root.flat(node.id), offer.widget)
        root.inner[node.id, offer.widget] = reference
        return value
    if offer.border is not None:
        value = child.widget(offer.border)
        child.values[offer.border] = reference
        return value if value is None or isinstance(value, WidgetValue) else value[0]
    inner, _, widget = offer.widget.partition(".")
    inside = child.scope.nodes[inner]
    value = child.inner.get((inner, widget))
    child.inner[inner, widget] = reference
    deeper = child.child(inside)
    if deeper:
        before = deeper.named(widget)
        deeper.hand_down(widget, reference)
        return before if value is None else value
    if value is None and inside.type == PRIMITIVE:
        del child.inner[inner, widget]
        value = primitive_value(child, inside)
        child.inner[inner, widget] = reference
    return WidgetValue(child.flat(inner), widget) if value is None else value


def _name(offer: _Offer, others: list[_Offer], taken: Mapping[str, Any]) -> str:
    """A name for the command line: what is shown, with the title of the node where several are shown alike."""
    name = _word(offer.shown) or _word(offer.widget) or "value"
    if any(_word(other.shown) == name for other in others):
        name = f"{_word(offer.node.title) or offer.node.id}_{name}"
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique


def _word(text: str) -> str:
    return re.sub(r"\W+", "_", text.casefold()).strip("_")


def _subgraph(root: Frame, node: EditorNode) -> str:
    child = root.child(node)
    return child.scope.name if child else ""
