"""Small files as ComfyUI's editor saves them, and what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.load import load
from pipegraph.graphs.schema import Graph, InputRef
from pipegraph.runtime.catalog import Catalog


@cache
def library() -> Catalog:
    return Catalog.load()


def node(id: int | str, type: str, inputs: Sequence[str] = (), out: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """A node; inputs are ``name TYPE``, then ``*`` if they are of a widget, then the number of their link."""
    return {
        "id": id,
        "type": type,
        "mode": 0,
        "inputs": [_socket(text) for text in inputs],
        "outputs": [{"name": kind, "type": kind, "links": []} for kind in out],
        **more,
    }


def _socket(text: str) -> dict[str, Any]:
    name, kind, *rest = text.split()
    link = next((int(part) for part in rest if part != "*"), None)
    return {"name": name, "type": kind, "link": link, **({"widget": {"name": name}} if "*" in rest else {})}


def file(nodes: Sequence[Mapping[str, Any]], links: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
    """A file of version 0.4; links are ``(id, origin, slot, target, slot, type)``, as texts with spaces between."""
    subgraphs = more.pop("subgraphs", ())
    if subgraphs:
        more["definitions"] = {"subgraphs": [*subgraphs]}
    return {"version": 0.4, "nodes": [*nodes], "links": [_link(link) for link in links], **more}


def _link(text: str) -> list[Any]:
    *numbers, kind = text.split()
    return [*(int(number) for number in numbers), kind]


def subgraph(
    id: str,
    nodes: Sequence[Mapping[str, Any]],
    links: Sequence[str],
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    name: str = "",
) -> dict[str, Any]:
    """A subgraph; its links are objects. Inputs and outputs are ``name TYPE`` and the numbers of their links."""
    keys = ("id", "origin_id", "origin_slot", "target_id", "target_slot", "type")
    return {
        "id": id,
        "version": 1,
        "name": name or id,
        "nodes": [*nodes],
        "links": [dict(zip(keys, _link(link), strict=True)) for link in links],
        "inputs": [_border(text) for text in inputs],
        "outputs": [_border(text) for text in outputs],
    }


def _border(text: str) -> dict[str, Any]:
    name, kind, *links = text.split()
    return {"id": f"uuid-{name}", "name": name, "type": kind, "linkIds": [int(link) for link in links]}


def graph(document: Mapping[str, Any]) -> Graph:
    """The flat graph, values named."""
    return named(load(document, partial=True), library().slots)


def inputs(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The inputs of each node of the flat graph, those of the graph at their defaults; there must be no problem."""
    flat = graph(document)
    assert not flat.problems, flat.problems
    return {
        id: {
            name: flat.inputs[value.name].default if isinstance(value, InputRef) else value
            for name, value in use.inputs.items()
        }
        for id, use in flat.nodes.items()
    }
