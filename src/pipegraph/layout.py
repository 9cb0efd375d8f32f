"""Where the nodes of a graph lie when it is drawn: in layers from left to right, with few crossing links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from pipegraph.graphs.editor.write import Box

GAP_X: Final = 80
GAP_Y: Final = 40
SWEEPS: Final = 8


def place(boxes: Mapping[str, Box]) -> dict[str, tuple[int, int]]:
    """The left upper corner of each box, in pixels; a box lies right of all that it reads from."""
    readers: dict[str, list[str]] = {id: [] for id in boxes}
    for id, box in boxes.items():
        for source in dict.fromkeys(box.sources):
            if source in readers:
                readers[source].append(id)
    layers = _ordered(_layers(boxes, readers), boxes, readers)
    corners: dict[str, tuple[int, int]] = {}
    tallest = max((_height(layer, boxes) for layer in layers), default=0)
    left = 0
    for layer in layers:
        top = (tallest - _height(layer, boxes)) // 2
        for id in layer:
            corners[id] = (left, top)
            top += boxes[id].height + GAP_Y
        left += max(boxes[id].width for id in layer) + GAP_X
    return {id: corners[id] for id in boxes}


def _layers(boxes: Mapping[str, Box], readers: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Each node one layer right of the last it reads from; what reads nothing, next to its first reader."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((id, reader) for id, listed in readers.items() for reader in listed)
    if not nx.is_directed_acyclic_graph(graph):  # a ring is an error elsewhere; here it is drawn
        order = {id: i for i, id in enumerate(boxes)}
        graph.remove_edges_from([(a, b) for a, b in graph.edges if order[a] >= order[b]])
    layer_of = {id: i for i, layer in enumerate(nx.topological_generations(graph)) for id in layer}
    for id in reversed([*nx.topological_sort(graph)]):
        if not graph.in_degree(id) and graph.out_degree(id):
            layer_of[id] = min(layer_of[reader] for reader in graph.successors(id)) - 1
    layers: dict[int, list[str]] = {}
    for id in boxes:
        layers.setdefault(layer_of[id], []).append(id)
    return [layers[number] for number in sorted(layers)]


def _ordered(
    layers: list[list[str]], boxes: Mapping[str, Box], readers: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """The layers with their nodes sorted by the mean place of their neighbours, back and forth (barycentres)."""
    for sweep in range(SWEEPS):
        at = {id: (i + 0.5) / len(layer) for layer in layers for i, id in enumerate(layer)}
        numbers = range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers)))
        for number in numbers:
            layer = layers[number]
            means = {}
            for id in layer:
                neighbours = boxes[id].sources if sweep % 2 == 0 else readers[id]
                places = [at[other] for other in neighbours if other in at]
                means[id] = fmean(places) if places else at[id]
            layer.sort(key=means.__getitem__)
            at |= {id: (i + 0.5) / len(layer) for i, id in enumerate(layer)}
    return layers


def _height(layer: Sequence[str], boxes: Mapping[str, Box]) -> int:
    return sum(boxes[id].height + GAP_Y for id in layer) - GAP_Y
