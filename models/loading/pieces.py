"""Tensors in files under the names a network wants: a whole stored tensor, or some of its rows. Torch-free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
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
    scale: str = ""
    """Name in the file of the one number it is to be multiplied by: ComfyUI's scaled fp8 weights."""

    def rows(self, start: int, count: int) -> Piece:
        """Rows ``start`` to ``start + count`` of it."""
        return replace(self, start=start, shape=(count, *self.shape[1:]))

    def swapped(self) -> Piece:
        return replace(self, swap=True)


def pieces_of(headers: Iterable[Header]) -> dict[str, Piece]:
    """All tensors of some files by their stored names; the scales of fp8 weights go with their weights."""
    found = {k: Piece(h.path, k, e.shape, e.dtype) for h in headers for k, e in h.tensors.items()}
    for name in [n for n in found if n.endswith((".scale_weight", ".weight_scale")) and prod(found[n].shape) == 1]:
        weight = f"{name.rpartition('.')[0]}.weight"
        if weight in found:
            found[weight] = replace(found[weight], scale=found.pop(name).key)
    return found


def below(pieces: Mapping[str, Piece], prefix: str) -> dict[str, Piece]:
    """The pieces whose names begin with ``prefix``, named by the rest."""
    return {k.removeprefix(prefix): p for k, p in pieces.items() if k.startswith(prefix)}
