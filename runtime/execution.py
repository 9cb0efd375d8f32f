"""One run of a plan: take cached results, call the other nodes in order, emit events."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from pipegraph.folders import cache_folder
from pipegraph.generators import finish
from pipegraph.graphs.errors import Problem, message_of, shown

from . import files, process_state, sharing
from . import record as record_of
from .cache import MemoryCache, Trail, measure
from .catalog import Entry
from .context import Available, Context, Linked, Wanted
from .errors import Cancelled, RunError
from .events import Event, EventLog, ListenerFailed
from .node import NodeEvent, Preview, Progress, Saved, Text, Token
from .plan import Plan, Step
from .returned import outputs_of
from .values import Misfit, fit

NO_MEMORY: Final = (
    "OutOfMemory",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "Cannot allocate memory",
)
"""Messages of RuntimeErrors that mean out of memory."""


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run."""

    run_id: str
    outputs: Mapping[str, Any]
    """The graph's outputs by name."""
    files: Sequence[Path]
    """Files that were saved for the user, in order."""
    timings: Mapping[str, float]
    """Node id -> seconds of the nodes that ran."""
    cached: Sequence[str]
    """Ids of nodes whose result came from the cache."""
    warnings: Sequence[str]
    plan: Plan = field(repr=False)
    run: Mapping[str, Any] = field(repr=False)
    notes: Mapping[str, Mapping[str, Any]] = field(repr=False)
    events: EventLog = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.outputs[name]

    @cached_property
    def record(self) -> dict[str, Any]:
        """The run record, as JSON values."""
        return record_of.record(self.plan, self.run, self.notes)

    def __repr__(self) -> str:
        outputs = ", ".join(self.outputs) or "none"
        return f"<Result {self.run_id}: outputs {outputs}; {len(self.files)} files saved>"

    def _repr_html_(self) -> str:
        from .html import of_result

        return of_result(self)


