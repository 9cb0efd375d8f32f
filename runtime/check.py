"""Check a graph and the inputs of a call against the catalogue: all problems at once, nothing runs.

checked = check(load("flux.json"), Catalog.load(), {"prompt": "a red umbrella on the beach", "seed": "7"})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipegraph.access import Access, granted
from pipegraph.graphs.bulk import bulk
from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.errors import GraphError, Problem, Problems, shown
from pipegraph.graphs.schema import BAD, Graph, GraphInput, InputRef, Link, NodeUse

from .auto import settle
from .catalog import Catalog
from .check_nodes import NodeCheck, drawn, outputs_of
from .checked import CheckedGraph
from .order import sort
from .values import Misfit, convert


@bulk()
def check(
    graph: Graph,
    catalog: Catalog,
    inputs: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    access: Access | None = None,
) -> CheckedGraph:
    """Check a graph and the values of its inputs.

    Args:
        graph: The graph, as loaded.
        catalog: The known nodes.
        inputs: Values of the graph's inputs by name; texts, as from a command line, are converted.
        overrides: Other inputs of nodes, as ``{"node.input": value}``; texts are converted by the input's type.
        access: Files that this run may read besides the folders of models and inputs.

    Raises:
        GraphError: with every problem.
    """
    access = access or Access()
    graph = named(graph, catalog.slots)
    with granted(access):
        return _Check(graph, catalog, access).run(inputs or {}, overrides or {})


class Findings(NamedTuple):
    """Result of checking a valid graph that does not run yet."""

    needs: Sequence[str]
    """Graph inputs that still need a value."""
    notes: Sequence[Problem]
    """Parts of a graph in one of ComfyUI's forms that were left out."""


@bulk()
def examine(
    graph: Graph,
    catalog: Catalog,
    inputs: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    access: Access | None = None,
) -> Findings:
    """Check a graph without running it; it may lack values of its inputs. Arguments as for ``check``.

    Raises:
        GraphError: with every other problem.
    """
    access = access or Access()
    graph = named(graph, catalog.slots)
    with granted(access):
        checking = _Check(graph, catalog, access, partial=True)
        checking.run(inputs or {}, overrides or {})
    return Findings(checking.open_inputs, checking.notes)


def settled(checked: CheckedGraph) -> CheckedGraph:
    """The graph with each ``auto`` resolved.

    Raises:
        GraphError: an ``auto`` has no value or several, or a node does not fit its model or this machine.
    """
    autos, problems = settle(checked.needed()[0])
    if problems:
        raise GraphError(problems)
    return replace(checked, autos=autos)


