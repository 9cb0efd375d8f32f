"""Node specs: ports with their limits, and the interface of the runtime for nodes.

Torch-free; ``node.py`` makes these from functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from .marks import FileInput, FileName, Formerly, Grows, Needs, Under

T_co = TypeVar("T_co", covariant=True)
Effect = Literal["pure", "random", "writes", "volatile"]
"""pure: cached by content. random: pure once its seed is drawn. writes: runs each time, its inputs may be cached.
volatile: never cached."""
MISSING: Final = object()
PLAIN_TYPES: Final = {int: "INT", float: "FLOAT", str: "STRING", bool: "BOOLEAN"}


class Lazy(Protocol[T_co]):
    """An input that is computed only when requested."""

    def get(self) -> T_co:
        """Compute the input, or return it if it is computed already."""
        ...

    def lost_texts(self) -> Sequence[str]:
        """Multi-line texts (prompts) that reach the node only by this input; nothing is computed."""
        ...


class RunContext(Protocol):
    """Interface of the runtime for a running node; a parameter of this type is no graph input."""

    @property
    def output_dir(self) -> Path:
        """Folder for output files."""
        ...

    @property
    def temp_dir(self) -> Path:
        """Folder for previews, swept by later runs."""
        ...

    @property
    def node_id(self) -> str: ...

    @property
    def reproduce(self) -> Mapping[str, Any]:
        """Metadata that reproduces this run, as JSON: ``prompt`` (ComfyUI API form), ``workflow`` and ``pipegraph``."""
        ...

    @property
    def device(self) -> str:
        """Device of networks, e.g. ``cpu`` or ``cuda:0``."""
        ...

    @property
    def dtype(self) -> str:
        """``auto``, ``fp32``, ``fp16`` or ``bf16``."""
        ...

    @property
    def quantize(self) -> str:
        """Quantization of diffusion networks and text encoders; empty: none."""
        ...

    def warn(self, message: str) -> None:
        """Warn: printed, sent as an event and kept in the run record."""
        ...

    def note(self, key: str, value: Any) -> None:
        """Put a JSON value about this node into the run record (LoRA keys used, token counts, ...)."""
        ...

    def progress(self, done: int, total: int, unit: str = "it") -> None:
        """Report progress of a node that is no generator."""
        ...

    def scratch(self) -> Path:
        """Path of a new file in ``output_dir`` for incremental writes, later passed to :meth:`write`.

        The node removes it on failure.
        """
        ...

    def write(self, name: str, data: bytes | Path, *, temporary: bool = False) -> Path:
        """Write a file under ``output_dir`` (or ``temp_dir``) atomically; a :meth:`scratch` file is moved.

        ``name`` may hold folders and must contain ``%n``, which becomes the lowest free counter (``00001``, ...), safe
        against other writers. A name outside the folder is an error.
        """
        ...


@dataclass(frozen=True, slots=True)
class Port:
    """One named, typed input or output."""

    name: str
    type: str
    """Wire type (``IMAGE``, ``INT``, ``COMBO``, ``*``); several accepted types are joined by commas."""
    doc: str = ""
    default: Any = MISSING
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    multiple_of: float | None = None
    not_below: str | None = None
    """Input that is a lower bound of the value."""
    offset: int = 0
    """Remainder of a legal value modulo ``multiple_of``."""
    step: float | None = None
    choices: tuple[str, ...] | Callable[[], Sequence[str]] | None = None
    file: FileInput | None = None
    file_name: FileName | None = None
    auto: str | None = None
    seed: bool = False
    multiline: bool = False
    extra: bool = False
    lazy: bool = False
    nullable: bool = False
    under: Under | None = None
    formerly: Formerly | None = None
    grows: Grows | None = None
    needs: Needs | None = None

    @property
    def required(self) -> bool:
        return self.default is MISSING


Linked = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Linked inputs by name: type and literal inputs of the source node."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Declaration of a node, for checking, planning, servers and docs."""

    id: str
    fn: Callable[..., Any]
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    category: str
    title: str
    doc: str
    effect: Effect = "pure"
    version: int = 1
    output_node: bool = False
    """Runs even if nothing reads its outputs."""
    context: str | None = None
    """Name of the parameter that takes the RunContext."""
    streams: bool = False
    """The function is a generator of NodeEvents that returns its outputs."""
    ignores: str = ""
    """Regular expression of inputs that editors add and that are no inputs of the node."""
    rest: str = ""
    """Input that gets the plain values of those, by name."""
    groups: frozenset[str] = frozenset()
    """Parameters that are mappings of inputs (``Grows``)."""
    check: Callable[[Mapping[str, Any], Linked], Iterable[tuple[str, str]]] | None = None
    """Torch-free: valid literal inputs and linked inputs -> (input, problem)."""
    recommend: Callable[..., Mapping[str, Any]] | None = None
    """Torch-free: literal inputs of a loader -> its model's recommendations for ``auto``, and other facts."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """For a node that returns a model: facts that differ from its loader's."""
    check_model: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    """Torch-free: literal inputs, ``auto`` resolved, and the facts of the linked model (empty if unknown) ->
    (input, problem)."""
    size: Callable[[Mapping[str, Any]], int] | None = None
    """Literal inputs, ``auto`` resolved -> minimum bytes of the node's outputs; 0 if unknown."""
    where: str = field(default="", compare=False)

    @property
    def saves(self) -> bool:
        """Whether the node may write files."""
        return self.effect == "writes" and self.context is not None

    def call(self, inputs: Mapping[str, Any]) -> Any:
        """Call the function with inputs by name."""
        arguments: dict[str, Any] = {group: {} for group in self.groups}
        for name, limit in disorder(self.inputs, inputs):
            raise ValueError(f"{name} {inputs[name]:g} is less than {limit} {inputs[limit]:g}")
        for name, value in inputs.items():
            group, _, last = name.rpartition(".")
            if group not in self.groups:
                arguments[last] = value
            elif value is not None:
                arguments[group][last] = value
        return self.fn(**arguments)


