"""Turn a graph from one form into another: native, ComfyUI's API form, or a file of ComfyUI's editor.

What the other form cannot hold is stored where its readers do not look, so that the way back gives the same graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

from pipegraph.graphs import write
from pipegraph.graphs.editor.document import is_editor
from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.editor.write import editor
from pipegraph.graphs.errors import GraphError, Problem
from pipegraph.graphs.load import parse
from pipegraph.graphs.schema import BAD, Graph, InputRef, Link
from pipegraph.layout import place
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check

Form = Literal["native", "api", "editor"]
FORMS: Final[tuple[Form, ...]] = ("native", "api", "editor")
STORED: Final = "editor"
"""Key in ``meta`` of a native file: the file of the editor that it was converted from."""


class Converted(NamedTuple):
    """A document of the wanted form."""

    document: dict[str, Any]
    notes: list[str]
    """What could not be kept or filled in, in sentences."""


def convert(graph: Graph, to: Form, catalog: Catalog) -> Converted:
    """The graph in another form, or the same one; doing it again changes nothing.

    Raises:
        GraphError: the file has faults, or values whose names are not known.
    """
    graph = named(graph, catalog.slots, strict=True)
    if graph.problems:
        raise GraphError(graph.problems, graph.unlisted)
    if to == "native":
        meta = dict(graph.meta)
        if graph.form == "editor":
            meta[STORED] = graph.workflow
        return Converted(write.native(_with_output_names(graph, catalog), meta=meta), [])
    notes: list[str] = []
    if to == "editor":
        original = graph.workflow if graph.form == "editor" else graph.meta.get(STORED)
        if isinstance(original, Mapping) and is_editor(original):
            if graph.form == "editor" or _same(graph, named(parse(original), catalog.slots), catalog):
                return Converted(dict(original), [])
            notes.append(
                "the graph was changed since it was converted from the editor's form: subgraphs are unfolded, and "
                "notes and places of nodes are lost"
            )
    filled, lacking = _filled(graph, catalog)
    if lacking:
        notes.append(f"no value is known for {', '.join(lacking)}: the models that recommend them are not here")
    if to == "editor":
        return Converted(editor(graph, catalog.facts, place, filled), notes)
    nodes = {}
    for id, use in graph.nodes.items():
        values = {name: filled.get((id, name), value) for name, value in use.inputs.items()}
        nodes[id] = use._replace(inputs=values)
    values = {name: filled.get(("", name), port.default) for name, port in graph.inputs.items()}
    return Converted(write.api(replace(graph, nodes=nodes), values, lambda link: _index(graph, link, catalog)), notes)


def _filled(graph: Graph, catalog: Catalog) -> tuple[dict[tuple[str, str], Any], list[str]]:
    """Values for what ComfyUI cannot read, by node and input: ``auto``, and seeds to be drawn (0); what has none."""
    filled: dict[tuple[str, str], Any] = {}
    autos: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for use in graph.nodes.values():
        entry = catalog.entries.get(use.type)
        for name, value in use.inputs.items() if entry else ():
            port = entry.spec.inputs.get(name) if entry else None
            at = (use.id, name)
            if isinstance(value, InputRef):
                at, value = ("", value.name), graph.inputs[value.name].default
            if port and port.seed and value in (None, "random"):
                filled[at] = 0
            elif port and port.auto and value == "auto":
                autos.setdefault(at, []).append((use.id, name))
    resolved: Mapping[str, Any] = {}
    if autos:
        try:
            resolved = check(graph, catalog, {n: 0 for (id, n), v in filled.items() if not id}).autos
        except GraphError:  # files that are not here; the values stay as they are
            resolved = {}
    known = {(id, r.input): r.value for id, listed in resolved.items() for r in listed}
    lacking = []
    for at, readers in autos.items():
        values = [known[reader] for reader in readers if reader in known]
        if values and all(value == values[0] for value in values):
            filled[at] = values[0]
        else:
            lacking.append(".".join(filter(None, at)))
    return filled, lacking


def _with_output_names(graph: Graph, catalog: Catalog) -> Graph:
    """The graph with outputs named in its links where their node is known: it is easier to read and to edit."""

    def renamed(value: Any) -> Any:
        if isinstance(value, Link) and isinstance(value.output, int) and value.node in graph.nodes:
            entry = catalog.entries.get(graph.nodes[value.node].type)
            if entry and value.output < len(entry.output_index):
                return Link(value.node, [*entry.output_index][value.output])
        return value

    nodes = {
        id: use._replace(inputs={name: renamed(value) for name, value in use.inputs.items() if value is not BAD})
        for id, use in graph.nodes.items()
    }
    return replace(graph, nodes=nodes, outputs={name: renamed(link) for name, link in graph.outputs.items()})


def _same(graph: Graph, other: Graph, catalog: Catalog) -> bool:
    """Whether two graphs have the same nodes, links, values, inputs and outputs."""
    first, second = (_with_output_names(g, catalog) for g in (graph, other))
    nodes = [{id: (use.type, use.title, dict(use.inputs)) for id, use in g.nodes.items()} for g in (first, second)]
    return nodes[0] == nodes[1] and first.inputs == second.inputs and first.outputs == second.outputs


def _index(graph: Graph, link: Link, catalog: Catalog) -> int:
    if isinstance(link.output, int):
        return link.output
    entry = catalog.entries.get(graph.nodes[link.node].type) if link.node in graph.nodes else None
    if entry is None or link.output not in entry.output_index:
        message = f'the node "{link.node}" is not known, and so is not which of its outputs is "{link.output}"'
        raise GraphError([Problem(code="unknown_output", message=message, node=link.node)])
    return entry.output_index[link.output]