class _Check(NodeCheck):
    """Checks the call, each node, and the whole graph against the catalogue."""

    def run(self, inputs: Mapping[str, Any], overrides: Mapping[str, Any]) -> CheckedGraph:
        self.override(overrides)
        self.call(inputs)
        if self.tolerant:
            self.leave_out_idle()
        for use in self.graph.nodes.values():
            self.node(use)
        for name in [name for name in self.graph.inputs if name not in self.used and not self.tolerant]:
            self.bad("unused_graph_input", f'no node reads the graph input "{name}"', place=f"inputs.{name}")
        outputs = self.outputs()
        roots = self.roots(outputs)
        order, rings = sort({node.id: [source for _, source, _ in node.links] for node in self.checked.values()}, roots)
        for ring in rings:
            text = " -> ".join(ring if len(ring) <= 20 else [*ring[:10], "…", *ring[-9:]])
            self.bad("cycle", f"the nodes form a ring: {text}", self.graph.nodes[ring[0]])
        if self.problems:
            raise self.problems.error()
        nodes = {id: self.checked[id] for id in order}
        graph = self.graph
        if self.settled or self.left_out:
            uses = dict(graph.nodes)
            for id in self.settled.keys() | self.left_out.keys():
                inputs = {**uses[id].inputs, **self.settled.get(id, {})}
                left_out = self.left_out.get(id, ())
                inputs = {name: value for name, value in inputs.items() if name not in left_out}
                uses[id] = uses[id]._replace(inputs=inputs)
            graph = replace(graph, nodes=uses)
        checked = CheckedGraph(
            graph=graph,
            catalog=self.catalog,
            nodes=nodes,
            roots=roots,
            inputs=self.inputs,
            outputs=outputs,
            seeds=self.seeds,
            access=self.access,
            notes=tuple(self.notes),
        )
        return checked if self.open_inputs else settled(checked)

    def leave_out_idle(self) -> None:
        """ComfyUI runs, and checks, only what its output nodes need; the rest is left out, and with it its faults."""
        nodes, entries = self.graph.nodes, self.catalog.entries
        sources = {id: [link.node for link in use.inputs.values() if type(link) is Link] for id, use in nodes.items()}
        read = {source for listed in sources.values() for source in listed}
        waiting = [
            id
            for id, use in nodes.items()
            if (entries[use.type].spec.output_node if use.type in entries else id not in read)
        ]
        waiting += [link.node for link in self.graph.outputs.values() if link.node in nodes]
        if not any(nodes[id].type in entries for id in waiting):
            return  # nothing saves or shows anything: which nodes are meant is not known
        needed = set(waiting)
        while waiting:
            for source in sources.get(waiting.pop(), ()):
                if source not in needed:
                    needed.add(source)
                    waiting.append(source)
        for id, use in nodes.items():
            if id not in needed:
                self.notice("idle_node", "nothing that is saved or shown needs this node; it was left out", use)
        remaining = [p for p in self.problems.listed if p.node in needed or p.node not in nodes]
        self.problems = Problems(remaining, self.problems.unlisted)
        self.graph = replace(self.graph, nodes={id: use for id, use in nodes.items() if id in needed})

    # The call

    def override(self, overrides: Mapping[str, Any]) -> None:
        nodes = dict(self.graph.nodes)
        for address, value in overrides.items():
            use, name = self.addressed(address)
            if use is None:
                head = address.rpartition(".")[0]
                ids = [use.id for title, use in self.titled() if title == head]
                if ids:
                    message = f'{len(ids)} nodes are called "{head}"'
                    self.bad("unknown_override", message, names=ids, hint="Write the id of the node that is meant.")
                    continue
                titles = dict.fromkeys(title for title, _ in self.titled())
                names = self.near(head, [*nodes, *titles])
                message = f'no node of the graph is meant by "{address}"'
                self.bad("unknown_override", message, names=names, hint="Write NODE.INPUT=VALUE.")
                continue
            use = nodes[use.id]
            if type(replaced := use.inputs.get(name)) is InputRef:
                self.used.add(replaced.name)
            nodes[use.id] = use._replace(inputs={**use.inputs, name: value})
            self.texts[use.id, name] = value
        if overrides:
            self.graph = replace(self.graph, nodes=nodes)

    def addressed(self, address: str) -> tuple[NodeUse | None, str]:
        """Split ``node.input``, the node by its id, or its title where no other has it.

        Both may hold dots, so the longest known id or title is used.
        """
        head = address
        while "." in head:
            head = head.rpartition(".")[0]
            if head in self.graph.nodes:
                return self.graph.nodes[head], address[len(head) + 1 :]
            named = [use for title, use in self.titled() if title == head]
            if len(named) == 1:
                return named[0], address[len(head) + 1 :]
        return None, ""

    def titled(self) -> Iterator[tuple[str, NodeUse]]:
        """Each node under its title, or without one under that of its type and the type itself."""
        for use in self.graph.nodes.values():
            if use.title and use.title != use.type:
                yield use.title, use
            else:
                yield use.type, use
                entry = self.catalog.entries.get(use.type)
                if entry and entry.spec.title != use.type:
                    yield entry.spec.title, use

    def call(self, values: Mapping[str, Any]) -> None:
        for name in [name for name in values if name not in self.graph.inputs]:
            listed = "Inputs of this graph: " + (", ".join(self.graph.inputs) or "none") + "."
            message = f'the graph has no input "{name}"'
            names = self.near(name, self.graph.inputs)
            self.bad("unknown_run_input", message, input=name, names=names, hint=listed)
        for name, port in self.graph.inputs.items():
            if not port.type:
                self.inputs[name] = BAD
                continue
            if not port.required:
                self.inputs[name] = self.run_input(port, port.default, text=False)
            elif name not in values:
                self.inputs[name] = BAD
                self.open_inputs.append(name)
                if not self.partial:
                    message = f'the graph needs a value for its input "{name}"'
                    mend = {"missing": {"name": name, "type": port.type}}
                    self.bad("missing_graph_input", message, input=name, mend=mend)
            if name in values:
                self.inputs[name] = self.run_input(port, values[name], text=True)
        undrawn = {name for name, value in self.inputs.items() if value is None}
        if undrawn:
            self.draw(undrawn)

    def run_input(self, port: GraphInput, value: Any, text: bool) -> Any:
        if port.type == "INT" and type(value) is str and value == "random":
            self.random.add(port.name)
            return None
        if value is None or value is BAD:
            return value
        if type(value) is str and value == "auto":
            return value
        try:
            value = convert(port.type, value, text=text)
            if port.choices is not None and value not in port.choices:
                wanted = "one of " + ", ".join(map(repr, port.choices))
                names = self.near(value, port.choices) if type(value) is str else []
                choices = {"choices": [*port.choices]}
                raise Misfit("not_in_list", f"{shown(value)} is not in the list", wanted, names=names, mend=choices)
            limits = {"minimum": port.minimum, "maximum": port.maximum}
            mend = {"range": {key: limit for key, limit in limits.items() if limit is not None}}
            if port.minimum is not None and value < port.minimum:
                raise Misfit("out_of_range", "out of range", f"at least {port.minimum}", mend=mend)
            if port.maximum is not None and value > port.maximum:
                raise Misfit("out_of_range", "out of range", f"at most {port.maximum}", mend=mend)
        except Misfit as e:
            place = f"graph input {port.name}"
            self.bad(e.code, e.message, place=place, got=shown(value), wanted=e.wanted, names=e.names, mend=e.mend)
            return BAD
        return value

    def draw(self, undrawn: set[str]) -> None:
        """Draw seeds for graph inputs without a value that feed a seed input."""
        for use in self.graph.nodes.values():
            entry = self.catalog.entries.get(use.type)
            for name, value in use.inputs.items() if entry else ():
                if type(value) is InputRef and value.name in undrawn and entry:
                    port = entry.spec.inputs.get(name)
                    if port and port.seed:
                        undrawn.discard(value.name)
                        self.inputs[value.name] = self.seeds[value.name] = drawn(port)

    # The whole

    def outputs(self) -> dict[str, tuple[str, int]]:
        outputs: dict[str, tuple[str, int]] = {}
        for name, link in self.graph.outputs.items():
            source = self.graph.nodes.get(link.node)
            entry = self.catalog.entries.get(source.type) if source else None
            index = self.output(entry, link) if entry else None
            place = f"outputs.{name}"
            if source is None:
                near = self.near(link.node, self.graph.nodes)
                self.bad("unknown_source", f'the node "{link.node}" does not exist', place=place, names=near)
            elif entry and index is None:
                near, hint = self.near(str(link.output), entry.output_index), outputs_of(entry)
                message = f'{source.type} (node "{source.id}") has no output {link.output!r}'
                self.bad("unknown_output", message, place=place, names=near, hint=hint)
            elif index is not None:
                outputs[name] = (link.node, index)
        return outputs

    def roots(self, outputs: Mapping[str, tuple[str, int]]) -> Sequence[str]:
        ends = [node.id for node in self.checked.values() if node.entry.spec.output_node]
        roots = tuple(dict.fromkeys([*(id for id, _ in outputs.values()), *ends]))
        if not roots and not self.problems:
            hint = 'Name "outputs", or add a node that shows or saves something, e.g. SaveImage.'
            self.bad("no_outputs", "the graph gives nothing back: it has no outputs", hint=hint)
        return roots
