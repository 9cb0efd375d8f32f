"""Compare a graph with the catalogue and with what the call gives: every problem is found at once, nothing runs.

checked = check(load("flux.json"), Catalog.load(), {"prompt": "a red fox", "seed": "7"})
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pipegraph.access import Access, granted
from pipegraph.graphs.bulk import bulk
from pipegraph.graphs.errors import GraphError, Problems, nearest, shown
from pipegraph.graphs.schema import BAD, Graph, GraphInput, InputRef, Link, NodeUse

from .auto import settle
from .catalog import Catalog, Entry
from .checked import CheckedGraph, CheckedNode
from .order import sort
from .packs import pack_of
from .spec import Port, disorder
from .values import Misfit, convert, fit

MAX_HINTS: Final = 50
"""So many problems get the nearest right names as a hint."""
MAX_DRAWN: Final = 2**53 - 1
"""Drawn seeds are not larger, so that every reader of JSON keeps them."""


@bulk()
def check(
    graph: Graph,
    catalog: Catalog,
    inputs: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    access: Access | None = None,
) -> CheckedGraph:
    """Check a graph with the values given to it.

    Args:
        graph: What ``load`` gave.
        catalog: The nodes there are.
        inputs: Values of the graph's inputs by name; texts, as a command line gives them, are converted.
        overrides: Other inputs of nodes, as ``{"node.input": value}``; texts are converted by the input's type.
        access: What may be read besides the folders of models and inputs, by this run and no other.

    Raises:
        GraphError: with every problem.
    """
    access = access or Access()
    with granted(access):
        return _Check(graph, catalog, access).run(inputs or {}, overrides or {})


@bulk()
def open_inputs(
    graph: Graph,
    catalog: Catalog,
    inputs: Mapping[str, Any] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    access: Access | None = None,
) -> list[str]:
    """Check a graph that is not to run yet: names of the graph inputs that still need a value; arguments as for check.

    Raises:
        GraphError: with every problem besides.
    """
    access = access or Access()
    with granted(access):
        checking = _Check(graph, catalog, access, partial=True)
        checking.run(inputs or {}, overrides or {})
    return checking.open_inputs


@cache
def compatible(source: str, target: str) -> bool:
    """Whether an output of type ``source`` may feed an input of type ``target``."""
    if source == target or "*" in (source, target):
        return True
    have, want = set(source.split(",")), set(target.split(","))
    if have & want or "*" in want:
        return True
    return any((h, w) in _WIDENING for h in have for w in want)


_WIDENING: Final = {("INT", "FLOAT"), ("STRING", "COMBO"), ("COMBO", "STRING")}


def settled(checked: CheckedGraph) -> CheckedGraph:
    """The graph with each ``auto`` resolved.

    Raises:
        GraphError: one has no value or several, or a node does not fit its model or this machine.
    """
    autos, problems = settle(checked.needed()[0])
    if problems:
        raise GraphError(problems)
    return replace(checked, autos=autos)


class _Check:
    def __init__(self, graph: Graph, catalog: Catalog, access: Access, *, partial: bool = False) -> None:
        self.graph, self.catalog, self.access, self.partial = graph, catalog, access, partial
        self.open_inputs: list[str] = []
        self.problems = Problems(graph.problems, graph.unlisted)
        self.inputs: dict[str, Any] = {}
        self.seeds: dict[str, int] = {}
        self.used: set[str] = set()
        self.random: set[str] = set()
        self.texts: dict[tuple[str, str], Any] = {}
        self.choices: dict[int, Sequence[Any]] = {}
        self.files: dict[tuple[int, str], Sequence[Path]] = {}
        self.checked: dict[str, CheckedNode] = {}
        self.settled: dict[str, dict[str, Any]] = {}

    def run(self, inputs: Mapping[str, Any], overrides: Mapping[str, Any]) -> CheckedGraph:
        self.override(overrides)
        self.call(inputs)
        for use in self.graph.nodes.values():
            self.node(use)
        for name in [name for name in self.graph.inputs if name not in self.used]:
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
        if self.settled:
            uses = dict(graph.nodes)
            for id, values in self.settled.items():
                uses[id] = uses[id]._replace(inputs={**uses[id].inputs, **values})
            graph = replace(graph, nodes=uses)
        checked = CheckedGraph(
            graph=graph, catalog=self.catalog, nodes=nodes, roots=roots, inputs=self.inputs,
            outputs=outputs, seeds=self.seeds, access=self.access,
        )  # fmt: skip
        return checked if self.open_inputs else settled(checked)

    def bad(self, code: str, message: str, use: NodeUse | None = None, **more: str) -> None:
        if use:
            more |= {"node": use.id, "title": use.title if use.title != use.type else ""}
        self.problems.add(code, message, **more)

    def near(self, name: str, names: Iterable[str], alike: float = 0.6) -> str:
        """The nearest names, while there are few problems: looking for them is slow."""
        return nearest(name, names, alike) if len(self.problems.listed) < MAX_HINTS else ""

    # What the call gives

    def override(self, overrides: Mapping[str, Any]) -> None:
        nodes = dict(self.graph.nodes)
        for address, value in overrides.items():
            use, name = self.addressed(address)
            if use is None:
                hint = self.near(address.rpartition(".")[0], nodes) or "Write NODE.INPUT=VALUE."
                self.bad("unknown_override", f'no node of the graph is meant by "{address}"', hint=hint)
                continue
            use = nodes[use.id]
            if type(replaced := use.inputs.get(name)) is InputRef:
                self.used.add(replaced.name)
            nodes[use.id] = use._replace(inputs={**use.inputs, name: value})
            self.texts[use.id, name] = value
        if overrides:
            self.graph = replace(self.graph, nodes=nodes)

    def addressed(self, address: str) -> tuple[NodeUse | None, str]:
        """Both ids and input names may hold dots: the longest id that exists counts."""
        head = address
        while "." in head:
            head = head.rpartition(".")[0]
            if head in self.graph.nodes:
                return self.graph.nodes[head], address[len(head) + 1 :]
        return None, ""

    def call(self, given: Mapping[str, Any]) -> None:
        for name in [name for name in given if name not in self.graph.inputs]:
            listed = "Inputs of this graph: " + (", ".join(self.graph.inputs) or "none") + "."
            message = f'the graph has no input "{name}"'
            self.bad("unknown_run_input", message, input=name, hint=self.near(name, self.graph.inputs) or listed)
        for name, port in self.graph.inputs.items():
            if not port.type:
                self.inputs[name] = BAD
                continue
            if not port.required:
                self.inputs[name] = self.run_input(port, port.default, text=False)
            elif name not in given:
                self.inputs[name] = BAD
                self.open_inputs.append(name)
                if not self.partial:
                    self.bad("missing_graph_input", f'the graph needs a value for its input "{name}"', input=name)
            if name in given:
                self.inputs[name] = self.run_input(port, given[name], text=True)
        undrawn = {name for name, value in self.inputs.items() if value is None}
        if undrawn:
            self.draw(undrawn)

    def run_input(self, port: GraphInput, value: Any, text: bool) -> Any:
        if port.type == "INT" and type(value) is str and value == "random":
            self.random.add(port.name)
            return None
        if value is None:
            return None
        if type(value) is str and value == "auto":
            return value
        try:
            value = convert(port.type, value, text=text)
            if port.choices is not None and value not in port.choices:
                wanted = "one of " + ", ".join(map(repr, port.choices))
                hint = self.near(value, port.choices) if type(value) is str else ""
                raise Misfit("not_in_list", f"{shown(value)} is not in the list", wanted, hint)
            if port.minimum is not None and value < port.minimum:
                raise Misfit("out_of_range", "out of range", f"at least {port.minimum}")
            if port.maximum is not None and value > port.maximum:
                raise Misfit("out_of_range", "out of range", f"at most {port.maximum}")
        except Misfit as e:
            place = f"graph input {port.name}"
            self.bad(e.code, e.message, place=place, got=shown(value), wanted=e.wanted, hint=e.hint)
            return BAD
        return value

    def draw(self, undrawn: set[str]) -> None:
        """Draw the seeds of graph inputs without a value that feed a seed somewhere."""
        for use in self.graph.nodes.values():
            entry = self.catalog.entries.get(use.type)
            for name, value in use.inputs.items() if entry else ():
                if type(value) is InputRef and value.name in undrawn and entry:
                    port = entry.spec.inputs.get(name)
                    if port and port.seed:
                        undrawn.discard(value.name)
                        self.inputs[value.name] = self.seeds[value.name] = _drawn(port)

    # Nodes

    def node(self, use: NodeUse) -> None:
        entry = self.catalog.entries.get(use.type)
        if entry is None:
            if use.type:  # else it was told of when the file was read
                self.unknown_node(use)
            return
        ports = entry.spec.inputs
        values = dict(entry.defaults)
        links: dict[str, tuple[str, str, int]] = {}
        files: dict[str, Sequence[Path]] = {}
        unlimited = entry.unlimited
        for name, given in use.inputs.items():
            kind = type(given)
            port = ports.get(name)
            if port is None:
                hint = self.near(name, ports) or "Its inputs: " + (", ".join(ports) or "none") + "."
                self.bad("unknown_input", f'{use.type} has no input "{name}"', use, input=name, hint=hint)
            elif kind is Link:
                output = self.link(use, port, given)
                if output is not None:
                    links[name] = (name, given.node, output)
                    values.pop(name, None)
            elif kind is unlimited.get(name) and not self.texts and (kind is not str or given.isascii()):
                values[name] = given
            else:
                values[name] = self.literal(use, port, given)
        if not entry.required <= use.inputs.keys():
            for name in [name for name in ports if name in entry.required and name not in use.inputs]:
                wanted = ports[name].type
                self.bad("missing_input", f'the input "{name}" is missing', use, input=name, wanted=wanted)
        for name, under in entry.under.items():
            if name in use.inputs and under.choice in values and values[under.choice] not in (*under.values, BAD):
                wanted = " or ".join(f'"{value}"' for value in under.values)
                message = f'"{name}" counts only where "{under.choice}" is {wanted}'
                self.bad("unused_input", message, use, input=name, got=f"{under.choice} = {values[under.choice]!r}")
        for name, limit in disorder(ports, values) if entry.ordered else ():
            wanted = f"at least {limit}, which is {values[limit]}"
            more = {"input": name, "got": shown(values[name]), "wanted": wanted}
            self.bad("out_of_range", f'"{name}" is less than "{limit}"', use, **more)
        if entry.spec.check and not any(value is BAD for value in values.values()):
            sources = {name: self.source(node) for name, node, _ in links.values()}
            for name, message in entry.spec.check(values, sources):
                self.bad("bad_value", message, use, input=name, got=shown(values.get(name)))
        for name in entry.seed_inputs:
            if name in values and values[name] is None:
                values[name] = self.seeds[f"{use.id}.{name}"] = _drawn(ports[name])
                self.put(use, name, values[name])
        for name in entry.file_inputs:
            if name in values and type(values[name]) is str and not (ports[name].auto and values[name] == "auto"):
                files[name] = self.found(use, ports[name], values[name])
        if len(values) > 1:
            values = {name: values[name] for name in ports if name in values}
        ordered = [links[name] for name in ports if name in links] if len(links) > 1 else [*links.values()]
        self.checked[use.id] = CheckedNode(use.id, use.title or entry.spec.title, entry, values, ordered, files)

    def source(self, node: str) -> tuple[str, dict[str, Any]]:
        """The type of a node and its literal inputs, unchecked; those of the graph filled in."""
        use = self.graph.nodes[node]
        values = {n: self.inputs.get(v.name) if type(v) is InputRef else v for n, v in use.inputs.items()}
        return use.type, {name: value for name, value in values.items() if type(value) is not Link}

    def unknown_node(self, use: NodeUse) -> None:
        hint = self.near(use.type, self.catalog.entries, alike=0.8)
        if not hint and (pack := pack_of(use.type)):
            hint = f"It is no node of ComfyUI's core but of the pack {pack}."
        if not hint:
            broken = ", ".join(pack.source for pack in self.catalog.broken)
            hint = "`pipegraph nodes` lists what there is; --nodes PATH adds your own."
            hint += f" Packs that could not be loaded: {broken}." if broken else ""
        self.bad("unknown_node", f'no node is called "{use.type}"', use, got=use.type, hint=hint)
        self.used.update(v.name for v in use.inputs.values() if type(v) is InputRef)

    def literal(self, use: NodeUse, port: Port, given: Any) -> Any:
        came = got = ""
        text = (use.id, port.name) in self.texts
        if type(given) is InputRef:
            self.used.add(given.name)
            came = f'It comes from the graph input "{given.name}".'
            if given.name not in self.inputs:
                hint = self.near(given.name, self.graph.inputs)
                message = f'the graph has no input "{given.name}"'
                self.bad("unknown_graph_input", message, use, input=port.name, hint=hint)
                return BAD
            got = shown("random") if given.name in self.random else ""
            given = self.inputs[given.name]
        if given is BAD:
            return BAD
        try:
            value = fit(port, given, self.listed(port), text=text)
        except Misfit as e:
            hint = " ".join(filter(None, (e.hint, came)))
            self.bad(e.code, e.message, use, input=port.name, got=got or shown(given), wanted=e.wanted, hint=hint)
            return BAD
        if text:
            self.put(use, port.name, value)
        return value

    def listed(self, port: Port) -> Sequence[Any] | None:
        """The legal values of a COMBO; computed ones are asked for once."""
        if not callable(port.choices):
            return port.choices
        known = self.choices.get(id(port))
        if known is None:
            known = self.choices[id(port)] = [*port.choices()]
        return known

    def put(self, use: NodeUse, name: str, value: Any) -> None:
        """Write a value that was converted or drawn into the graph, so that the record has it."""
        self.settled.setdefault(use.id, {})[name] = value

    def found(self, use: NodeUse, port: Port, name: str) -> Sequence[Path]:
        assert port.file
        known = self.files.get((id(port), name))
        if known is None:
            try:
                known = self.files[id(port), name] = tuple(port.file.find(name))
            except LookupError as e:
                hint = self.near(name, port.file.names())
                message = getattr(e, "message", None) or (str(e.args[0]) if e.args else f'"{name}" is not found')
                hint = "" if "Did you mean" in message or any(h in message for h in hint.split('"')[1::2]) else hint
                if not hint and type(source := use.inputs.get(port.name)) is InputRef:
                    hint = f'It comes from the graph input "{source.name}": give another by --{source.name} PATH.'
                hint = " ".join(filter(None, (hint, getattr(e, "advice", ""))))
                self.bad("unknown_file", message, use, input=port.name, got=shown(name), hint=hint)
                return ()
            for fault in filter(None, map(port.file.fault, known) if port.file.fault else ()):
                self.bad("unusable_file", fault, use, input=port.name, got=shown(name))
        return known

    def link(self, use: NodeUse, port: Port, link: Link) -> int | None:
        """The number of the output a link means, or None if the link is wrong."""
        source = self.graph.nodes.get(link.node)
        if source is None:
            hint = self.near(link.node, self.graph.nodes)
            message = f'the link goes to the node "{link.node}", which does not exist'
            self.bad("unknown_source", message, use, input=port.name, got=str([*link]), hint=hint)
            return None
        entry = self.catalog.entries.get(source.type)
        if entry is None:
            return None
        index = self.output(entry, link)
        if index is None:
            message = f'{source.type} (node "{source.id}") has no output {link.output!r}'
            names = ", ".join(entry.output_index) or "none"
            hint = self.near(str(link.output), entry.output_index) or f"Its outputs: {names}."
            self.bad("unknown_output", message, use, input=port.name, got=str([*link]), hint=hint)
            return None
        kind = entry.output_types[index]
        if not compatible(kind, port.type):
            message = f'the output of "{source.id}" does not fit'
            self.bad("wrong_type", message, use, input=port.name, got=kind, wanted=port.type)
            return None
        return index

    @staticmethod
    def output(entry: Entry, link: Link) -> int | None:
        if type(link.output) is str:
            return entry.output_index.get(link.output)
        return int(link.output) if 0 <= int(link.output) < len(entry.output_types) else None

    # The whole

    def outputs(self) -> dict[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        for name, link in self.graph.outputs.items():
            source = self.graph.nodes.get(link.node)
            entry = self.catalog.entries.get(source.type) if source else None
            index = self.output(entry, link) if entry else None
            place = f"outputs.{name}"
            if source is None:
                hint = self.near(link.node, self.graph.nodes)
                self.bad("unknown_source", f'the node "{link.node}" does not exist', place=place, hint=hint)
            elif entry and index is None:
                names = ", ".join(entry.output_index) or "none"
                hint = self.near(str(link.output), entry.output_index) or f"Its outputs: {names}."
                message = f'{source.type} (node "{source.id}") has no output {link.output!r}'
                self.bad("unknown_output", message, place=place, hint=hint)
            elif index is not None:
                found[name] = (link.node, index)
        return found

    def roots(self, outputs: Mapping[str, tuple[str, int]]) -> Sequence[str]:
        ends = [node.id for node in self.checked.values() if node.entry.spec.output_node]
        roots = tuple(dict.fromkeys([*(id for id, _ in outputs.values()), *ends]))
        if not roots and not self.problems:
            hint = 'Name "outputs", or add a node that shows or saves something, e.g. SaveImage.'
            self.bad("no_outputs", "the graph gives nothing back: it has no outputs", hint=hint)
        return roots


def _drawn(port: Port) -> int:
    low = int(port.minimum or 0)
    high = min(MAX_DRAWN, int(port.maximum) if port.maximum is not None else MAX_DRAWN)
    return low + secrets.randbelow(max(1, high - low + 1))
