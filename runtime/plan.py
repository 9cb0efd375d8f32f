"""From a checked graph to a plan: what runs in which order, under which cache keys, and when each value is dropped.

A key is a Merkle hash: node id and version, values, keys of the inputs, contents of the files read, numeric settings.
Equal nodes with equal inputs are one step. ``"auto"`` values are replaced by the model's recommendation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from pipegraph.access import granted
from pipegraph.graphs.bulk import bulk
from pipegraph.graphs.errors import GraphError, Problem, shown

from .checked import CheckedGraph, CheckedNode, Resolved
from .hashes import FileHashes
from .origin import differences


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides about numbers besides the graph, for all nodes of a run."""

    device: str = "cpu"
    """Where networks run: ``cpu``, ``cuda:0``, ..."""
    dtype: str = "auto"
    """``auto``, ``fp32``, ``fp16`` or ``bf16``."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Back ends that were asked for, by operation."""
    quantize: str = ""
    """How loaded weights are kept: ``q8``, ``fp8``, ``w4``, or empty for as they are."""
    threads: int = 0
    """Threads of torch on the CPU, where the order of sums depends on them; 0 if not known."""

    def key(self) -> str:
        """The part of cache keys that stands for these settings; models lie on one device, so its number counts."""
        return repr((self.device, self.dtype, sorted(self.kernels.items()), self.quantize, self.threads))

    def as_dict(self) -> dict[str, Any]:
        """For the record; of the device only its class, such as ``cuda``."""
        known = {"device": self.device.split(":")[0], "dtype": self.dtype, "kernels": dict(self.kernels)}
        return {**known, "quantize": self.quantize, **({"threads": self.threads} if self.threads else {})}


