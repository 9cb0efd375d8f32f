"""What is known of a node once it is declared: its ports with their limits, and what it may ask of the runtime.

Torch-free; ``node.py`` makes these from functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar

from .marks import FileInput, FileName, Grows, Needs, Under

T_co = TypeVar("T_co", covariant=True)
Effect = Literal["pure", "random", "writes", "volatile"]
"""pure: cached by content. random: pure once its seed is drawn. writes: runs each time, its inputs may be cached.
volatile: never cached."""
MISSING: Final = object()
PLAIN_TYPES: Final = {int: "INT", float: "FLOAT", str: "STRING", bool: "BOOLEAN"}


class Lazy(Protocol[T_co]):
    """An input that is computed only when asked for."""

    def get(self) -> T_co:
        """Compute the input, or return it if it is there already."""
        ...

    def lost_texts(self) -> Sequence[str]:
        """The multi-line texts (prompts) that reach the node by this input only; nothing is computed for it."""
        ...


class RunContext(Protocol):
    """What a running node may ask of the runtime; a parameter of this type is no input of the graph."""

    @property
    def output_dir(self) -> Path:
        """Folder for files the user keeps."""
        ...

    @property
    def temp_dir(self) -> Path:
        """Folder for previews, swept by later runs."""
        ...

    @property
    def node_id(self) -> str: ...

    @property
    def reproduce(self) -> Mapping[str, Any]:
        """What makes this run again: keys ``prompt`` (ComfyUI API form), ``workflow`` and ``pipegraph``, all JSON."""
        ...

    @property
    def device(self) -> str:
        """Where networks run, e.g. ``cpu`` or ``cuda:0``."""
        ...

    @property
    def dtype(self) -> str:
        """``auto``, ``fp32``, ``fp16`` or ``bf16``."""
        ...

    @property
    def quantize(self) -> str:
        """How the weights of diffusion networks and text encoders are to be kept; empty: as they are."""
        ...

    def warn(self, message: str) -> None:
        """Say a loss or a doubt aloud: it is printed, sent as an event and kept in the run record."""
        ...

    def note(self, key: str, value: Any) -> None:
        """Put a JSON value about this node into the run record (LoRA keys used, token counts, ...)."""
        ...

    def progress(self, done: int, total: int, unit: str = "it") -> None:
        """Say how far the node is, where it is no generator that yields ``Progress``."""
        ...

    def scratch(self) -> Path:
        """The path of a new file in ``output_dir`` for what is written piece by piece and then given to :meth:`write`.

        The node removes it where it does not get so far.
        """
        ...

    def write(self, name: str, data: bytes | Path, *, temporary: bool = False) -> Path:
        """Write a file under ``output_dir`` (or ``temp_dir``) whole or not at all; a :meth:`scratch` file is moved.

        ``name`` may hold folders and must contain ``%n``, which becomes the lowest free counter (``00001``, ...), safe
        against other writers. A name that leaves the folder is refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class Port:
    """One named, typed input or output."""

    name: str
    type: str
    """Wire type (``IMAGE``, ``INT``, ``COMBO``, ``*``); several that are all accepted are joined by commas."""
    doc: str = ""
    default: Any = MISSING
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    multiple_of: float | None = None
    not_below: str | None = None
    """The input that a value must not be less than."""
    offset: int = 0
    """What a legal value leaves over when divided by ``multiple_of``."""
    step: float | None = None
    choices: tuple[str, ...] | Callable[[], Sequence[str]] | None = None
    file: FileInput | None = None
    file_name: FileName | None = None
    auto: str | None = None
    seed: bool = False
    multiline: bool = False
    lazy: bool = False
    nullable: bool = False
    under: Under | None = None
    grows: Grows | None = None
    needs: Needs | None = None

    @property
    def required(self) -> bool:
        return self.default is MISSING


Linked = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Inputs that come over a link, by name: the type of the node that each comes from, and the literal inputs it has."""


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Everything that checking, planning, a server and the docs know of a node."""

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
    groups: frozenset[str] = frozenset()
    """Parameters that are mappings of inputs (``Grows``)."""
    check: Callable[[Mapping[str, Any], Linked], Iterable[tuple[str, str]]] | None = None
    """Torch-free: literal inputs that fit, and the linked ones -> (input, what is wrong with it, in words)."""
    recommend: Callable[..., Mapping[str, Any]] | None = None
    """Torch-free: literal inputs of a loader -> what its model recommends for ``auto``, and other facts of it."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Of a node that gives back a model: the facts of it that are other than those its loader told."""
    check_model: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    """Torch-free: literal inputs, ``auto`` resolved, and the facts of the linked model, none if they are not known ->
    (input, what is wrong with it, in words)."""
    size: Callable[[Mapping[str, Any]], int] | None = None
    """Literal inputs, ``auto`` resolved -> bytes that the node's outputs take at least; 0 where that is not known."""
    where: str = field(default="", compare=False)

    @property
    def saves(self) -> bool:
        """Whether it may write files."""
        return self.effect == "writes" and self.context is not None

    def call(self, given: Mapping[str, Any]) -> Any:
        """The function with arguments by the names of the inputs."""
        arguments: dict[str, Any] = {group: {} for group in self.groups}
        for name, limit in disorder(self.inputs, given):
            raise ValueError(f"{name} {given[name]:g} is less than {limit} {given[limit]:g}")
        for name, value in given.items():
            group, _, last = name.rpartition(".")
            if group not in self.groups:
                arguments[last] = value
            elif value is not None:
                arguments[group][last] = value
        return self.fn(**arguments)


def disorder(ports: Mapping[str, Port], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each input whose number is less than that of an input it must not be less than, and the name of the latter."""
    for name, port in ports.items():
        if port.not_below is not None:
            value, limit = values.get(name), values.get(port.not_below)
            if isinstance(value, int | float) and isinstance(limit, int | float) and value < limit:
                yield name, port.not_below


def broken_limit(port: Port, value: Any) -> str:
    """The limit of ``port`` that ``value`` breaks, in words, or an empty string. Computed choices are not asked."""
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
        return f"a multiple of {port.multiple_of}{plus}" + _nearest(port, value, port.multiple_of)
    return ""


def _nearest(port: Port, value: float, step: float) -> str:
    """The legal multiples of ``step`` next to ``value``, in words."""
    lower = (value - port.offset) // step * step + port.offset
    within = replace(port, multiple_of=None)
    legal = [v for v in (lower, lower + step) if abs(v - value) < step and not broken_limit(within, v)]
    words = [str(v) if isinstance(v, int) else f"{v:.15g}" for v in legal]
    return f", e.g. {' or '.join(words)}" if words else ""