def disorder(ports: Mapping[str, Port], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Inputs that are less than their lower-bound input, with the name of the latter."""
    for name, port in ports.items():
        if port.not_below is not None:
            value, limit = values.get(name), values.get(port.not_below)
            if isinstance(value, int | float) and isinstance(limit, int | float) and value < limit:
                yield name, port.not_below


def broken_limit(port: Port, value: Any) -> str:
    """The limit of ``port`` that ``value`` breaks, in words, or an empty string. Computed choices are not checked."""
    if value is None:
        return "" if port.nullable or port.seed else "a value"
    if port.auto and value == "auto":
        return ""
    if isinstance(port.choices, tuple):
        return "" if value in port.choices else "one of " + ", ".join(map(repr, port.choices))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if port.minimum is not None and not value >= port.minimum:
        return f"at least {port.minimum}"
    if port.maximum is not None and not value <= port.maximum:
        return f"at most {port.maximum}"
    if port.above is not None and not value > port.above:
        return f"above {port.above}"
    if port.below is not None and not value < port.below:
        return f"below {port.below}"
    if port.multiple_of is not None and value % port.multiple_of != port.offset:
        plus = f" plus {port.offset}" if port.offset else ""
        words = [str(v) if isinstance(v, int) else f"{v:.15g}" for v in _nearest(port, value, port.multiple_of)]
        return f"a multiple of {port.multiple_of}{plus}" + (f", e.g. {' or '.join(words)}" if words else "")
    return ""


def range_of(port: Port, value: Any) -> dict[str, Any]:
    """The limits of a port as data, and the legal numbers next to ``value``: the mend of a number out of range."""
    names = ("minimum", "maximum", "above", "below", "multiple_of")
    limits = {name: limit for name in names if (limit := getattr(port, name)) is not None}
    if port.offset:
        limits["offset"] = port.offset
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {"range": limits}
    closed = [limit for limit in (port.minimum, port.maximum) if limit is not None]
    near = _nearest(port, value, port.multiple_of) if port.multiple_of else []
    near = (
        near or sorted((limit for limit in closed if not broken_limit(port, limit)), key=lambda v: abs(v - value))[:1]
    )
    return {"range": limits, **({"nearest": near} if near else {})}


def _nearest(port: Port, value: float, step: float) -> list[float]:
    """The nearest legal multiples of ``step``."""
    lower = (value - port.offset) // step * step + port.offset
    within = replace(port, multiple_of=None)
    return [v for v in (lower, lower + step) if abs(v - value) < step and not broken_limit(within, v)]