class Step(NamedTuple):
    """One call of a node's function."""

    at: int
    """Its index in the plan."""
    node: CheckedNode
    values: Mapping[str, Any]
    """Inputs that are no links, ``auto`` resolved."""
    links: Sequence[tuple[str, int, int]]
    """(input, index of a step, number of its output)."""
    key: str
    cacheable: bool
    """The same key always means the same outputs."""
    files: Mapping[str, str]
    """Input -> content hash of what it names."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """Everything a runner needs."""

    checked: CheckedGraph
    settings: Settings
    steps: Sequence[Step]
    """Each after those it reads from."""
    frees: Sequence[Sequence[int]]
    """For each step, the steps whose values nobody needs after it."""
    roots: Sequence[int]
    """Steps that must run."""
    outputs: Mapping[str, tuple[int, int]]
    """Name of an output of the graph -> index of a step, number of its output."""
    step_of: Mapping[str, int]
    """Node id -> its step; equal nodes share one."""
    resolved: Sequence[Resolved]
    """What became of each ``auto``."""
    warnings: Sequence[str] = ()
    """What is to be said before the run: how it differs from the run that made the picture the graph came from, and
    nodes whose files cannot be watched."""

    def __repr__(self) -> str:
        return f"<Plan of {len(self.steps)} steps on {self.settings.device}>"

    def _repr_html_(self) -> str:
        from .html import of_plan

        return of_plan(self)

    @property
    def merged(self) -> dict[str, str]:
        """Node id -> id of the equal node that runs in its place."""
        return {id: self.steps[i].node.id for id, i in self.step_of.items() if self.steps[i].node.id != id}


@bulk()
def plan(checked: CheckedGraph, settings: Settings | None = None, *, hashes: FileHashes | None = None) -> Plan:
    """Plan a run.

    Raises:
        GraphError: an ``auto`` has no answer or several, or a file cannot be read.
    """
    with granted(checked.access):
        return _plan(checked, settings or Settings(), hashes or FileHashes())


def _plan(checked: CheckedGraph, settings: Settings, hashes: FileHashes) -> Plan:
    nodes, eager = checked.needed()
    autos, problems = checked.autos, list[Problem]()
    shared = settings.key().encode()
    steps: list[Step] = []
    step_of: dict[str, int] = {}
    by_key: dict[str, int] = {}
    warnings: list[str] = []
    for node in nodes:
        spec = node.entry.spec
        values = node.values
        if node.id in autos:
            values = {**values, **{r.input: r.value for r in autos[node.id]}}
        links = [(name, step_of[source], output) for name, source, output in node.links]
        stable = spec.effect != "volatile"
        parts = [repr(values)]
        for name, at, output in links:
            parts.append(f"{name}<{steps[at].key}.{output}")
            stable = stable and steps[at].cacheable
        files = _hashed(node, hashes, problems) if node.files else {}
        if files:
            parts.append(repr(files))
        if node.entry.file_inputs and any(name in node.entry.file_inputs for name, _, _ in links):
            stable = False  # what a name that is not known yet stands for cannot be in the key
        for name in _unwatched(node) if stable else ():
            stable = False
            warnings.append(
                f'node "{node.id}": its input "{name}" is declared as plain text and names a file ({values[name]}); '
                "the node is computed each time, as the file may have changed. Declare the input with FileInput."
            )
        if not stable or spec.effect == "writes":
            parts.append(node.id)
        text = f"{spec.id}\0{spec.version}\0" + "\0".join(parts)
        digest = blake2b(text.encode("utf-8", "surrogatepass") + shared, digest_size=16).hexdigest()
        at = by_key.setdefault(digest, len(steps))
        step_of[node.id] = at
        if at == len(steps):
            steps.append(Step(at, node, values, links, digest, stable and spec.effect != "writes", files))
    hashes.save()
    if problems:
        raise GraphError(problems)
    if checked.graph.origin:
        warnings += differences(checked.graph.origin, settings.as_dict(), steps)
    outputs = {name: (step_of[id], output) for name, (id, output) in checked.outputs.items()}
    return Plan(
        checked=checked,
        settings=settings,
        steps=steps,
        frees=_frees(steps, {step_of[id] for id in eager}, {at for at, _ in outputs.values()}),
        roots=[*dict.fromkeys(step_of[id] for id in checked.roots)],
        outputs=outputs,
        step_of=step_of,
        resolved=[r for found in autos.values() for r in found],
        warnings=warnings,
    )


def _unwatched(node: CheckedNode) -> list[str]:
    """Inputs of a node that is not pipegraph's own which are plain text and name a file: its content is in no key."""
    if node.entry.own or node.entry.spec.effect == "writes":
        return []
    ports = node.entry.spec.inputs
    return [
        name
        for name, value in node.values.items()
        if type(value) is str
        and ports[name].type == "STRING"
        and not (ports[name].multiline or ports[name].file_name)
        and {"/", "\\", "."} & {*value}
        and os.path.isfile(os.path.expanduser(value))
    ]


def _frees(steps: Sequence[Step], eager: set[int], kept: set[int]) -> list[list[int]]:
    """When each value can go. What runs only on demand runs, at the latest, where its last lazy reader stands."""
    when = [i if i in eager else -1 for i in range(len(steps))]  # where a step runs at the latest
    last = list(range(len(steps)))  # where its value is read at the latest
    frees: list[list[int]] = [[] for _ in steps]
    for step in reversed(steps):
        i = step.at
        if when[i] < 0:
            when[i] = last[i]
        last[i] = max(last[i], when[i])
        if i not in kept:
            frees[last[i]].append(i)
        for _, source, _ in step.links:
            last[source] = max(last[source], when[i])
    return frees


def _hashed(node: CheckedNode, hashes: FileHashes, problems: list[Problem]) -> dict[str, str]:
    found = {}
    for name, paths in node.files.items():
        try:
            found[name] = hashes.digest(paths)
        except OSError as e:
            message = f"cannot read {e.filename}: {e.strerror}"
            got = shown(node.values[name])
            problems.append(Problem(code="unreadable_file", message=message, node=node.id, input=name, got=got))
    return found
