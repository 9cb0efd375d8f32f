"""What a drawn graph shows and where: boxes of nodes with their values, links between sockets, frames of subgraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pipegraph.graphs.editor.write import Box
from pipegraph.graphs.errors import shown
from pipegraph.graphs.schema import BAD, Graph, InputRef, Link, NodeUse
from pipegraph.layout import Lane, layout
from pipegraph.runtime.catalog import Catalog

from .clusters import Cluster, clusters

WIDTH: Final = 250
TITLE, ROW, MARGIN, FRAME = 40, 18, 20, 26
"""Heights in pixels: a node's head, a line in it, the space around what is drawn, the title of a frame."""
MOST_VALUES: Final = 12
MOST_LETTERS: Final = 38
MARKS: Final = {"missing": "#c62828", "error": "#c62828", "cached": "#2e7d32", "not needed": "#9e9e9e"}
"""What may be said of a node, and its color."""


class Node(NamedTuple):
    """A box with its texts; ``lines`` are values, sockets are at the height of their line."""

    id: str
    title: str
    subtitle: str
    x: int
    y: int
    height: int
    inputs: Sequence[str]
    outputs: Sequence[str]
    lines: Sequence[str]
    mark: str = ""


class Edge(NamedTuple):
    """A link from the right side of one node to the left side of another."""

    start: tuple[int, int]
    end: tuple[int, int]
    type: str
    lanes: Sequence[Lane] = ()
    """Where it passes other nodes: left, right, height."""


class Frame(NamedTuple):
    """The box of a subgraph or a group."""

    title: str
    x: int
    y: int
    width: int
    height: int


class Scene(NamedTuple):
    """A whole drawing."""

    title: str
    width: int
    height: int
    frames: Sequence[Frame]
    edges: Sequence[Edge]
    nodes: Sequence[Node]


def scene(graph: Graph, catalog: Catalog, marks: Mapping[str, str] | None = None) -> Scene:
    """Lay out a graph.

    Args:
        graph: What to draw, values named.
        catalog: The nodes there are; it tells the names of outputs.
        marks: Node id -> one of ``MARKS``.
    """
    marks = marks or {}
    nodes = {use.id: _node(graph, use, catalog, marks.get(use.id, "")) for use in graph.nodes.values()}
    sources = {
        use.id: [v.node for v in use.inputs.values() if isinstance(v, Link) and v.node in nodes]
        for use in graph.nodes.values()
    }
    paths = clusters(graph)
    arranged = _arranged([*nodes], nodes, sources, paths, 0).moved(MARGIN, MARGIN)
    placed = {id: node._replace(x=arranged.corners[id][0], y=arranged.corners[id][1]) for id, node in nodes.items()}
    edges = [edge for use in graph.nodes.values() for edge in _edges(use, placed, graph, catalog, paths, arranged)]
    size, frames = arranged.size, arranged.frames
    width, height = size[0] + 2 * MARGIN, size[1] + 2 * MARGIN
    return Scene(graph.title or graph.source, width, height, frames, edges, [*placed.values()])


def _node(graph: Graph, use: NodeUse, catalog: Catalog, mark: str) -> Node:
    entry = catalog.entries.get(use.type)
    linked = [name for name, value in use.inputs.items() if isinstance(value, Link)]
    outputs = [*entry.output_index] if entry else _used_outputs(graph, use.id)
    values = [
        f"{name}: {f'${value.name}' if isinstance(value, InputRef) else shown(value, MOST_LETTERS)}"
        for name, value in use.inputs.items()
        if not isinstance(value, Link) and value is not BAD
    ]
    if len(values) > MOST_VALUES:
        values = [*values[: MOST_VALUES - 1], f"... {len(values) - MOST_VALUES + 1} more"]
    lines = [_cut(" ".join(text.split())) for text in values]
    title = use.title or (entry.spec.title if entry else use.type)
    subtitle = use.id if title == use.type else f"{use.type} · {use.id}"
    rows = max(len(linked), len(outputs)) + len(lines)
    return Node(use.id, _cut(title, 30), _cut(subtitle), 0, 0, TITLE + ROW * rows + 10, linked, outputs, lines, mark)


