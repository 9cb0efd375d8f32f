"""Tensor names in files and in classes: one table for both directions. Torch-free.

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
    """A layer's name in files, and the class's layers it holds."""

    name: str
    layers: tuple[str, ...]
    """Their rows are stacked in this order."""
    swapped: bool = False
    """The two halves of its rows are swapped."""


class Naming(Protocol):
    """How files name the tensors of a network."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        """The pieces by the class's names, and unknown names."""

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        """File names for layers of the class."""

    def parameter(self, name: str) -> str:
        """The file's name for a parameter of the class; empty without one."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """A layer whose two halves of rows are swapped in the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Exact:
    """A linear layer stored as a convolution with kernel size 1."""

    name: str


@dataclass(frozen=True, slots=True)
class Transposed:
    """A matrix stored transposed."""

    name: str


Target = str | tuple[str, ...] | Swapped | Exact | Transposed
"""A layer or tensor of the class. A tuple: these layers are stacked in the file."""


@dataclass(frozen=True, eq=False)
class Names:
    """Maps the file's layers (or tensors) to the class's. ``*`` stands for a number."""

    table: Mapping[str, Target]
    width: str = ""
    """A tensor of the file with the row count of each stacked layer but the last; empty: all are equal."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Leaf names that differ, file -> class, e.g. ``scale`` -> ``weight``."""
    lora: Mapping[str, Target] = field(default_factory=dict)
    """Further entries for LoRA files only."""

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
    """Renames single components between dots; an empty table keeps the class's names."""

    table: Mapping[str, str] = field(default_factory=dict)
    """Component in the file -> component in the class."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        return {self.renamed(name): piece for name, piece in stored.items()}, []

    def renamed(self, name: str) -> str:
        """The file's name for a name of the class."""
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
    """The class's names, with or without a prefix."""

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
    """Names mapped by a function; for networks without LoRA support."""

    rename: Callable[[Pieces], tuple[dict[str, Piece], list[str]]]

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        return self.rename(stored)

    def spelled(self, layers: Iterable[str]) -> Iterator[Spelling]:
        return iter(())

    def parameter(self, name: str) -> str:
        return ""


SAME = Components()
"""Files with the class's names."""


def each(rename: Callable[[str], str]) -> Renaming:
    """Map names one by one; an empty result means an unknown name."""

    def renamed(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        new = {name: rename(name) for name in stored}
        return {new[n]: piece for n, piece in stored.items() if new[n]}, [n for n in stored if not new[n]]

    return Renaming(renamed)


def blocks(file: str, cls: str, table: Mapping[str, Target]) -> dict[str, Target]:
    """Entries of a block's table, prefixed for file and class."""

    def below(target: Target) -> Target:
        if isinstance(target, str):
            return f"{cls}.{target}"
        if isinstance(target, tuple):
            return tuple(f"{cls}.{name}" for name in target)
        return type(target)(f"{cls}.{target.name}")

    return {f"{file}.{name}": below(target) for name, target in table.items()}


def present(*names: str, absent: Iterable[str] = ()) -> Callable[[Mapping[str, object]], bool]:
    """A test that a file holds all of ``names`` and none of ``absent``."""
    without = tuple(absent)
    return lambda stored: all(n in stored for n in names) and not any(n in stored for n in without)


def count(pieces: Iterable[str], pattern: str) -> int:
    """Number of blocks: one more than the largest number matched by the group of ``pattern``."""
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
