"""Tensors in files under the names a network wants: a whole stored tensor, or some of its rows. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from .header_values import LoadError, stored_bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Where one tensor of a network lies."""

    file: Path
    key: str
    """Its name in the file."""
    shape: tuple[int, ...]
    dtype: str
    begin: int
    """First byte of the stored tensor."""
    start: int = 0
    """First row, where the stored tensor holds more than this one."""
    swap: bool = False
    """Its second half of rows comes first."""
    group: int = 0
    stride: int = 0
    """Of rows that lie in groups: how many are in a group, and from where to where it is to the next; 0: all."""
    scale: Piece | None = None
    """What it is to be multiplied by: one number, or one for each row of the stored tensor."""
    outer: Piece | None = None
    """The one number that the scales of NVFP4 are multiplied by."""
    tiled: bool | None = None
    """Whether the scales of NVFP4 lie in tiles or, as they are meant, in rows; None: the header does not tell it."""
    transposed: bool = False
    """It is stored as (K, N), its shape is (N, K)."""
    rotate: int = 0
    """Block of the rotation it is stored in (``kernels/weights/hadamard.py``), 0 if none."""

    def rows(self, start: int, count: int) -> Piece:
        """Rows ``start`` to ``start + count`` of it."""
        return replace(self, start=start, shape=(count, *self.shape[1:]))

    def strided(self, start: int, group: int, stride: int) -> Piece:
        """Of each ``stride`` rows, ``group`` from ``start``."""
        count = self.shape[0] // stride * group
        return replace(self, start=start, group=group, stride=stride, shape=(count, *self.shape[1:]))

    def swapped(self) -> Piece:
        """Its rows, the second half first."""
        return replace(self, swap=True)

    def transpose(self) -> Piece:
        """A matrix (K, N) as (N, K)."""
        return replace(self, shape=self.shape[::-1], transposed=not self.transposed)

    def flat(self) -> Piece:
        """A convolution's weight with kernels of size 1 as that of a linear layer."""
        is_pointwise = len(self.shape) > 2 and all(n == 1 for n in self.shape[2:])
        return replace(self, shape=self.shape[:2]) if is_pointwise else self

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Its bytes in the file as (first, count), in the order of its rows.

        Raises:
            LoadError: they begin or end within a block.
        """
        if not self.shape:
            return [(self.begin, stored_bytes(self.dtype, 1))]
        count, row = self.shape[0], prod(self.shape[1:])
        half = count // 2
        parts = [(half, count - half), (0, half)] if self.swap else [(0, count)]
        if self.stride:
            parts = [(i * self.stride, self.group) for i in range(count // self.group)]
        ranges = []
        for first, rows in parts:
            begin, size = stored_bytes(self.dtype, (self.start + first) * row), stored_bytes(self.dtype, rows * row)
            if begin < 0 or size < 0:
                raise LoadError(f"{self.file}: rows of `{self.key}` are no whole blocks of {self.dtype}")
            ranges.append((self.begin + begin, size))
        return ranges

    @property
    def scale_rows(self) -> Piece | None:
        """The scales of its rows, in their order; the one scale if there is one for all."""
        if self.scale is None or prod(self.scale.shape) == 1:
            return self.scale
        scale = replace(self.scale, shape=self.shape[:1], start=self.start, swap=self.swap)
        return replace(scale, group=self.group, stride=self.stride)


def below(pieces: Mapping[str, Piece], prefix: str) -> dict[str, Piece]:
    """The pieces whose names begin with ``prefix``, named by the rest."""
    return {k.removeprefix(prefix): p for k, p in pieces.items() if k.startswith(prefix)}
