"""Images among the tokens of a sequence: inputs of the vision tower, and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Picture:
    """An image in a sequence: placeholder tokens, replaced by the output of the vision tower."""

    spots: tuple[int, ...]
    """Indices of its tokens in the sequence, ascending."""
    inputs: Mapping[str, Tensor]
    """Inputs of the vision tower, by transformers' names."""
    grid: tuple[int, int] | None = None
    """Rows and columns of its tokens, which are then contiguous, for models with 2-D positions."""

    def moved(self, by: int) -> Picture:
        """The same image ``by`` tokens later."""
        return replace(self, spots=tuple(spot + by for spot in self.spots))


def positions(pictures: Sequence[Picture], start: int, stop: int) -> Tensor:
    """Time, row and column, int64 [3, stop - start], of the tokens ``start`` .. ``stop`` of a sequence.

    Text counts up in all three. An image of r rows and c columns that begins at p has the positions p, p + row and
    p + column; text after it continues from p + max(r, c) (M-RoPE: Wang et al., 2024, arXiv:2409.12191, 2.1).
    """
    coordinates = torch.arange(start, stop).repeat(3, 1)
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
            coordinates[:, low - start : high - start] = first + shift + inside
        shift += max(rows, columns) - (end - first)
        if end < stop:
            coordinates[:, max(end - start, 0) :] = torch.arange(max(end, start), stop) + shift
    return coordinates
