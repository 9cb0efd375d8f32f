"""Tensors of a network as slices of stored tensors. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from .header_values import LoadError, stored_bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """A slice of a stored tensor that becomes one tensor of a network."""

    file: Path
    key: str
    """Name of the stored tensor."""
    shape: tuple[int, ...]
    dtype: str
    begin: int
    """Offset of the stored tensor's first byte."""
    start: int = 0
    """First row of the slice."""
    swap: bool = False
    """The second half of its rows comes first."""
    group: int = 0
    stride: int = 0
    """For interleaved rows: rows per group, and distance between group starts; 0: all rows."""
    scale: Piece | None = None
    """Factors to multiply by: a scalar, or one per row of the stored tensor."""
    outer: Piece | None = None
    """The per-tensor scale of NVFP4."""
    tiled: bool | None = None
    """Whether NVFP4 scales are tiled or in rows; None: the header does not tell."""
    transposed: bool = False
    """Stored as (K, N), while its shape is (N, K)."""
    rotate: int = 0
    """Block size of the rotation it is stored in (``kernels/weights/hadamard.py``), 0 without."""

    def rows(self, start: int, count: int) -> Piece:
        """Rows ``start`` to ``start + count``."""
        return replace(self, start=start, shape=(count, *self.shape[1:]))

    def strided(self, start: int, group: int, stride: int) -> Piece:
        """Take ``group`` consecutive rows out of every ``stride``, starting at row ``start``."""
        count = self.shape[0] // stride * group
        return replace(self, start=start, group=group, stride=stride, shape=(count, *self.shape[1:]))

    def swapped(self) -> Piece:
        """The same rows, second half first."""
        return replace(self, swap=True)

    def transpose(self) -> Piece:
        """The transpose of a matrix (K, N)."""
        return replace(self, shape=self.shape[::-1], transposed=not self.transposed)

    def flat(self) -> Piece:
        """The weight of a convolution with kernel size 1 as a linear layer's."""
        is_pointwise = len(self.shape) > 2 and all(n == 1 for n in self.shape[2:])
        return replace(self, shape=self.shape[:2]) if is_pointwise else self

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Byte ranges in the file as (first, count), in order of its rows.

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
        """The scales for its rows, in the same order; a scalar scale as it is."""
        if self.scale is None or prod(self.scale.shape) == 1:
            return self.scale
        scale = replace(self.scale, shape=self.shape[:1], start=self.start, swap=self.swap)
        return replace(scale, group=self.group, stride=self.stride)


def below(pieces: Mapping[str, Piece], prefix: str) -> dict[str, Piece]:
    """Pieces whose names begin with ``prefix``, without it."""
    return {k.removeprefix(prefix): p for k, p in pieces.items() if k.startswith(prefix)}
