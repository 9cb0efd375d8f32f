"""Inputs of a running node besides plain values: its context and lazy inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import files
from .errors import Cancelled
from .plan import Step
from .yields import Progress

if TYPE_CHECKING:
    from .execution import Execution


class Wanted(BaseException):
    """A lazy input was requested and is not computed yet. No ``Exception``, so that a node does not catch it."""

    def __init__(self, step: int) -> None:
        self.step = step


class Linked:
    """A lazy input that comes over a link."""

    __slots__ = ("_name", "_output", "_run", "_source", "_step")

    def __init__(self, run: Execution, step: Step, name: str, source: int, output: int) -> None:
        self._run, self._step, self._name, self._source, self._output = run, step, name, source, output

    def get(self) -> Any:
        values = self._run.values[self._source]
        if values is None:
            raise Wanted(self._source)
        return self._run.take(self._step.node.entry, self._name, values[self._output])

    def lost_texts(self) -> list[str]:
        steps = self._run.plan.steps
        others = [source for name, source, _ in self._step.links if name != self._name]
        used = _upstream(steps, others, set())
        return [
            text
            for at in sorted(_upstream(steps, [self._source], used))
            for name, text in steps[at].values.items()
            if steps[at].node.entry.spec.inputs[name].multiline and isinstance(text, str)
        ]


def _upstream(steps: Sequence[Step], start: Sequence[int], stop: set[int]) -> set[int]:
    """Steps upstream of ``start``, including it, up to ``stop``."""
    steps_above, stack = set[int](), [*start]
    while stack:
        index = stack.pop()
        if index not in steps_above and index not in stop:
            steps_above.add(index)
            stack.extend(source for _, source, _ in steps[index].links)
    return steps_above


class Available:
    """A lazy input with a literal value or a default."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value

    def lost_texts(self) -> list[str]:
        return []


class Context:
    """The RunContext of one step."""

    __slots__ = ("_run", "_step")

    def __init__(self, run: Execution, step: Step) -> None:
        self._run, self._step = run, step

    @property
    def output_dir(self) -> Path:
        return self._run.output_dir

    @property
    def temp_dir(self) -> Path:
        return self._run.temp_dir

    @property
    def node_id(self) -> str:
        return self._step.node.id

    @property
    def reproduce(self) -> Mapping[str, Any]:
        return self._run.reproduce

    @property
    def device(self) -> str:
        return self._run.plan.settings.device

    @property
    def dtype(self) -> str:
        return self._run.plan.settings.dtype

    @property
    def quantize(self) -> str:
        return self._run.plan.settings.quantize

    def warn(self, message: str) -> None:
        self._run.warn(self._step.node.id, self._step.node.title, message)

    def note(self, key: str, value: Any) -> None:
        self._run.notes.setdefault(self._step.node.id, {})[key] = value

    def progress(self, done: int, total: int, unit: str = "it") -> None:
        self._run.forward(self._step, Progress(done, total, unit))
        if self._run.cancelled:
            raise Cancelled(f"the run {self._run.id!r} was cancelled")

    def scratch(self) -> Path:
        return files.scratch(self._run.output_dir)

    def write(self, name: str, data: bytes | Path, *, temporary: bool = False) -> Path:
        if self._run.cancelled:
            raise Cancelled(f"the run {self._run.id!r} was cancelled")
        return files.write_new(self._run.temp_dir if temporary else self._run.output_dir, name, data)
