"""Subgraphs in use: each instance with the values that it gives to what is inside, at any depth.

An instance gives a value to an input of its subgraph that leads to a widget inside. Newer files keep these values in
the order of the inputs; older ones list ``proxyWidgets``, pairs of an inner node and the name of its widget.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..errors import Problems, shown
from ..schema import WidgetValue
from .document import ENTRY, Document, EditorNode, Scope
from .groups import is_group, scope_of

FORM_WORDS: Final = ("control_after_generate", "control_filter_list")
"""Widgets that only the editor has: what becomes of a seed after each run."""


class Frame:
    """The graph of the file, or one instance of a subgraph."""

    def __init__(
        self, document: Document, problems: Problems, scope: Scope, host: EditorNode | None, parent: Frame | None
    ) -> None:
        self.document, self.problems, self.scope, self.host, self.parent = document, problems, scope, host, parent
        self.path: str = f"{parent.path}{host.id}:" if parent and host else ""
        self.depth: int = parent.depth + 1 if parent else 0
        self.values: dict[int, Any] = {}
        """Values for inputs of the subgraph, by their number."""
        self.inner: dict[tuple[str, str], Any] = {}
        """Values for widgets inside, by node and name."""
        self.own_ids = _own_ids(scope) if parent is None else {}
        """Ids that our own form gave to nodes of the file."""
        self.by_position: Mapping[str, tuple[Any, ...]] = {}
        """Values for the widgets of inner nodes, of a group node."""
        self._children: dict[str, Frame | None] = {}
        self._entries: dict[int, list[int]] | None = None
        if host:
            title = host.title or scope.name or host.type
            self.within: str = f"{parent.within} / {title}" if parent and parent.within else title
            self._take_values(host)
        else:
            self.within = ""

    def flat(self, node: str) -> str:
        """The id of an inner node in the flat graph, such as ``57:8``."""
        return self.own_ids.get(node, self.path + node)

    def child(self, node: EditorNode) -> Frame | None:
        """The inside of a node, or None if it is no instance of a subgraph."""
        if node.id not in self._children:
            scope = self.document.subgraphs.get(node.type)
            by_position: Mapping[str, tuple[Any, ...]] = {}
            if scope is None and (group := scope_of(node, self.document.groups, self.problems)):
                scope, by_position = group
            frame = Frame(self.document, self.problems, scope, node, self) if scope else None
            if frame:
                frame.by_position = by_position
            self._children[node.id] = frame
        return self._children[node.id]

    def input_of(self, border: int) -> int | None:
        """The number, among the inputs that the instance lists, of an input of its subgraph; lists may be shortened."""
        name = self.scope.inputs[border].name
        host = self.host
        return next((i for i, socket in enumerate(host.inputs) if socket.name == name), None) if host else None

    def targets(self, border: int) -> Iterator[tuple[EditorNode, int]]:
        """The inner nodes, and the numbers of their inputs, that an input of the subgraph leads to."""
        links = self.scope.links
        listed = self.scope.inputs[border].links
        if not any(id in links for id in listed):
            if self._entries is None:
                self._entries = {}
                for link in links.values():
                    if link.origin == ENTRY:
                        self._entries.setdefault(link.slot, []).append(link.id)
            listed = tuple(self._entries.get(border, ()))
        for link in (links[id] for id in listed if id in links):
            node = self.scope.nodes.get(link.target)
            if node is not None:
                yield from ((node, i) for i, socket in enumerate(node.inputs) if socket.link == link.id)

    def widget(self, border: int) -> WidgetValue | tuple[Any] | None:
        """Value of a subgraph input that is not linked outside.

        That is the value of the first widget that it leads to: a reference, or the value alone in a tuple.
        """
        if border in self.values:
            return (self.values[border],)
        for node, number in self.targets(border):
            socket = node.inputs[number]
            child = self.child(node)
            if child is None:
                if socket.widget is not None:
                    return WidgetValue(self.flat(node.id), socket.widget)
            elif (inner := child.border(socket.name)) is not None and (value := child.widget(inner)) is not None:
                return value
        return None

    def border(self, name: str) -> int | None:
        """The number of the subgraph's input of this name."""
        return next((i for i, border in enumerate(self.scope.inputs) if border.name == name), None)

    # The values that the instance gives

    def _take_values(self, host: EditorNode) -> None:
        proxies = proxies_of(host)
        named = {name: value for name, value in (host.named or {}).items() if name not in FORM_WORDS}
        if proxies:
            for (node, name), value in zip(proxies, host.values, strict=False):
                if value is not None:
                    self._give(node, name, value)
        elif named:
            for name, value in named.items():
                if (border := self.border(name)) is not None:
                    self.values[border] = value
        elif host.values and not is_group(host.type):
            slots = [i for i in range(len(self.scope.inputs)) if self.widget(i) is not None]
            if len(host.values) > len(slots):
                message = f"the subgraph has {len(slots)} inputs with widgets, and the file {len(host.values)} values"
                more: dict[str, Any] = {
                    "node": self.path[:-1],
                    "title": self.within,
                    "got": ", ".join(shown(value, 20) for value in host.values[:12]),
                }
                self.problems.add("unnamed_values", message, **more)
            self.values |= {i: v for i, v in zip(slots, host.values, strict=False) if v is not None}
        for entry in _dicts(host.properties.get("proxyWidgetErrorQuarantine")):
            pair = _pairs([entry.get("originalEntry")])
            if pair and pair[0][0] == "-1" and entry.get("hostValue") is not None:
                self._give(*pair[0], entry["hostValue"])
        if self.parent:
            for (node, name), value in self.parent.inner.items():
                if node == host.id:
                    self.hand_down(name, value)

    def _give(self, node: str, name: str, value: Any) -> None:
        """A value for a widget: of an inner node, or of the instance's own input (``-1``)."""
        if name in FORM_WORDS or name.startswith("$$"):
            return
        if node == "-1":
            border = self.border(name)
        else:
            borders = range(len(self.scope.inputs))
            border = next((i for i in borders if self.leads_to(i, node, name)), None)
        if border is not None:
            self.values[border] = value
        else:
            self.inner[node, name] = value

    def leads_to(self, border: int, node: str, widget: str) -> bool:
        """Whether an input of the subgraph leads to a widget of an inner node."""
        return any(n.id == node and n.inputs[i].widget == widget for n, i in self.targets(border))

    def hand_down(self, name: str, value: Any) -> None:
        """A value that an outer instance gives to a widget of this one."""
        border = self._shown_as(name)
        if border is not None:
            self.values[border] = value
        elif node := self._proxied(name):
            self._give(node, name, value)

    def named(self, name: str) -> Any:
        """The value of a widget of this instance: itself, or where it will be known; None if it has no such widget."""
        border = self._shown_as(name)
        if border is not None:
            value = self.widget(border)
            return value if value is None or isinstance(value, WidgetValue) else value[0]
        node = self._proxied(name)
        return self.inner.get((node, name), WidgetValue(self.flat(node), name)) if node else None

    def _shown_as(self, name: str) -> int | None:
        """The number of the input that shows a widget of this name."""
        border = self.border(name)
        if border is None:
            ends = [(i, self.widget(i)) for i in range(len(self.scope.inputs))]
            border = next((i for i, end in ends if isinstance(end, WidgetValue) and end.widget == name), None)
        return border

    def _proxied(self, name: str) -> str | None:
        """The inner node whose widget of this name is shown by no input."""
        proxies = proxies_of(self.host) if self.host else []
        return next((node for node, widget in proxies if widget == name), None)


def stored(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``editor.write`` has put into the properties of a node, or the ``extra`` of a file."""
    value = holder.get("pipegraph")
    return value if isinstance(value, Mapping) else {}


def _own_ids(scope: Scope) -> dict[str, str]:
    """Texts that were the ids of nodes in our own form, by their numbers; those that would be there twice are not."""
    ids = {node.id: id for node in scope.nodes.values() if type(id := stored(node.properties).get("id")) is str}
    every = Counter([*ids.values(), *(id for id in scope.nodes if id not in ids)])
    return {number: id for number, id in ids.items() if every[id] == 1}


def proxies_of(host: EditorNode) -> list[tuple[str, str]]:
    """Pairs of an inner node and its widget, by which older files promote widgets."""
    return _pairs(host.properties.get("proxyWidgets"))


def _pairs(listed: Any) -> list[tuple[str, str]]:
    """``proxyWidgets``: a list, or the text of one."""
    if isinstance(listed, str):
        try:
            listed = json.loads(listed)
        except (ValueError, RecursionError):
            return []
    pairs = []
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, list) and len(entry) >= 2 and isinstance(entry[1], str):
            pairs.append((str(entry[0]), entry[1]))
    return pairs


def _dicts(listed: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
