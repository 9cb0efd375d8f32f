"""Where the nodes of a graph lie when it is drawn: in layers from left to right, with few crossing links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final, NamedTuple

from pipegraph.graphs.editor.write import Box

GAP_X: Final = 80
GAP_Y: Final = 40
LANE: Final = 14
"""Height of the lane that a link has in a layer that it only passes."""
SWEEPS: Final = 8
Lane = tuple[int, int, int]
"""Where a link passes a layer: left, right, height."""
_Pair = tuple[str, str]
Item = str | tuple[str, str, int]
"""A box, or the lane of a link in a layer: source, reader, number of the layer."""


class Layout(NamedTuple):
    """A placed graph."""

    corners: dict[str, tuple[int, int]]
    """The left upper corner of each box, in pixels."""
    lanes: dict[_Pair, list[Lane]]
    """(source, reader) -> where the links between them pass the layers between, from left to right."""
    size: tuple[int, int]
    """Width and height of all."""


def place(boxes: Mapping[str, Box]) -> dict[str, tuple[int, int]]:
    """The left upper corner of each box, in pixels; a box lies right of all that it reads from."""
    return layout(boxes).corners


def layout(boxes: Mapping[str, Box]) -> Layout:
    """Place boxes and the links between them."""
    readers: dict[str, list[str]] = {id: [] for id in boxes}
    for id, box in boxes.items():
        for source in dict.fromkeys(box.sources):
            if source in readers:
                readers[source].append(id)
    layer_of = _layers(boxes, readers)
    count = max(layer_of.values(), default=-1) + 1
    layers: list[list[Item]] = [[] for _ in range(count)]
    sizes: dict[Item, tuple[int, int]] = {}
    before: dict[Item, list[Item]] = {}
    after: dict[Item, list[Item]] = {}
    for id in boxes:
        layers[layer_of[id]].append(id)
        sizes[id] = boxes[id].width, boxes[id].height
    for source, listed in readers.items():
        for reader in listed:
            chain: list[Item] = [source]
            for number in range(layer_of[source] + 1, layer_of[reader]):
                chain.append((source, reader, number))
                layers[number].append(chain[-1])
                sizes[chain[-1]] = 0, LANE
            chain.append(reader)
            for first, second in pairwise(chain):
                after.setdefault(first, []).append(second)
                before.setdefault(second, []).append(first)
    layers = [layer for layer in layers if layer]
    _order(layers, before, after)
    corners: dict[str, tuple[int, int]] = {}
    lanes: dict[_Pair, list[Lane]] = {}
    heights = [sum(sizes[item][1] + _gap(item) for item in layer) for layer in layers]
    tallest, left, bottom = max(heights, default=0), 0, 0
    for layer, height in zip(layers, heights, strict=True):
        top = (tallest - height) // 2
        width = max(sizes[item][0] for item in layer)
        for item in layer:
            if isinstance(item, str):
                corners[item] = (left, top)
            else:
                lanes.setdefault(item[:2], []).append((left, left + width, top + LANE // 2))
            bottom = max(bottom, top + sizes[item][1])
            top += sizes[item][1] + _gap(item)
        left += width + GAP_X
    return Layout({id: corners[id] for id in boxes}, lanes, (max(0, left - GAP_X), bottom))


def _gap(item: object) -> int:
    return GAP_Y if isinstance(item, str) else 0


def _layers(boxes: Mapping[str, Box], readers: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Each node one layer right of the last it reads from; what reads nothing, next to its first reader."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((id, reader) for id, listed in readers.items() for reader in listed)
    if not nx.is_directed_acyclic_graph(graph):  # a ring is an error elsewhere; here it is drawn
        order = {id: i for i, id in enumerate(boxes)}
        graph.remove_edges_from([(a, b) for a, b in graph.edges if order[a] >= order[b]])
    layer_of = {id: i for i, layer in enumerate(nx.topological_generations(graph)) for id in layer}
    for id in boxes:
        if not graph.in_degree(id) and graph.out_degree(id):
            layer_of[id] = min(layer_of[reader] for reader in graph.successors(id)) - 1
    return layer_of


def _order(
    layers: list[list[Item]], before: Mapping[Item, Sequence[Item]], after: Mapping[Item, Sequence[Item]]
) -> None:
    """Sort each layer by the mean place of its neighbors, back and forth (barycenters)."""
    at = {item: (i + 0.5) / len(layer) for layer in layers for i, item in enumerate(layer)}
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        for layer in layers if forth else reversed(layers):
            neighbors = before if forth else after
            means = {}
            for item in layer:
                places = [at[other] for other in neighbors.get(item, ())]
                means[item] = fmean(places) if places else at[item]
            layer.sort(key=means.__getitem__)
            at |= {item: (i + 0.5) / len(layer) for i, item in enumerate(layer)}