class Execution:
    """The state of one run."""

    def __init__(
        self,
        plan: Plan,
        cache: MemoryCache,
        run_id: str,
        output_dir: Path,
        temp_dir: Path | None,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        self.plan, self.cache, self.id, self.output_dir = plan, cache, run_id, output_dir
        self.log = EventLog(run_id, on_event)
        self.cancelled = False
        self.values: list[tuple[Any, ...] | None] = [None] * len(plan.steps)
        self.done = bytearray(len(plan.steps))
        self.cached: list[str] = []
        self.timings: dict[str, float] = {}
        self.notes: dict[str, dict[str, Any]] = {}
        self.hits: list[int] = []
        self.recalled: set[int] = set()
        self.warnings: list[tuple[str, str]] = []
        self.saved: list[Saved] = []
        self._temp_dir = temp_dir

    @cached_property
    def temp_dir(self) -> Path:
        folder = self._temp_dir or cache_folder() / "temp"
        files.sweep(folder)
        files.sweep_old(folder)
        return folder

    @cached_property
    def reproduce(self) -> Mapping[str, Any]:
        return record_of.metadata(self.plan)

    # The whole

    def execute(self) -> Result:
        files.sweep(self.output_dir)
        began, start = time.time(), time.perf_counter()
        status = "failed"
        try:
            self.steps()
            status = "done"
            return self.result(began, time.perf_counter() - start)
        except KeyboardInterrupt as e:
            status = "cancelled"
            raise Cancelled("interrupted") from e
        except Cancelled:
            status = "cancelled"
            raise
        except RunError as e:
            self.log.emit("failed", e.problem.node, e.problem.title, {"problem": e.problem.as_dict()})
            raise
        except ListenerFailed as e:
            assert e.__cause__
            raise e.__cause__ from None
        finally:
            self.values = []
            self.log.emit("done", data={"status": status, "seconds": time.perf_counter() - start})

    def steps(self) -> None:
        done = self.done
        wanted = self.wanted(self.plan.roots)
        self.announce(wanted)
        for i in wanted:
            done[i] = 2
        for i, dropped in enumerate(self.plan.frees):
            if done[i] == 2:
                self.advance(i)
            for j in dropped:
                self.values[j] = None

    def announce(self, wanted: Sequence[int]) -> None:
        steps = self.plan.steps
        data = {
            "steps": len(steps),
            "todo": [steps[i].node.id for i in wanted],
            "maybe": [steps[i].node.id for i in self.maybe(wanted)],
            "cached": [*self.cached],
            "merged": self.plan.merged,
            "resolved": [
                {"node": r.node, "input": r.input, "value": r.value, "source": r.source} for r in self.plan.resolved
            ],
        }
        self.log.emit("plan", data=data)
        for message in self.plan.warnings:
            self.warn("", "", message)
        self.report_cached(0)

    def maybe(self, wanted: Sequence[int]) -> list[int]:
        """Steps that run only if a lazy input requests them."""
        steps, sure = self.plan.steps, set(wanted)
        if not any(steps[i].node.entry.lazy for i in wanted):
            return []
        optional: set[int] = set()
        stack = [*wanted]
        while stack:
            for _, source, _ in steps[stack.pop()].links:
                if source in sure or source in optional or self.values[source] is not None:
                    continue
                if not (steps[source].cacheable and self.cache.get(steps[source].key)):
                    optional.add(source)
                    stack.append(source)
        return sorted(optional)

    def report_cached(self, first: int) -> None:
        """Emit an event for each cache hit from ``first`` on, with the warnings and notes of its run."""
        for i in self.hits[first:]:
            node = self.plan.steps[i].node
            self.log.emit("cached", node.id, node.title)
            self.recall(i)

    def wanted(self, targets: Iterable[int]) -> list[int]:
        """Steps that must run for the targets, in order; cached results are taken."""
        steps, values = self.plan.steps, self.values
        needed: set[int] = set()
        stack = [*targets]
        while stack:
            i = stack.pop()
            if i in needed or values[i] is not None:
                continue
            step = steps[i]
            hit = self.cache.get(step.key) if step.cacheable else None
            if hit is not None:
                values[i] = hit
                self.done[i] = 1
                self.cached.append(step.node.id)
                self.hits.append(i)
                continue
            needed.add(i)
            lazy = step.node.entry.lazy
            stack.extend(source for name, source, _ in step.links if name not in lazy)
        return sorted(needed)

    def advance(self, index: int) -> None:
        """Run a step and, before it, what its lazy inputs request; an explicit stack, so depth does not matter."""
        stack = [index]
        while stack:
            if self.cancelled:
                raise Cancelled(f"the run {self.id!r} was cancelled")
            i = stack[-1]
            if self.values[i] is not None:
                stack.pop()
                continue
            try:
                self.step(self.plan.steps[i])
            except Wanted as e:
                first = len(self.cached)
                stack.extend(reversed(self.wanted([e.step])))
                self.report_cached(first)
            else:
                stack.pop()

    # One step

    def step(self, step: Step) -> None:
        node, spec = step.node, step.node.entry.spec
        emit = self.log.emit
        if node.id not in self.timings:
            self.timings[node.id] = 0.0
            emit("started", node.id, node.title)
        start = time.perf_counter()
        arguments: dict[str, Any] = {}
        before = self.inputs(step) if node.entry.shared else []
        changed = ""
        try:
            arguments = self.arguments(step)
            with self.process_restored(step):
                result = spec.call(arguments)
                if spec.streams:
                    result = self.drive(step, result)
            outputs = outputs_of(node.entry, result)
        except (Cancelled, RunError, Wanted, ListenerFailed, KeyboardInterrupt):
            raise
        except BaseException as e:  # some libraries raise BaseException
            raise self.failure(step, arguments, e) from e
        finally:
            arguments.clear()  # a traceback must not keep tensors alive
            if before and (changed := sharing.changed(before)):
                self.cache.clear()  # other results may share the changed value
            before.clear()
            seconds = self.timings[node.id] = self.timings[node.id] + time.perf_counter() - start
        if changed:
            message = f"{spec.id} changed its input {changed} in place; a node must work on a copy"
            raise RunError(Problem(code="changed_input", message=message, node=node.id, title=node.title))
        self.values[step.at] = outputs
        self.done[step.at] = 1
        self.keep(step, outputs)
        emit("finished", node.id, node.title, {"seconds": seconds})

    def process_restored(self, step: Step) -> AbstractContextManager[None]:
        """Restore process settings after the call of a node that is not pipegraph's own."""
        node = step.node
        if node.entry.own:
            return nullcontext()
        warn = partial(self.warn, node.id, node.title)
        return process_state.restored(node.entry.spec.id, warn, drawn=node.entry.spec.effect != "volatile")

    def inputs(self, step: Step) -> list[sharing.Held]:
        """Linked inputs that the node might change in place."""
        entry, values = step.node.entry, self.values
        plain, deep = entry.plain, not entry.own
        return [
            sharing.held(name, outputs[output], deep=deep)
            for name, source, output in step.links
            if name not in plain and (outputs := values[source]) is not None
        ]

    def arguments(self, step: Step) -> dict[str, Any]:
        """The arguments of the node's function."""
        entry = step.node.entry
        spec, values = entry.spec, self.values
        arguments = dict(step.values)
        if entry.lazy:
            for name in entry.lazy & arguments.keys():
                arguments[name] = Available(arguments[name])
        for name, source, output in step.links:
            if name in entry.lazy:
                arguments[name] = Linked(self, step, name, source, output)
            else:
                arguments[name] = self.take(entry, name, values[source][output])  # type: ignore[index]
        if spec.context:
            arguments[spec.context] = Context(self, step)
        return arguments

    @staticmethod
    def take(entry: Entry, name: str, value: Any) -> Any:
        """A value from a link; plain values are checked against the limits of the port."""
        if name not in entry.plain or type(value) is entry.unlimited.get(name):
            return value
        port = entry.spec.inputs[name]
        if port.auto and value == "auto":
            raise ValueError(f'input "{name}": "auto" must be in the graph, it cannot come over a link')
        try:
            return fit(port, value, port.choices() if callable(port.choices) else port.choices)
        except Misfit as e:
            wanted = f"; wanted {e.wanted}" if e.wanted else ""
            raise ValueError(f'input "{name}": {e.message}; got {shown(value)}{wanted}') from None

    def drive(self, step: Step, stream: Any) -> Any:
        """Forward the events of a generator node; a cancelled run stops at the next event."""

        def each(event: NodeEvent) -> None:
            self.forward(step, event)
            if self.cancelled:
                raise Cancelled(f"the run {self.id!r} was cancelled")

        try:
            return finish(stream, each)
        finally:
            stream.close()

    def forward(self, step: Step, event: NodeEvent) -> None:
        id, title, emit = step.node.id, step.node.title, self.log.emit
        if isinstance(event, Progress):
            emit("progress", id, title, {"done": event.done, "total": event.total, "unit": event.unit})
        elif isinstance(event, Preview):
            emit("preview", id, title, {"pixels": event.pixels})
        elif isinstance(event, Text):
            emit("text", id, title, {"text": event.text})
        elif isinstance(event, Token):
            emit("token", id, title, {"text": event.text, "id": event.id, "sequence": event.sequence})
        elif isinstance(event, Saved):
            self.saved.append(event)
            emit("saved", id, title, {"path": event.path, "kind": event.kind, "temporary": event.temporary})
        else:
            raise TypeError(f"the node yielded {shown(event)}, which is no event")

    def keep(self, step: Step, outputs: tuple[Any, ...]) -> None:
        """Cache a result, unless it is not finite."""
        measured = measure(outputs)
        if not measured.finite:
            self.warn(step.node.id, step.node.title, "the result holds NaN or infinite numbers; it is not cached")
        elif step.cacheable:
            own = [message for id, message in self.warnings if id == step.node.id]
            used = frozenset(self.plan.steps[i].key for _, i, _ in step.links if self.values[i] is not None)
            self.cache.remember(step.key, Trail(own, self.notes.get(step.node.id, {}), used))
            self.cache.put(step.key, outputs, measured.parts)

    def recall(self, index: int) -> None:
        """Repeat the warnings and notes of a cached result and of its inputs."""
        stack = [index]
        while stack:
            i = stack.pop()
            step = self.plan.steps[i]
            if i in self.recalled or step.node.id in self.timings:
                continue
            self.recalled.add(i)
            trail = self.cache.trail(step.key)
            for message in trail.warnings:
                self.warn(step.node.id, step.node.title, message)
            if trail.notes:
                self.notes[step.node.id] = {**trail.notes}
            stack.extend(source for _, source, _ in step.links if self.plan.steps[source].key in trail.sources)

    def warn(self, node: str, title: str, message: str) -> None:
        self.warnings.append((node, message))
        self.log.emit("warning", node, title, {"message": message})

    def failure(self, step: Step, arguments: Mapping[str, Any], error: BaseException) -> RunError:
        traceback.clear_frames(error.__traceback__)  # free the tensors of the failed node
        message = message_of(error)
        no_memory = isinstance(error, MemoryError) or any(words in message for words in NO_MEMORY)
        hint = "Out of memory: a smaller size or batch, tiled decoding, or a smaller dtype needs less."
        return RunError(
            Problem(
                code="node_failed",
                message=message,
                node=step.node.id,
                title=step.node.title,
                got=", ".join(f"{k}={_short(arguments[k])}" for k in step.node.entry.spec.inputs if k in arguments),
                hint=hint if no_memory else "",
            )
        )

    def result(self, began: float, seconds: float) -> Result:
        values = {name: self.values[i][output] for name, (i, output) in self.plan.outputs.items()}  # type: ignore[index]
        outputs = {name: sharing.copied(value) for name, value in values.items()}  # the cache shares its values
        paths = [saved.path for saved in self.saved if not saved.temporary]
        run = {
            "id": self.id,
            "status": "done",
            "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
            "seconds": round(seconds, 4),
            "timings": {id: round(t, 5) for id, t in self.timings.items()},
            "cached": self.cached,
            "files": [str(path) for path in paths],
            "warnings": record_of.warnings(self.warnings),
            "peak_memory": record_of.peak_memory(),
        }
        warnings = [message for _, message in self.warnings]
        return Result(
            self.id, outputs, paths, self.timings, self.cached, warnings, self.plan, run, self.notes, self.log
        )


def _short(value: Any) -> str:
    return "lazy" if isinstance(value, Linked | Available) else shown(value)
