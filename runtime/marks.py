"""Markers for ``Annotated[...]`` types of node inputs and outputs. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Wire:
    """Marks an annotation with the name of its wire type: ``Annotated[Tensor, Wire("IMAGE")]``. ``*`` is any type."""

    name: str


@dataclass(frozen=True, slots=True)
class Doc:
    """Description of an input, for types that several nodes share; a docstring's ``Args:`` entry takes precedence."""

    text: str


@dataclass(frozen=True, slots=True)
class Choices:
    """A STRING input whose legal values are computed, without torch, when the graph is checked."""

    names: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class FileInput:
    """A STRING input that names files; their contents are part of the node's cache key.

    ``find`` resolves the name to files or folders, or raises ``LookupError`` that says where it searched; optional
    attributes ``message`` and ``advice`` separate the problem from the fix. ``names`` lists known names, for hints and
    forms. ``fault`` says why a file cannot be used, judged by its header, or returns an empty string; it is called when
    the graph is checked.
    """

    find: Callable[[str], Sequence[Path]]
    names: Callable[[], Sequence[str]]
    fault: Callable[[Path], str] | None = None


@dataclass(frozen=True, slots=True)
class FileName:
    """A STRING input that becomes the name of an output file; checked before the run.

    ``example`` turns the text into a name for ``RunContext.write``, as the node will.
    """

    example: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Auto:
    """Allows the value ``"auto"``: the plan replaces it by the model's recommendation for ``key``."""

    key: str


@dataclass(frozen=True, slots=True, init=False)
class Under:
    """An input that exists only for some values of the COMBO input ``choice``; graphs name it ``choice.name``."""

    choice: str
    values: tuple[str, ...]

    def __init__(self, choice: str, *values: str) -> None:
        object.__setattr__(self, "choice", choice)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, slots=True)
class Grows:
    """A variable number of inputs with these names; graphs call them ``input.name``.

    The node's parameter is a mapping of the connected inputs by name.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formerly:
    """The name that the input has in older graphs, which are still read."""

    name: str


@dataclass(frozen=True, slots=True)
class Needs:
    """A linked input that needs an ability of the model: its loader's ``recommend`` says ``ability: True``."""

    ability: str
    lacking: str
    """Message for a model without it, e.g. ``reads text only``."""


@dataclass(frozen=True, slots=True)
class Step:
    """Step of a number in a form."""

    by: float


@dataclass(frozen=True, slots=True)
class OneMoreThan:
    """A count of the form ``multiple * n + by``, e.g. 4n + 1 frames."""

    multiple: int
    by: int = 1


@dataclass(frozen=True, slots=True)
class NotBelow:
    """A number that must not be less than another input, e.g. an end and its start."""

    input: str


@dataclass(frozen=True, slots=True)
class Extra:
    """An input that ComfyUI's node of the same name lacks: files of its editor hold no value for it by position."""


@dataclass(frozen=True, slots=True)
class Seed:
    """An INT seed: ``null`` in a graph means drawn before the run and recorded."""


@dataclass(frozen=True, slots=True)
class Multiline:
    """A STRING shown as a text area."""