def _used_outputs(graph: Graph, id: str) -> list[str]:
    """Outputs of a node of a type that is not known, as far as links name or count them."""
    used = {
        v.output for use in graph.nodes.values() for v in use.inputs.values() if isinstance(v, Link) and v.node == id
    }
    count = max((output + 1 for output in used if isinstance(output, int)), default=0)
    return [*map(str, range(count)), *sorted(output for output in used if isinstance(output, str))]


class _Arranged(NamedTuple):
    """Nodes that are placed, with the frames around them and the lanes of links between them."""

    corners: dict[str, tuple[int, int]]
    frames: list[Frame]
    lanes: dict[tuple[str, str], list[Lane]]
    """By nodes or frames that lie in the same frame."""
    size: tuple[int, int]

    def moved(self, dx: int, dy: int) -> _Arranged:
        return _Arranged(
            {id: (x + dx, y + dy) for id, (x, y) in self.corners.items()},
            [frame._replace(x=frame.x + dx, y=frame.y + dy) for frame in self.frames],
            {ends: [(a + dx, b + dx, y + dy) for a, b, y in lanes] for ends, lanes in self.lanes.items()},
            self.size,
        )


def _arranged(
    ids: Sequence[str],
    nodes: Mapping[str, Node],
    sources: Mapping[str, Sequence[str]],
    paths: Mapping[str, tuple[Cluster, ...]],
    depth: int,
) -> _Arranged:
    """Place nodes; what lies in a frame is laid out by itself, then as one box."""
    members: dict[str, list[str]] = {}
    for id in ids:
        members.setdefault(_owner(paths, id, depth), []).append(id)
    owner = {id: key for key, listed in members.items() for id in listed}
    parts: dict[str, _Arranged] = {}
    boxes: dict[str, Box] = {}
    for key, listed in members.items():
        read = [owner[s] for id in listed for s in sources[id] if s in owner and owner[s] != key]
        if key in nodes:
            boxes[key] = Box(WIDTH, nodes[key].height, read)
            continue
        parts[key] = _arranged(listed, nodes, sources, paths, depth + 1)
        width, height = parts[key].size
        boxes[key] = Box(width + 2 * MARGIN, height + FRAME + 2 * MARGIN, read)
    corners, lanes, size = layout(boxes)
    whole = _Arranged({}, [], dict(lanes), size)
    for key, (x, y) in corners.items():
        if key in nodes:
            whole.corners[key] = (x, y)
            continue
        title = paths[members[key][0]][depth].title
        whole.frames.append(Frame(title, x, y, boxes[key].width, boxes[key].height))
        inside = parts[key].moved(x + MARGIN, y + MARGIN + FRAME)
        whole.corners.update(inside.corners)
        whole.frames.extend(inside.frames)
        whole.lanes.update(inside.lanes)
    return whole


def _owner(paths: Mapping[str, tuple[Cluster, ...]], id: str, depth: int) -> str:
    """The frame at a depth that a node lies in, or the node itself."""
    return f"frame {paths[id][depth].id}" if len(paths[id]) > depth else id


def _edges(
    use: NodeUse,
    placed: Mapping[str, Node],
    graph: Graph,
    catalog: Catalog,
    paths: Mapping[str, tuple[Cluster, ...]],
    arranged: _Arranged,
) -> list[Edge]:
    node, edges = placed[use.id], []
    for row, name in enumerate(node.inputs):
        link = use.inputs[name]
        source = placed.get(link.node)
        if source is None:
            continue
        entry = catalog.entries.get(graph.nodes[link.node].type)
        names = [*entry.output_index] if entry else source.outputs
        number = names.index(link.output) if link.output in names else link.output
        if not isinstance(number, int) or number >= len(source.outputs):
            continue
        kind = entry.output_types[number] if entry else "*"
        start = source.x + WIDTH, source.y + TITLE + ROW * number + ROW // 2
        depth = 0  # of the frames that both ends lie in
        while _owner(paths, use.id, depth) == _owner(paths, link.node, depth) and use.id != link.node:
            depth += 1
        lanes = arranged.lanes.get((_owner(paths, link.node, depth), _owner(paths, use.id, depth)), ())
        edges.append(Edge(start, (node.x, node.y + TITLE + ROW * row + ROW // 2), kind, lanes))
    return edges


def _cut(text: str, most: int = MOST_LETTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
