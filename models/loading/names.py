"""Names of tensors in files and in the class that reads them: one table, read in both directions. Torch-free.

Loading reads a table from files to the class; LoRA reads it from the class's layers to the names that files may have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from .pieces import Piece

Pieces = Mapping[str, Piece]


class Spelling(NamedTuple):
    """A layer's name in files, and the layers of the class that it is made of."""

    name: str
    layers: tuple[str, ...]
    """The file stacks their rows in this order."""
    swapped: bool = False
    """The file has the second half of the rows first."""


class Naming(Protocol):
    """How files name the tensors of a network."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        """The tensors by the class's names, and the names in the file that have no place in the class."""

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        """The names that files have for layers of the class."""

    def parameter(self, name: str) -> str:
        """A file's name of a whole parameter of the class; empty if it has none."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """A layer whose two halves of rows are exchanged in the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Exact:
    """A layer of the class that the file has as a convolution with kernels of size 1."""

    name: str


@dataclass(frozen=True, slots=True)
class Transposed:
    """A matrix that the file has with rows and columns exchanged."""

    name: str


Target = str | tuple[str, ...] | Swapped | Exact | Transposed
"""A layer or tensor of the class. A tuple: the file has these layers stacked in one."""


@dataclass(frozen=True, eq=False)
class Names:
    """A table from the file's layers (or whole tensors) to the class's. ``*`` stands for a number."""

    table: Mapping[str, Target]
    width: str = ""
    """A tensor in the file with as many rows as each stacked layer but the last; empty: all have equally many."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Last parts of names in the file that are called otherwise in the class, e.g. ``scale`` for ``weight``."""
    lora: Mapping[str, Target] = field(default_factory=dict)
    """Further rows that hold for LoRA files only."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        width = stored[self.width].shape[0] if self.width else 0
        tensors: dict[str, Piece] = {}
        unknown = []
        for name, piece in stored.items():
            if placed := dict(self._placed(name, piece, width)):
                tensors.update(placed)
            else:
                unknown.append(name)
        return tensors, unknown

    def _placed(self, name: str, piece: Piece, width: int) -> Iterator[tuple[str, Piece]]:
        stem, _, role = name.rpartition(".")
        known = role in ("weight", "bias", *self.roles)
        target, end = self._find(stem) if known else None, f".{self.roles.get(role, role)}"
        if target is None:
            target, end = self._find(name), ""
        if isinstance(target, tuple):
            rows = width or piece.shape[0] // len(target)
            for i, layer in enumerate(target):
                last = i == len(target) - 1
                yield layer + end, piece.rows(i * rows, piece.shape[0] - i * rows if last else rows)
        elif isinstance(target, Swapped):
            yield target.name + end, piece.swapped()
        elif isinstance(target, Exact):
            yield target.name + end, piece.flat()
        elif isinstance(target, Transposed):
            yield target.name + end, piece.transpose()
        elif target is not None:
            yield target + end, piece

    def _find(self, name: str) -> Target | None:
        for pattern, target in self._by_shape.get(_shape(name), ()):
            if match := pattern.fullmatch(name):
                return _filled(target, match.groups())
        return None

    @cached_property
    def _by_shape(self) -> dict[str, list[tuple[re.Pattern[str], Target]]]:
        index: dict[str, list[tuple[re.Pattern[str], Target]]] = {}
        for name, target in self.table.items():
            index.setdefault(_shape(name), []).append((_pattern(name), target))
        return index

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        known = set(layers)
        for layer in known:
            for pattern, name, target in self._by_layer.get(_shape(layer), ()):
                if match := pattern.fullmatch(layer):
                    parts = _layers(_filled(target, match.groups()))
                    if known.issuperset(parts):
                        yield Spelling(_numbered(name, match.groups()), parts, isinstance(target, Swapped))

    @cached_property
    def _by_layer(self) -> dict[str, list[tuple[re.Pattern[str], str, Target]]]:
        index: dict[str, list[tuple[re.Pattern[str], str, Target]]] = {}
        for name, target in (*self.table.items(), *self.lora.items()):
            first = _layers(target)[0]
            index.setdefault(_shape(first), []).append((_pattern(first), name, target))
        return index

    def parameter(self, name: str) -> str:
        stem, _, role = name.rpartition(".")
        for layer, end in ((stem, f".{role}"), (name, "")):
            for spelling in self.spelled([layer]):
                if len(spelling.layers) == 1 and not spelling.swapped:
                    return spelling.name + end
        return ""


@dataclass(frozen=True, eq=False)
class Components:
    """Names that differ in some of their parts between dots; an empty table: the class's own names."""

    table: Mapping[str, str] = field(default_factory=dict)
    """Part in the file -> part in the class."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        return {self.renamed(name): piece for name, piece in stored.items()}, []

    def renamed(self, name: str) -> str:
        """A name in the file by its name in the class."""
        return ".".join(self.table.get(part, part) for part in name.split("."))

    @cached_property
    def _back(self) -> dict[str, str]:
        return {new: old for old, new in self.table.items()}

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        for layer in layers if self.table else ():
            yield Spelling(self.parameter(layer), (layer,))

    def parameter(self, name: str) -> str:
        return ".".join(self._back.get(part, part) for part in name.split(".")) if self.table else ""


@dataclass(frozen=True, eq=False)
class Prefix:
    """The class's own names, with or without a prefix."""

    prefix: str

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        return {name.removeprefix(self.prefix): piece for name, piece in stored.items()}, []

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        for layer in layers:  # releases of the class have the prefix or not
            bare = layer.removeprefix(self.prefix)
            yield Spelling(bare if bare != layer else self.prefix + layer, (layer,))

    def parameter(self, name: str) -> str:
        return ""


