"""Sliding tiles: equal to dense attention with the mask of their pairs, and nothing else is computed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.audit import strict
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops import tiled_attention as module
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.tiled_attention import Size, tiled_attention, tiles_of

CASES: list[tuple[Size, Size, Size]] = [
    ((4, 4, 6), (2, 2, 2), (1, 1, 1)),  # only their own
    ((4, 8, 6), (2, 2, 2), (1, 3, 2)),
    ((3, 5, 7), (2, 2, 3), (1, 2, 2)),  # nothing divides
    ((1, 4, 4), (2, 2, 2), (3, 1, 3)),  # a tile longer than its axis, windows wider than theirs
    ((5, 3, 4), (2, 3, 1), (9, 9, 9)),  # all of it
]


def pairs(grid: Size, tile: Size, window: Size, text: int) -> Tensor:
    """Which token sees which, from the definition, pair by pair."""
    tile = tuple(min(t, g) for t, g in zip(tile, grid, strict=True))  # type: ignore[assignment]
    cells = list(itertools.product(*map(range, grid)))
    seen = torch.ones(len(cells) + text, len(cells) + text, dtype=torch.bool)
    for i, query in enumerate(cells):
        for j, key in enumerate(cells):
            for axis in range(3):
                count = -(-grid[axis] // tile[axis])
                wide = min(window[axis], count)
                first = query[axis] // tile[axis] - wide // 2
                first = 0 if first < 0 else count - wide if first + wide > count else first
                if not first <= key[axis] // tile[axis] < first + wide:
                    seen[i, j] = False
    return seen


def qkv(grid: Size, text: int = 0, heads: tuple[int, int] = (4, 2), dtype: torch.dtype = torch.float64) -> Any:
    draw = torch.Generator().manual_seed(0)
    s = grid[0] * grid[1] * grid[2] + text
    sizes = ((2, s, heads[0], 8), (2, s, heads[1], 8), (2, s, heads[1], 6))
    return [torch.randn(size, generator=draw, dtype=torch.float64).to(dtype).transpose(1, 2) for size in sizes]


@pytest.mark.parametrize("text", [0, 3])
@pytest.mark.parametrize(("grid", "tile", "window"), CASES)
@pytest.mark.parametrize("parts", [1, 100])
def test_equals_dense_attention_with_its_mask(
    grid: Size, tile: Size, window: Size, text: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GATHERED", 1 if parts > 1 else 1 << 27)
    q, k, v = qkv(grid, text)
    seen = pairs(grid, tile, window, text)
    want = attention(q, k, v, mask=seen, scale=0.3, backend="reference")
    got = tiled_attention(q, k, v, grid, tile, window, text=text, scale=0.3)
    assert got.shape == want.shape
    assert (got - want).norm() < 1e-12 * want.norm()
    count = grid[0] * grid[1] * grid[2]
    assert tiles_of(grid, tile, window).share == pytest.approx(float(seen[:count, :count].double().mean()))


def test_what_is_not_seen_is_not_touched() -> None:
    """NaN in the keys of one tile reaches the windows that hold it, and no other row."""
    grid, tile, window = (2, 6, 6), (2, 2, 2), (1, 1, 3)
    q, k, v = qkv(grid)
    k[:, :, 0] = torch.nan
    got = tiled_attention(q, k, v, grid, tile, window).isnan().any(-1).any(1)[0]
    assert torch.equal(got, pairs(grid, tile, window, 0)[:, 0])
    assert got.any() and not got.all()


def test_every_product_is_of_the_layer_and_in_the_dtype() -> None:
    q, k, v = qkv((3, 5, 7), dtype=torch.bfloat16)
    with strict() as seen:
        got = tiled_attention(q, k, v, (3, 5, 7), (2, 2, 3), (1, 2, 2))
    assert seen.attention and got.dtype == torch.bfloat16
    want = attention(*(t.double() for t in (q, k, v)), mask=pairs((3, 5, 7), (2, 2, 3), (1, 2, 2), 0))
    assert (got - want).norm() < 4e-3 * want.norm()


@pytest.mark.parametrize(
    ("grid", "tile", "window", "says"),
    [
        ((2, 2, 3), (1, 1, 1), (1, 1, 1), "are 12 tokens; there are 8 queries"),
        ((2, 2, 2), (0, 1, 1), (1, 1, 1), "a tile is frames, rows and columns"),
        ((2, 2, 2), (1, 1, 1), (1, 0, 1), "a window is"),
    ],
)
def test_refuses(grid: Size, tile: Size, window: Size, says: str) -> None:
    with pytest.raises(KernelError, match=says):
        q, k, v = qkv((2, 2, 2))
        tiled_attention(q, k, v, grid, tile, window)
