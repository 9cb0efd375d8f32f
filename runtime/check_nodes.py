"""Check each node of a graph against its declaration: inputs, links, files, and its own checks."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from pipegraph.access import Access
from pipegraph.graphs.errors import Problem, Problems, closest, did_you_mean, shown
from pipegraph.graphs.schema import BAD, Graph, InputRef, Link, NodeUse
from pipegraph.limits import PROBLEMS

from .catalog import Catalog, Entry
from .checked import CheckedNode
from .errors import declaration_fault
from .packs import pack_of
from .spec import Port, disorder
from .values import Misfit, fit

MAX_HINTS: Final = 50
"""Number of problems that get the nearest valid names as a hint."""
MAX_DRAWN: Final = 2**53 - 1
"""Largest drawn seed: exact in every JSON reader."""


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


class NodeCheck:
    """Checks the nodes of a graph against the catalogue; collects every problem."""

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
        self.tolerant = graph.form != "native"
        """ComfyUI's forms hold what no output needs, and inputs that editors and extensions leave behind."""
        self.notes: list[Problem] = [*graph.editor.notes] if graph.editor else []
        self.lost = graph.editor.lost if graph.editor else {}
        self.left_out: dict[str, set[str]] = {}
        """Inputs that a node does not have, by node."""

    def bad(self, code: str, message: str, use: NodeUse | None = None, **more: Any) -> None:
        """Note a problem, of a node if ``use`` is one; ``more`` as for ``Problems.add``."""
        if use:
            more |= {"node": use.id, "title": use.shown}
        self.problems.add(code, message, **more)

    def notice(self, code: str, message: str, use: NodeUse, input: str = "") -> None:
        """Say what was left out."""
        if len(self.notes) < PROBLEMS:
            self.notes.append(Problem(code=code, message=message, node=use.id, title=use.shown, input=input))

    def near(self, name: str, names: Iterable[str], alike: float = 0.6) -> list[str]:
        """The nearest names, for the first ``MAX_HINTS`` problems: the search is slow."""
        return closest(name, names, alike) if len(self.problems.listed) < MAX_HINTS else []

    def node(self, use: NodeUse) -> None:
        entry = self.catalog.entries.get(use.type)
        if entry is None:
            if use.type:  # else it was reported when the file was read
                self.unknown_node(use)
            return
        use = self.renamed(use, entry)
        ports = entry.spec.inputs
        values, links = self.given_inputs(use, entry)
        if not entry.required <= use.inputs.keys():
            for name in [name for name in ports if name in entry.required and name not in use.inputs]:
                wanted, message = ports[name].type, f'the input "{name}" is missing'
                mend = {"missing": {"name": name, "type": wanted}}
                hint = self.lost.get((use.id, name), "")
                hint = f"{hint[:1].upper()}{hint[1:]}." if hint else ""
                self.bad("missing_input", message, use, input=name, wanted=wanted, hint=hint, mend=mend)
        if entry.under:
            self.unused_inputs(use, entry, values, links)
        if entry.ordered or entry.spec.check:
            self.own_rules(use, entry, values, links)
        for name in entry.seed_inputs:
            if name in values and values[name] is None:
                values[name] = self.seeds[f"{use.id}.{name}"] = drawn(ports[name])
                self.put(use, name, values[name])
        files: dict[str, Sequence[Path]] = {}
        for name in entry.file_inputs:
            if name in values and type(values[name]) is str and not (ports[name].auto and values[name] == "auto"):
                files[name] = self.find_files(use, ports[name], values[name])
        if len(values) > 1:
            values = {name: values[name] for name in ports if name in values}
        ordered = [links[name] for name in ports if name in links] if len(links) > 1 else [*links.values()]
        self.checked[use.id] = CheckedNode(use.id, use.title or entry.spec.title, entry, values, ordered, files)

    def renamed(self, use: NodeUse, entry: Entry) -> NodeUse:
        """The node with today's names of inputs that an older graph names as they were; a new name wins."""
        if not entry.formerly or entry.formerly.keys().isdisjoint(use.inputs):
            return use
        names = {name: entry.formerly.get(name, name) for name in use.inputs}
        inputs = {new: use.inputs[name] for name, new in names.items() if name == new or new not in use.inputs}
        for name, new in names.items():
            if (use.id, name) in self.texts:  # given by the call
                self.texts[use.id, new] = inputs[new] = use.inputs[name]
        return use._replace(inputs=inputs)

    def given_inputs(self, use: NodeUse, entry: Entry) -> tuple[dict[str, Any], dict[str, tuple[str, str, int]]]:
        """The node's literal inputs, defaults included, and its links."""
        ports, unlimited = entry.spec.inputs, entry.unlimited
        values = dict(entry.defaults)
        links: dict[str, tuple[str, str, int]] = {}
        for name, value in use.inputs.items():
            kind = type(value)
            port = ports.get(name)
            if port is None:
                if entry.spec.ignores and re.fullmatch(entry.spec.ignores, name):
                    if entry.spec.rest and kind in (str, int, float, bool):
                        values[entry.spec.rest] = {**(values.get(entry.spec.rest) or {}), name: value}
                    continue
                if self.tolerant and kind is not Link and (use.id, name) not in self.texts:
                    self.left_out.setdefault(use.id, set()).add(name)
                    self.notice("unknown_input", f"{use.type} has no such input; it was left out", use, name)
                    continue
                names, hint = self.near(name, ports), "Its inputs: " + (", ".join(ports) or "none") + "."
                self.bad("unknown_input", f'{use.type} has no input "{name}"', use, input=name, names=names, hint=hint)
            elif kind is Link:
                output = self.link(use, port, value)
                if output is None:
                    values[name] = BAD  # reported already; no check of the node's own may count on it
                else:
                    links[name] = (name, value.node, output)
                    values.pop(name, None)
            elif kind is unlimited.get(name) and not self.texts and (kind is not str or value.isascii()):
                values[name] = value
            else:
                values[name] = self.literal(use, port, value)
        return values, links

    def unused_inputs(
        self, use: NodeUse, entry: Entry, values: dict[str, Any], links: dict[str, tuple[str, str, int]]
    ) -> None:
        """Report inputs that exist only for other values of another input."""
        for name, under in entry.under.items():
            if name in use.inputs and under.choice in values and values[under.choice] not in (*under.values, BAD):
                if self.tolerant:
                    self.left_out.setdefault(use.id, set()).add(name)
                    links.pop(name, None)
                    values |= {name: entry.defaults[name]} if name in entry.defaults else {}
                    chosen = f"{under.choice} = {values[under.choice]!r}"
                    self.notice("unused_input", f"it does not count with {chosen}; it was left out", use, name)
                    continue
                wanted = " or ".join(f'"{value}"' for value in under.values)
                message = f'"{name}" is used only if "{under.choice}" is {wanted}'
                self.bad("unused_input", message, use, input=name, got=f"{under.choice} = {values[under.choice]!r}")

    def own_rules(
        self, use: NodeUse, entry: Entry, values: Mapping[str, Any], links: Mapping[str, tuple[str, str, int]]
    ) -> None:
        """Check rules of the declaration that concern several inputs."""
        for name, limit in disorder(entry.spec.inputs, values) if entry.ordered else ():
            wanted = f"at least {limit}, which is {values[limit]}"
            more = {"input": name, "got": shown(values[name]), "wanted": wanted}
            self.bad("out_of_range", f'"{name}" is less than "{limit}"', use, **more)
        if entry.spec.check and not any(value is BAD for value in values.values()):
            sources = {name: self.source(node) for name, node, _ in links.values()}
            try:
                faults = [*entry.spec.check(values, sources)]
            except Exception as error:
                return self.broken(use, "check", error)
            for name, message in faults:
                self.bad("bad_value", message, use, input=name, got=shown(values.get(name)))

    def broken(self, use: NodeUse, function: str, error: Exception, name: str = "") -> None:
        """Report that a function of the node's declaration failed: a fault of the node, not of the graph."""
        self.bad("broken_node", use=use, input=name, **declaration_fault(function, error))

    def source(self, node: str) -> tuple[str, dict[str, Any]]:
        """The type of a node and its literal inputs, unchecked, with graph inputs filled in."""
        use = self.graph.nodes[node]
        values = {n: self.inputs.get(v.name) if type(v) is InputRef else v for n, v in use.inputs.items()}
        return use.type, {name: value for name, value in values.items() if type(value) is not Link}

    def unknown_node(self, use: NodeUse) -> None:
        names, hint = self.near(use.type, self.catalog.entries, alike=0.8), ""
        if pack := pack_of(use.type):
            hint = f"It is no node of ComfyUI's core but of the pack {pack}."
        if not hint:
            broken = ", ".join(pack.source for pack in self.catalog.broken)
            hint = "`pipegraph nodes` lists what there is; --nodes PATH adds your own."
            hint += f" Packs that could not be loaded: {broken}." if broken else ""
        self.bad("unknown_node", f'no node is called "{use.type}"', use, got=use.type, names=names, hint=hint)
        self.used.update(v.name for v in use.inputs.values() if type(v) is InputRef)

    def literal(self, use: NodeUse, port: Port, raw: Any) -> Any:
        origin = got = ""
        text = (use.id, port.name) in self.texts
        if type(raw) is InputRef:
            self.used.add(raw.name)
            origin = f'It comes from the graph input "{raw.name}".'
            if raw.name not in self.inputs:
                names = self.near(raw.name, self.graph.inputs)
                message = f'the graph has no input "{raw.name}"'
                self.bad("unknown_graph_input", message, use, input=port.name, names=names)
                return BAD
            got = shown("random") if raw.name in self.random else ""
            raw = self.inputs[raw.name]
        if raw is BAD:
            return BAD
        try:
            value = fit(port, raw, self.listed(port), text=text)
        except Misfit as e:
            hint, mend = " ".join(filter(None, (did_you_mean(e.names), origin))), {**e.mend}
            mend |= {"names": [*e.names]} if e.names else {}
            more = {"got": got or shown(raw), "wanted": e.wanted, "hint": hint, "mend": mend}
            self.bad(e.code, e.message, use, input=port.name, **more)
            return BAD
        except Exception as error:
            self.broken(use, "list of values" if callable(port.choices) else "file name", error, port.name)
            return BAD
        if text:
            self.put(use, port.name, value)
        return value

    def listed(self, port: Port) -> Sequence[Any] | None:
        """The legal values of a COMBO; computed once."""
        if not callable(port.choices):
            return port.choices
        known = self.choices.get(id(port))
        if known is None:
            known = self.choices[id(port)] = [*port.choices()]
        return known

    def put(self, use: NodeUse, name: str, value: Any) -> None:
        """Store a converted or drawn value in the graph, for the record."""
        self.settled.setdefault(use.id, {})[name] = value

    def find_files(self, use: NodeUse, port: Port, name: str) -> Sequence[Path]:
        """The files that an input names, each checked once."""
        assert port.file
        known = self.files.get((id(port), name))
        if known is not None:
            return known
        try:
            known = self.files[id(port), name] = tuple(port.file.find(name))
            faults = [fault for path in known if port.file.fault and (fault := port.file.fault(path))]
        except LookupError as error:
            self.unknown_file(use, port, name, error)
            return ()
        except Exception as error:
            self.broken(use, "look-up of files", error, port.name)
            return ()
        for fault in faults:
            self.bad("unusable_file", fault, use, input=port.name, got=shown(name))
        return known

    def unknown_file(self, use: NodeUse, port: Port, name: str, error: LookupError) -> None:
        assert port.file
        names = self.near(name, port.file.names())
        message = getattr(error, "message", None) or (str(error.args[0]) if error.args else f'"{name}" is not found')
        hint = "" if "Did you mean" in message or any(n in message for n in names) else did_you_mean(names)
        if not hint and type(source := use.inputs.get(port.name)) is InputRef:
            hint = f'It comes from the graph input "{source.name}": give another by --{source.name} PATH.'
        hint = " ".join(filter(None, (hint, getattr(error, "advice", ""))))
        mend: dict[str, Any] = {"names": names} if names else {}
        if folder := getattr(error, "folder", ""):
            mend["file"] = {"name": name, "folder": folder}
        code = getattr(error, "code", "unknown_file")
        self.bad(code, message, use, input=port.name, got=shown(name), hint=hint, mend=mend)

    def link(self, use: NodeUse, port: Port, link: Link) -> int | None:
        """The output index of a link, or None if the link is invalid."""
        source = self.graph.nodes.get(link.node)
        if source is None:
            names = self.near(link.node, self.graph.nodes)
            message = f'the link goes to the node "{link.node}", which does not exist'
            self.bad("unknown_source", message, use, input=port.name, got=str([*link]), names=names)
            return None
        entry = self.catalog.entries.get(source.type)
        if entry is None:
            return None
        index = self.output(entry, link)
        if index is None:
            message = f'{source.type} (node "{source.id}") has no output {link.output!r}'
            names, hint = self.near(str(link.output), entry.output_index), outputs_of(entry)
            self.bad("unknown_output", message, use, input=port.name, got=str([*link]), names=names, hint=hint)
            return None
        kind = entry.output_types[index]
        if not compatible(kind, port.type):
            message = f'the output of "{source.id}" does not fit'
            mend = {"types": port.type.split(",")}
            self.bad("wrong_type", message, use, input=port.name, got=kind, wanted=port.type, mend=mend)
            return None
        return index

    @staticmethod
    def output(entry: Entry, link: Link) -> int | None:
        if type(link.output) is str:
            return entry.output_index.get(link.output)
        return int(link.output) if 0 <= int(link.output) < len(entry.output_types) else None


def outputs_of(entry: Entry) -> str:
    """The outputs of a node, as a hint."""
    return f"Its outputs: {', '.join(entry.output_index) or 'none'}."


def drawn(port: Port) -> int:
    """A seed within the limits of its port."""
    low = int(port.minimum or 0)
    high = min(MAX_DRAWN, int(port.maximum) if port.maximum is not None else MAX_DRAWN)
    return low + secrets.randbelow(max(1, high - low + 1))
