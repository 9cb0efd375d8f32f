"""Plan a checked graph: order of steps, cache keys, and when each value is dropped.

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
    """Settings besides the graph that affect numerical results of a run."""

    device: str = "cpu"
    """Device of networks: ``cpu``, ``cuda:0``, ..."""
    dtype: str = "auto"
    """``auto``, ``fp32``, ``fp16`` or ``bf16``."""
    kernels: Mapping[str, str] = field(default_factory=dict)
    """Requested back ends by op."""
    quantize: str = ""
    """Quantization of loaded weights: ``q8``, ``fp8``, ``w4``, or empty for none."""
    threads: int = 0
    """CPU threads of torch, which affect the order of sums; 0 if unknown."""

    def key(self) -> str:
        """These settings as part of cache keys; includes the device index, as models lie on one device."""
        return repr((self.device, self.dtype, sorted(self.kernels.items()), self.quantize, self.threads))

    def as_dict(self) -> dict[str, Any]:
        """Settings for the record; the device without index, e.g. ``cuda``."""
        known = {"device": self.device.split(":")[0], "dtype": self.dtype, "kernels": dict(self.kernels)}
        return {**known, "quantize": self.quantize, **({"threads": self.threads} if self.threads else {})}


class Step(NamedTuple):
    """One call of a node's function."""

    at: int
    """Its index in the plan."""
    node: CheckedNode
    values: Mapping[str, Any]
    """Literal inputs, ``auto`` resolved."""
    links: Sequence[tuple[str, int, int]]
    """(input, step index, output index)."""
    key: str
    cacheable: bool
    """Equal keys always mean equal outputs."""
    files: Mapping[str, str]
    """Input -> content hash of its files."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plan:
    """Everything a runner needs."""

    checked: CheckedGraph
    settings: Settings
    steps: Sequence[Step]
    """Steps in topological order."""
    frees: Sequence[Sequence[int]]
    """For each step, the steps whose values are not needed after it."""
    roots: Sequence[int]
    """Steps that must run."""
    outputs: Mapping[str, tuple[int, int]]
    """Graph output -> step index, output index."""
    step_of: Mapping[str, int]
    """Node id -> its step; equal nodes share one."""
    resolved: Sequence[Resolved]
    """The value of each ``auto``."""
    warnings: Sequence[str] = ()
    """Warnings before the run: differences from the original run, and nodes whose files cannot be watched."""

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
        GraphError: a file cannot be read.
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
    warnings = [str(note) for note in checked.notes]
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
            stable = False  # the file of a name that is not known yet cannot be in the key
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
        resolved=[r for resolved in autos.values() for r in resolved],
        warnings=warnings,
    )


def _unwatched(node: CheckedNode) -> list[str]:
    """Plain-text inputs of foreign nodes that name a file, whose content is in no key."""
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


def _frees(steps: Sequence[Step], eager: set[int], outputs: set[int]) -> list[list[int]]:
    """Steps after which each value can be dropped. A step on demand runs at its last lazy reader at the latest."""
    when = [i if i in eager else -1 for i in range(len(steps))]  # latest step at which it runs
    last = list(range(len(steps)))  # latest step that reads its value
    frees: list[list[int]] = [[] for _ in steps]
    for step in reversed(steps):
        i = step.at
        if when[i] < 0:
            when[i] = last[i]
        last[i] = max(last[i], when[i])
        if i not in outputs:
            frees[last[i]].append(i)
        for _, source, _ in step.links:
            last[source] = max(last[source], when[i])
    return frees


def _hashed(node: CheckedNode, hashes: FileHashes, problems: list[Problem]) -> dict[str, str]:
    digests = {}
    for name, paths in node.files.items():
        try:
            digests[name] = hashes.digest(paths)
        except OSError as e:
            message = f"cannot read {e.filename}: {e.strerror}"
            got = shown(node.values[name])
            problems.append(Problem(code="unreadable_file", message=message, node=node.id, input=name, got=got))
    return digests
