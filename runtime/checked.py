"""A checked graph: the result of checking and the input of planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pipegraph.access import Access
from pipegraph.graphs.errors import GraphError, Problem
from pipegraph.graphs.schema import Graph

from .catalog import Catalog, Entry


@dataclass(frozen=True, slots=True)
class Resolved:
    """The value of an ``auto``."""

    node: str
    input: str
    key: str
    """The recommendation, e.g. ``steps``."""
    value: Any
    source: str
    """Id of the loader whose model recommends it, or ``default`` for the node's own default."""


class CheckedNode(NamedTuple):
    """A node whose inputs are all valid."""

    id: str
    title: str
    entry: Entry
    values: Mapping[str, Any]
    """Literal inputs, including defaults, in port order."""
    links: Sequence[tuple[str, str, int]]
    """(input, node id, output index), in port order."""
    files: Mapping[str, Sequence[Path]]
    """Input -> its files and folders."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CheckedGraph:
    """A graph that can be planned."""

    graph: Graph
    """The loaded graph with overrides."""
    catalog: Catalog
    nodes: Mapping[str, CheckedNode]
    """All nodes in topological order."""
    roots: Sequence[str]
    """Nodes that must run: sources of graph outputs, and output nodes."""
    inputs: Mapping[str, Any]
    """Value of each graph input, converted, seeds drawn; ``auto`` stays ``auto``."""
    outputs: Mapping[str, tuple[str, int]]
    """Graph output -> node id, output index."""
    seeds: Mapping[str, int]
    """Seeds that were drawn, by graph input or ``node.input``."""
    access: Access
    """Files that the run may read, and the resolved names."""
    notes: Sequence[Problem] = ()
    """Parts of a graph in one of ComfyUI's forms that were left out."""
    autos: Mapping[str, Sequence[Resolved]] = field(default_factory=dict)
    """Resolved ``auto`` values by node id."""

    def __repr__(self) -> str:
        return f"<CheckedGraph of {len(self.nodes)} nodes: outputs {', '.join(self.outputs) or 'none'}>"

    def outputs_only(self) -> CheckedGraph:
        """Restrict the run to the graph's outputs: no output nodes, nothing is saved.

        Raises:
            GraphError: there are no outputs, or one needs a node that saves.
        """
        if not self.outputs:
            message = "the graph has no outputs, so a run that saves nothing gives nothing"
            hint = 'Add "outputs" to the graph, or let it save.'
            raise GraphError([Problem(code="no_outputs", message=message, hint=hint)])
        only = replace(self, roots=tuple(dict.fromkeys(id for id, _ in self.outputs.values())))
        saving = [node for node in only.needed()[0] if node.entry.spec.saves]
        if saving:
            message, hint = (
                "an output of the graph needs this node, which saves",
                "Take the output from a node before it.",
            )
            problem = Problem(code="output_saves", message=message, hint=hint)
            raise GraphError([replace(problem, node=node.id, title=node.title) for node in saving])
        return only

    def needed(self) -> tuple[list[CheckedNode], set[str]]:
        """Nodes that the roots may need, in order, and the ids of those that run for certain (by no lazy link)."""
        needed, eager = set(self.roots), set(self.roots)
        nodes = []
        for id in reversed([*self.nodes]):
            if id not in needed:
                continue
            node = self.nodes[id]
            nodes.append(node)
            certain = id in eager
            ports = node.entry.spec.inputs
            for name, source, _ in node.links:
                needed.add(source)
                if certain and not ports[name].lazy:
                    eager.add(source)
        nodes.reverse()
        return nodes, eager
