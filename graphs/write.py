"""Serialize a graph to JSON values: native form, or ComfyUI's API form with the graph's inputs filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .schema import VERSION, Graph, GraphInput, InputRef, Link


def native(
    graph: Graph, values: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The native form; ``values`` become the defaults of the graph's inputs, ``meta`` is kept in the file unread."""
    values = values or {}
    document: dict[str, Any] = {"pipegraph": VERSION}
    for key in ("title", "description"):
        if text := getattr(graph, key):
            document[key] = text
    if graph.inputs:
        document["inputs"] = {name: graph_input(port, values) for name, port in graph.inputs.items()}
    document["nodes"] = {
        id: {
            "class_type": use.type,
            **({"title": use.title} if use.title else {}),
            "inputs": {name: _value(value) for name, value in use.inputs.items()},
        }
        for id, use in graph.nodes.items()
    }
    if graph.outputs:
        document["outputs"] = {name: [*link] for name, link in graph.outputs.items()}
    if meta:
        document["meta"] = dict(meta)
    return document


def api(
    graph: Graph, values: Mapping[str, Any] | None = None, index: Callable[[Link], int] | None = None
) -> dict[str, Any]:
    """ComfyUI's API form. Outputs of the graph are lost, its inputs are filled in.

    Args:
        graph: The graph.
        values: Values of the graph's inputs; a missing one takes its default.
        index: Output index of a link; needed if links name outputs.
    """
    filled = {name: port.default for name, port in graph.inputs.items()} | dict(values or {})
    document: dict[str, Any] = {}
    for id, use in graph.nodes.items():
        inputs: dict[str, Any] = {}
        for name, value in use.inputs.items():
            if isinstance(value, InputRef):
                value = filled.get(value.name)
            elif isinstance(value, Link) and index:
                value = Link(value.node, index(value))
            inputs[name] = _value(value)
        document[id] = {"inputs": inputs, "class_type": use.type, "_meta": {"title": use.title or use.type}}
    return document


def _value(value: Any) -> Any:
    if isinstance(value, Link):
        return [*value]
    if isinstance(value, InputRef):
        return {"$input": value.name}
    return {"__value__": value} if isinstance(value, list | dict) else value


def graph_input(port: GraphInput, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An input of the graph as the native form declares it."""
    values = values or {}
    entry: dict[str, Any] = {"type": port.type}
    if port.name in values or not port.required:
        entry["default"] = values.get(port.name, port.default)
    more = {"description": port.description, "min": port.minimum, "max": port.maximum, "choices": port.choices}
    entry |= {k: [*v] if isinstance(v, tuple) else v for k, v in more.items() if v not in (None, "")}
    return entry | ({"multiline": True} if port.multiline else {})
