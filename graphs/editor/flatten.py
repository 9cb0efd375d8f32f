"""A file of the editor as a flat graph: what ComfyUI's editor would send, with every link and value kept or named.

Values that stand by position have no names yet: ``naming`` gives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ..errors import Problems, shown
from ..plain import plain
from ..schema import BAD, Editor, FileSource, Graph, InputRef, Link, NodeUse, Widgets
from .document import BYPASSED, MUTED, NOTES, Document, EditorNode, mapping
from .frames import FORM_WORDS, Frame, stored
from .groups import is_group
from .inputs import filled_in, offered
from .nesting import fits
from .sources import GET, VIRTUAL, Lost, Value, Walker

_UUID: Final = frozenset("0123456789abcdef-")


def flatten(document: Document, problems: Problems, source: str = "") -> Graph:
    """The flat graph, nodes by ids such as ``57:8``, and what naming needs; faults are added to ``problems``."""
    if not fits(document, problems, source):
        return Graph({}, form="editor", source=source)
    return replace(_Flattening(document, problems).run(), source=source)


def file_sources(node: EditorNode) -> Iterator[FileSource]:
    """The models that a node names with their addresses."""
    listed = node.properties.get("models")
    for entry in listed if isinstance(listed, list) else ():
        name, folder, url = (str(mapping(entry).get(key, "")) for key in ("name", "directory", "url"))
        if name and url:
            known = str(mapping(entry).get("hash_type", "")).lower() == "sha256"
            yield FileSource(name, folder, url, str(mapping(entry).get("hash", "")).lower() if known else "")


class _Flattening:
    def __init__(self, document: Document, problems: Problems) -> None:
        self.problems = problems
        self.root = Frame(document, problems, document.root, None, None)
        self.walker = Walker()
        self.nodes: dict[str, NodeUse] = {}
        self.widgets: dict[str, Widgets] = {}
        self.lost: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        self.files: dict[FileSource, None] = {}

    def run(self) -> Graph:
        inputs = offered(self.root, self.root.document.extra)
        waiting = [self.root]
        while waiting:
            frame = waiting.pop()
            inner = []
            for node in frame.scope.nodes.values():
                self.counts["nodes"] += 1
                self.files |= dict.fromkeys(file_sources(node))
                if node.type in VIRTUAL:
                    self.virtual(frame, node)
                elif node.mode in (MUTED, BYPASSED):
                    self.counts["muted" if node.mode == MUTED else "bypassed"] += 1
                    self.widgets[frame.flat(node.id)] = self.values(frame, node)
                elif child := frame.child(node):
                    self.counts["subgraphs"] += 1
                    self.borders(frame, node, child)
                    inner.append(child)
                else:
                    self.leaf(frame, node)
            waiting += reversed(inner)
        ours = stored(self.root.document.extra)
        notes, filled = self.root.document.notes, filled_in(self.root)
        return Graph(
            self.nodes,
            inputs,
            {name: link for name, end in mapping(ours.get("outputs")).items() if (link := self.output(end))},
            title=text if isinstance(text := ours.get("title"), str) else "",
            description=text if isinstance(text := ours.get("description"), str) else "",
            form="editor",
            editor=Editor(self.widgets, self.lost, dict(self.counts), notes, filled, tuple(self.files)),
        )

    def output(self, end: Any) -> Link | None:
        """An output of the graph, ``[node, number of its output]``."""
        if isinstance(end, list) and len(end) == 2 and str(end[0]) in self.root.scope.nodes and type(end[1]) is int:
            return Link(self.root.flat(str(end[0])), end[1])
        return None

    def virtual(self, frame: Frame, node: EditorNode) -> None:
        self.counts["notes" if node.type in NOTES else "editor only"] += 1
        if node.type == GET and not node.values:
            self.bad("bad_graph", frame, node, "a GetNode without a name")

    def borders(self, frame: Frame, node: EditorNode, child: Frame) -> None:
        """Links of an instance into inputs that its subgraph does not have."""
        names = {border.name for border in child.scope.inputs}
        for socket in node.inputs:
            if socket.link is not None and socket.name not in names and not is_group(node.type):
                message = f'the subgraph has no input "{socket.name}", and a link leads there'
                self.bad("bad_link", frame, node, message, socket.label or socket.name)

    def leaf(self, frame: Frame, node: EditorNode) -> None:
        id = frame.flat(node.id)
        if len(node.type) == 36 and node.type.count("-") == 4 and _UUID.issuperset(node.type):
            message = "the file does not hold the subgraph that this node stands for"
            self.bad("unknown_subgraph", frame, node, message, got=node.type)
            self.nodes[id] = NodeUse(id, "", {}, node.title, frame.within)
            return
        inputs: dict[str, Any] = {}
        for number, socket in enumerate(node.inputs):
            if socket.link is None:
                continue
            self.counts["links"] += 1
            source = self.walker.source(frame, node, number)
            if isinstance(source, Lost):
                self.lose(frame, node, socket.name, source)
                if not source.meant:
                    inputs[socket.name] = BAD
            elif isinstance(source, Link):
                self.counts["links kept"] += 1
                inputs[socket.name] = source
            else:
                self.counts["links to values"] += 1
                if isinstance(source, Value):
                    inputs[socket.name] = self.value(frame, node, socket.name, source.value)
                elif source is not None and source != (id, socket.widget):
                    inputs[socket.name] = source
        self.counts["nodes kept"] += 1
        self.nodes[id] = NodeUse(id, node.type, inputs, node.title, frame.within)
        self.widgets[id] = self.values(frame, node)

    def lose(self, frame: Frame, node: EditorNode, name: str, lost: Lost) -> None:
        self.counts["links dropped" if lost.meant else "links broken"] += 1
        if lost.meant:
            self.lost[frame.flat(node.id), name] = lost.reason
        else:
            self.bad("bad_link", frame, node, f"nothing comes in: {lost.reason}", name)

    def values(self, frame: Frame, node: EditorNode) -> Widgets:
        """The values of a node's widgets, as far as they have names already."""
        listed = frame.by_position.get(node.id, node.values)
        named = None
        if node.named is not None:
            named = {k: self.value(frame, node, k, v) for k, v in node.named.items() if k not in FORM_WORDS}
        promoted = {name: value for (id, name), value in frame.inner.items() if id == node.id} if frame.inner else {}
        if named is not None:
            listed = ()
        return Widgets(
            type=node.type,
            title=node.title,
            within=frame.within,
            values=tuple(self.value(frame, node, "", v) for v in listed),
            named=named,
            promoted={name: self.value(frame, node, name, value) for name, value in promoted.items()},
            sockets=tuple((s.name, s.type, s.widget is not None, s.link is not None) for s in node.inputs),
        )

    def value(self, frame: Frame, node: EditorNode, name: str, value: Any) -> Any:
        """A JSON value."""
        if isinstance(value, InputRef):
            return value
        if isinstance(value, Mapping) and value.keys() == {"__value__"}:
            value = value["__value__"]
        try:
            return plain(value)
        except ValueError as e:
            self.bad("bad_value", frame, node, str(e), name, got=shown(value))
            return BAD

    def bad(self, code: str, frame: Frame, node: EditorNode, message: str, input: str = "", **more: Any) -> None:
        title = " / ".join(filter(None, (frame.within, node.title or node.type)))
        self.problems.add(code, message, node=frame.flat(node.id), title=title, input=input, **more)
