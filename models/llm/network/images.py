"""Pictures among the tokens of a sequence: what a vision tower reads of each, and the positions that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Picture:
    """A picture in a sequence: placeholders, in whose places stands what the vision tower makes of it."""

    spots: tuple[int, ...]
    """Indices of these tokens in the sequence, rising."""
    inputs: Mapping[str, Tensor]
    """What the tower of this model reads, by transformers' names."""
    grid: tuple[int, int] | None = None
    """Rows and columns of its tokens, which then lie side by side, for models whose positions are of two dimensions."""

    def moved(self, by: int) -> Picture:
        """The same ``by`` tokens further on."""
        return replace(self, spots=tuple(spot + by for spot in self.spots))


def positions(pictures: Sequence[Picture], start: int, stop: int) -> Tensor:
    """Time, row and column, int64 [3, stop - start], of the tokens ``start`` .. ``stop`` of a sequence.

    A text counts on in all three. A picture of r rows and c columns that begins at p has the positions p, p + row and
    p + column, and what follows it goes on from p + max(r, c) (M-RoPE: Wang et al., 2024, arXiv:2409.12191, 2.1).
    """
    made = torch.arange(start, stop).repeat(3, 1)
    shift = 0
    for picture in pictures:
        assert picture.grid is not None
        rows, columns = picture.grid
        first, end = picture.spots[0], picture.spots[-1] + 1
        if first >= stop:
            break
        low, high = max(first, start), min(end, stop)
        if low < high:
            at = torch.arange(low, high) - first
            inside = torch.stack([torch.zeros_like(at), at // columns, at % columns])
            made[:, low - start : high - start] = first + shift + inside
        shift += max(rows, columns) - (end - first)
        if end < stop:
            made[:, max(end - start, 0) :] = torch.arange(max(end, start), stop) + shift
    return made
