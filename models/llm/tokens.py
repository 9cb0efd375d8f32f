"""Token ids of a batch of sequences, with the images between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .network.images import Picture


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token ids of a batch of sequences, which may be of different lengths."""

    ids: tuple[tuple[int, ...], ...]
    pictures: tuple[tuple[Picture, ...], ...] = ()
    """Images of each sequence, in order; empty if no sequence has any."""

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]], pictures: Iterable[Iterable[Picture]] = ()) -> Tokens:
        """From lists or a tensor [B, S]."""
        placed = tuple(map(tuple, pictures))
        return cls(tuple(tuple(int(i) for i in row) for row in rows), placed if any(placed) else ())

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Tokens) -> Tokens:
        """Append the other's sequences, by index."""
        ids = tuple(a + b for a, b in zip(self.ids, other.ids, strict=True))
        later = ([p.moved(len(row)) for p in other.pictures_of(s)] for s, row in enumerate(self.ids))
        return Tokens.of(ids, ((*self.pictures_of(s), *more) for s, more in enumerate(later)))

    def pictures_of(self, sequence: int) -> tuple[Picture, ...]:
        """The images of a sequence."""
        return self.pictures[sequence] if self.pictures else ()

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(len(row) for row in self.ids)
