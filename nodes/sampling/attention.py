"""Attention that leaves pairs of tokens out: faster, and not the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import node

from ..wire import Model

Count = Annotated[int, Ge(1), Le(256)]


@node("SlidingTileAttention", category="advanced/model", title="Sliding Tile Attention")
def sliding_tile_attention(
    model: Model,
    tile_frames: Count = 6,
    tile_height: Count = 8,
    tile_width: Count = 8,
    window_frames: Count = 3,
    window_height: Count = 3,
    window_width: Count = 3,
) -> Model:
    """Let each part of a clip attend to the parts around it only: less work on long clips, and other results.

    The tokens of the clip are cut into tiles, and each tile sees a window of tiles around it. Networks of Wan and
    HunyuanVideo; between clip and text attention is as it was. How far the results of attention are off at the first
    step, and the share of the pairs that is computed, are said as a warning.

    Args:
        model: The model to change.
        tile_frames: Length of a tile in tokens; a token is a latent frame long.
        tile_height: Height of a tile in tokens, each 16 pixels (32 of Wan 2.2 5B).
        tile_width: Width of a tile in tokens.
        window_frames: How many tiles are seen along time; at the ends of the clip the window is moved inside.
        window_height: How many tiles are seen from top to bottom.
        window_width: How many tiles are seen from left to right.
    """
    from pipegraph.models.patches.sliding_tiles import SlidingTiles

    tile, window = (tile_frames, tile_height, tile_width), (window_frames, window_height, window_width)
    tiles = SlidingTiles.of(model.loaded.network, tile, window)
    others = tuple(p for p in model.patches if not isinstance(p, SlidingTiles))
    return replace(model, patches=(*others, tiles))
