"""Overlapping tiles: where they lie, and how they are blended into one tensor."""

from __future__ import annotations

import torch
from torch import Tensor


def tile_starts(length: int, tile: int, overlap: int) -> list[int]:
    """Tile offsets that cover ``length``; the last tile is aligned to the end."""
    if length <= tile:
        return [0]
    return [*range(0, length - tile, tile - overlap), length - tile]


def tile_places(height: int, width: int, tile: int, overlap: int) -> list[tuple[int, int]]:
    """Top left corners of square tiles that cover ``height`` x ``width``; ``tile`` 0: a single tile."""
    rows, columns = (tile_starts(side, tile or side, overlap) for side in (height, width))
    return [(y, x) for y in rows for x in columns]


class Blend:
    """The weighted mean of overlapping tiles [..., H, W]; all sizes in cells, which tiles may hold scaled up."""

    def __init__(self, height: int, width: int, overlap: int) -> None:
        self._height, self._width, self._overlap = height, width, overlap
        self.total = self._weights = torch.zeros(())

    def add(self, tile: Tensor, y: int, x: int, rows: int, columns: int) -> None:
        """Add the tile of ``rows`` x ``columns`` cells at (y, x)."""
        factor = tile.shape[-1] // columns
        if self.total.ndim == 0:
            size = self._height * factor, self._width * factor
            self.total, self._weights = torch.zeros(*tile.shape[:-2], *size), torch.zeros(size)
        fade = _fade(y, rows, self._height, self._overlap, factor)[:, None]
        fade = fade * _fade(x, columns, self._width, self._overlap, factor)
        area = (..., slice(y * factor, (y + rows) * factor), slice(x * factor, (x + columns) * factor))
        self.total[area] += tile * fade
        self._weights[area] += fade

    def mean(self) -> Tensor:
        """The result once all tiles were added."""
        return self.total / self._weights


def _fade(start: int, size: int, length: int, overlap: int, factor: int) -> Tensor:
    """Weight of each pixel of a tile along one axis: 1, ramping to 0 at edges with a neighbour."""
    cut, width = overlap * factor / 4, max(overlap * factor / 2, 1e-6)
    place = torch.arange(size * factor) + 0.5
    left = ((place - cut) / width).clamp(0, 1) if start > 0 else torch.ones(len(place))
    right = ((size * factor - place - cut) / width).clamp(0, 1) if start + size < length else torch.ones(len(place))
    return left * right
