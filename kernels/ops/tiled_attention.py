"""Sliding tile attention over a video's tokens (Zhang et al. 2025, arXiv 2502.04507).

The grid of tokens (frames, rows, columns) is cut into tiles. A query attends to a window of tiles around its own,
shifted inside at the edges of the grid, so that all windows have the same number of tiles. It equals
``attention`` with the mask of these pairs, and is that op over whole tiles: no pair outside the windows is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final, TypeAlias

import torch
from torch import Tensor

from ..dispatch import KernelError
from .attention import attention

Size: TypeAlias = tuple[int, int, int]
"""Frames, rows, columns."""
_GATHERED: Final = 1 << 27
"""Elements of keys that are gathered at once, to bound memory."""


@dataclass(frozen=True)
class Tiles:
    """A grid cut into tiles with their windows, grouped by size."""

    groups: tuple[tuple[Tensor, Tensor], ...]
    """int64 (n, m), int64 (n, k): sequence indices of the m tokens of n tiles, and of the k tokens of their windows."""
    share: float
    """Share of token pairs that is computed."""


@lru_cache(maxsize=4)
@torch.inference_mode(False)  # what is kept must serve outside of it too
def tiles_of(grid: Size, tile: Size, window: Size, device: torch.device | None = None) -> Tiles:
    """Cut a grid.

    Args:
        grid: Tokens of the sequence, which is in the order frames, rows, columns.
        tile: Tokens of a tile; the last one along an axis that it does not divide is smaller.
        window: Tiles per axis to attend to, at most all.
        device: Device of the indices.

    Raises:
        KernelError: an argument is not three positive numbers.
    """
    for name, size in (("grid", grid), ("tile", tile), ("window", window)):
        if len(size) != 3 or min(size) < 1:
            raise KernelError(f"tiled attention: a {name} is frames, rows and columns, each at least 1; got {size}")
    places = torch.arange(prod(grid)).view(grid)
    counts = [-(-g // t) for g, t in zip(grid, tile, strict=True)]
    widths = [min(w, n) for w, n in zip(window, counts, strict=True)]
    groups: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
    for place in product(*map(range, counts)):
        begins = [min(max(0, i - w // 2), n - w) for i, w, n in zip(place, widths, counts, strict=True)]
        own = _tokens(places, tile, place, [1, 1, 1])
        window_tokens = _tokens(places, tile, begins, widths)
        groups.setdefault((len(own), len(window_tokens)), []).append((own, window_tokens))
    computed = sum(own * window_tokens * len(members) for (own, window_tokens), members in groups.items())
    stacked = ((torch.stack([m[0] for m in g]), torch.stack([m[1] for m in g])) for g in groups.values())
    return Tiles(
        tuple((own.to(device), window_tokens.to(device)) for own, window_tokens in stacked), computed / prod(grid) ** 2
    )


def _tokens(places: Tensor, tile: Size, begin: Sequence[int], count: Sequence[int]) -> Tensor:
    """The tokens of ``count`` tiles along each axis from tile ``begin`` on."""
    return places[tuple(slice(t * i, t * (i + n)) for t, i, n in zip(tile, begin, count, strict=True))].flatten()


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grid: Size,
    tile: Size,
    window: Size,
    *,
    text: int = 0,
    scale: float | None = None,
    backend: str | None = None,
) -> Tensor:
    """Attend from every token to the tiles around it.

    Args:
        q: (B, Hq, S, D), float, any strides: the tokens of ``grid``, then those of the text.
        k: (B, Hkv, S, D), as in ``attention``.
        v: (B, Hkv, S, Dv).
        grid: Frames, rows and columns of tokens.
        tile: Tokens of a tile; tiles at the end of an axis that it does not divide are smaller.
        window: Tiles per axis to attend to, around the query's own.
        text: Tokens at the end with full attention.
        scale: D ** -0.5 by default.
        backend: Back end of ``attention``.

    Returns:
        (B, Hq, S, Dv) in the dtype of q.

    Raises:
        KernelError: the sequence is not that of the grid, or as ``attention``.
    """
    cut, cells = tiles_of(grid, tile, window, q.device), prod(grid)
    if not q.shape[2] == k.shape[2] == cells + text:
        raise KernelError(
            f"tiled attention: a grid of {grid} and {text} tokens of text are {cells + text} tokens; there are "
            f"{q.shape[2]} queries and {k.shape[2]} keys"
        )
    text_tokens = torch.arange(cells, cells + text, device=q.device)
    out = q.new_empty(q.shape[0], q.shape[2], q.shape[1], v.shape[3])
    row = max(1, k.shape[0] * k.shape[1] * max(k.shape[3], v.shape[3]))
    for own, window_tokens in cut.groups:
        step = max(1, _GATHERED // (row * (window_tokens.shape[1] + text)))
        for rows, keys in zip(own.split(step), window_tokens.split(step), strict=True):
            keys = torch.cat([keys, text_tokens.expand(len(keys), text)], 1)
            block = attention(_gather(q, rows), _gather(k, keys), _gather(v, keys), scale=scale, backend=backend)
            out.index_copy_(1, rows.flatten(), block.transpose(1, 2).reshape(len(q), -1, *out.shape[2:]))
    if text:
        out[:, cells:] = attention(q[:, :, cells:], k, v, scale=scale, backend=backend).transpose(1, 2)
    return out.transpose(1, 2)


def _gather(x: Tensor, places: Tensor) -> Tensor:
    """Gather (B, H, S, D) at indices (n, m): (B n, H, m, D)."""
    gathered = x.transpose(1, 2).index_select(1, places.flatten())
    return gathered.view(len(x) * len(places), places.shape[1], *gathered.shape[2:]).transpose(1, 2)
