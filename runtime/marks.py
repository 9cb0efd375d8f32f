"""What ``Annotated[...]`` may say of an input or output of a node. Torch-free."""

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
    """What an input is, for types that several nodes share; a docstring that describes the input under Args wins."""

    text: str


@dataclass(frozen=True, slots=True)
class Choices:
    """A STRING input whose legal values are computed, without torch, when the graph is checked."""

    names: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class FileInput:
    """A STRING input that names files; their contents are part of the node's cache key.

    ``find`` turns the name into the files or folders it stands for, or raises ``LookupError`` with a sentence that
    says where was looked; its attributes ``message`` and ``advice``, if it has them, part what is wrong from what to
    do. ``names`` lists what could be named, for hints and forms. ``fault`` says in a sentence why one of the files
    cannot be used, as far as its header tells, else nothing; it is asked when the graph is checked.
    """

    find: Callable[[str], Sequence[Path]]
    names: Callable[[], Sequence[str]]
    fault: Callable[[Path], str] | None = None


@dataclass(frozen=True, slots=True)
class FileName:
    """A STRING input from which the name of a file to write is made; a bad one is found before anything runs.

    ``example`` gives a name for ``RunContext.write`` as the node will make it from the text.
    """

    example: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Auto:
    """The value ``"auto"`` is allowed: the plan puts the model's recommendation for ``key`` in its place."""

    key: str


@dataclass(frozen=True, slots=True, init=False)
class Under:
    """An input that there is only while the COMBO input ``choice`` is one of some; graphs name it ``choice.name``."""

    choice: str
    values: tuple[str, ...]

    def __init__(self, choice: str, *values: str) -> None:
        object.__setattr__(self, "choice", choice)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, slots=True)
class Grows:
    """As many inputs as are given, each under one of these names: graphs call them ``input.name``.

    The node's parameter is a mapping of those that are there, by name.
    """

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Needs:
    """A linked input that the model must be able to use: the ``recommend`` of its loader says ``ability: True``."""

    ability: str
    lacking: str
    """What a model does that cannot, e.g. ``reads text only``."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far one click moves a number in a form."""

    by: float


@dataclass(frozen=True, slots=True)
class OneMoreThan:
    """A count that is one more than a multiple: of frames 4n + 1, where a latent holds 1 frame or 4. Or ``by`` more."""

    multiple: int
    by: int = 1


@dataclass(frozen=True, slots=True)
class NotBelow:
    """A number that must not be less than that of another input: an end, of its start."""

    input: str


@dataclass(frozen=True, slots=True)
class Seed:
    """An INT that seeds randomness: ``null`` in a graph means one drawn before the run and recorded."""


@dataclass(frozen=True, slots=True)
class Multiline:
    """A STRING shown as a text area."""