@dataclass(frozen=True, eq=False)
class Renaming:
    """Names that a function brings to the class's, for networks that no LoRA file is about."""

    rename: Callable[[Pieces], tuple[dict[str, Piece], list[str]]]

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        return self.rename(stored)

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        return iter(())

    def parameter(self, name: str) -> str:
        return ""


SAME = Components()
"""Files with the class's own names."""


def each(rename: Callable[[str], str]) -> Renaming:
    """Names that are brought to the class's one by one; a name that becomes empty has no place."""

    def renamed(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        new = {name: rename(name) for name in stored}
        return {new[n]: piece for n, piece in stored.items() if new[n]}, [n for n in stored if not new[n]]

    return Renaming(renamed)


def blocks(file: str, cls: str, table: Mapping[str, Target]) -> dict[str, Target]:
    """The rows of a block's table, with what comes before them in the file and in the class."""

    def below(target: Target) -> Target:
        if isinstance(target, str):
            return f"{cls}.{target}"
        if isinstance(target, tuple):
            return tuple(f"{cls}.{name}" for name in target)
        return type(target)(f"{cls}.{target.name}")

    return {f"{file}.{name}": below(target) for name, target in table.items()}


def present(*names: str, absent: Iterable[str] = ()) -> Callable[[Mapping[str, object]], bool]:
    """Whether tensors of these names are in a file, and none of the others."""
    without = tuple(absent)
    return lambda stored: all(n in stored for n in names) and not any(n in stored for n in without)


def count(pieces: Iterable[str], pattern: str) -> int:
    """How many blocks there are: one more than the largest number that the group of ``pattern`` matches."""
    return 1 + max((int(m[1]) for name in pieces if (m := re.match(pattern, name))), default=-1)


def _layers(target: Target) -> tuple[str, ...]:
    if isinstance(target, tuple):
        return target
    return (target if isinstance(target, str) else target.name,)


def _shape(name: str) -> str:
    """A name without its numbers."""
    return re.sub(r"(?<![^.])(?:\d+|\*)(?![^.])", "#", name)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\*", r"(\d+)"))


def _numbered(name: str, numbers: Iterable[str | None]) -> str:
    for number in numbers:
        name = name.replace("*", str(number), 1)
    return name


def _filled(target: Target, numbers: tuple[str | None, ...]) -> Target:
    if isinstance(target, str):
        return _numbered(target, numbers)
    if isinstance(target, tuple):
        return tuple(_numbered(name, numbers) for name in target)
    return type(target)(_numbered(target.name, numbers))
