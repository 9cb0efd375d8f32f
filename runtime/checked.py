"""A graph that was compared with the catalogue: what checking gives, and what planning takes."""

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
    """What an ``auto`` became."""

    node: str
    input: str
    key: str
    """What was asked for, e.g. ``steps``."""
    value: Any
    source: str
    """Id of the loader whose model recommends it, or ``default`` where the node's own default counts."""


class CheckedNode(NamedTuple):
    """A node whose inputs are all known to fit."""

    id: str
    title: str
    entry: Entry
    values: Mapping[str, Any]
    """Inputs that are no links, defaults included, in the order of the ports."""
    links: Sequence[tuple[str, str, int]]
    """(input, node id, number of its output), in the order of the ports."""
    files: Mapping[str, Sequence[Path]]
    """Input -> files and folders that it names."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CheckedGraph:
    """A graph that can be planned."""

    graph: Graph
    """As loaded, with overrides put in."""
    catalog: Catalog
    nodes: Mapping[str, CheckedNode]
    """All nodes, each after those it reads from."""
    roots: Sequence[str]
    """Nodes that must run: those that outputs name, and output nodes."""
    inputs: Mapping[str, Any]
    """Value of each graph input, converted, seeds drawn; ``auto`` stays ``auto``."""
    outputs: Mapping[str, tuple[str, int]]
    """Name of an output of the graph -> node id, number of its output."""
    seeds: Mapping[str, int]
    """Seeds that were drawn, by graph input or ``node.input``."""
    access: Access
    """What the run may read, and where the names in it lead."""
    autos: Mapping[str, Sequence[Resolved]] = field(default_factory=dict)
    """By node id, what each ``auto`` of the nodes that may run became."""

    def __repr__(self) -> str:
        return f"<CheckedGraph of {len(self.nodes)} nodes: outputs {', '.join(self.outputs) or 'none'}>"

    def outputs_only(self) -> CheckedGraph:
        """The same, of which only what the graph's outputs need is run: no output nodes, nothing is saved.

        Raises:
            GraphError: it has no outputs, or one of them needs a node that saves.
        """
        if not self.outputs:
            what = "the graph has no outputs, so a run that saves nothing gives nothing"
            hint = 'Add "outputs" to the graph, or let it save.'
            raise GraphError([Problem(code="no_outputs", message=what, hint=hint)])
        only = replace(self, roots=tuple(dict.fromkeys(id for id, _ in self.outputs.values())))
        saving = [node for node in only.needed()[0] if node.entry.spec.saves]
        if saving:
            what, hint = "an output of the graph needs this node, which saves", "Take the output from a node before it."
            problem = Problem(code="output_saves", message=what, hint=hint)
            raise GraphError([replace(problem, node=node.id, title=node.title) for node in saving])
        return only

    def needed(self) -> tuple[list[CheckedNode], set[str]]:
        """The nodes that the roots may need, in order, and the ids of those needed for certain, by no lazy link."""
        needed, eager = set(self.roots), set(self.roots)
        found = []
        for id in reversed([*self.nodes]):
            if id not in needed:
                continue
            node = self.nodes[id]
            found.append(node)
            sure = id in eager
            ports = node.entry.spec.inputs
            for name, source, _ in node.links:
                needed.add(source)
                if sure and not ports[name].lazy:
                    eager.add(source)
        found.reverse()
        return found, eager
