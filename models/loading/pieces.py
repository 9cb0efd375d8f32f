"""Tensors in files under the names a network wants: a whole stored tensor, or some of its rows. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from .headers import Header


@dataclass(frozen=True, slots=True)
class Piece:
    """Where one tensor of a network lies."""

    file: Path
    key: str
    """Its name in the file."""
    shape: tuple[int, ...]
    dtype: str
    start: int = 0
    """First row, where the stored tensor holds more than this one."""
    swap: bool = False
    """Its second half of rows comes first."""

    def rows(self, start: int, count: int) -> Piece:
        """Rows ``start`` to ``start + count`` of it."""
        return replace(self, start=start, shape=(count, *self.shape[1:]))

    def swapped(self) -> Piece:
        return replace(self, swap=True)


def pieces_of(headers: Iterable[Header]) -> dict[str, Piece]:
    """All tensors of some files by their stored names."""
    return {k: Piece(h.path, k, e.shape, e.dtype) for h in headers for k, e in h.tensors.items()}


def below(pieces: Mapping[str, Piece], prefix: str) -> dict[str, Piece]:
    """The pieces whose names begin with ``prefix``, named by the rest."""
    return {k.removeprefix(prefix): p for k, p in pieces.items() if k.startswith(prefix)}
