"""Which code computes attention, and sparse attention: faster, with different results."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, node

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
    """Use sliding tile attention: less work on long videos, with different results.

    Video tokens are grouped into tiles, and each tile attends to a window of tiles around it. For Wan and HunyuanVideo;
    attention between video and text is full. A warning gives the error of attention at the first step and the share of
    pairs that is computed.

    Args:
        model: Model to patch.
        tile_frames: Length of a tile in tokens; a token spans one latent frame.
        tile_height: Height of a tile in tokens, 16 pixels each (32 for Wan 2.2 5B).
        tile_width: Width of a tile in tokens.
        window_frames: Window length in tiles; at the ends of the video the window is shifted inside.
        window_height: Window height in tiles.
        window_width: Window width in tiles.
    """
    from pipegraph.models.patches.sliding_tiles import SlidingTiles

    tile, window = (tile_frames, tile_height, tile_width), (window_frames, window_height, window_width)
    tiles = SlidingTiles.of(model.loaded.network, tile, window)
    others = tuple(p for p in model.patches if not isinstance(p, SlidingTiles))
    return replace(model, patches=(*others, tiles))


_BACKENDS: Final = {"comfy kitchen attention": "comfy-kitchen", "pytorch attention": "torch"}


@node("ModelAttentionBackend", category="advanced/model", output="model")
def model_attention_backend(
    model: Model,
    ctx: RunContext,
    attention: Literal["comfy kitchen attention", "pytorch attention"] = "pytorch attention",
) -> Model:
    """Choose which code computes the attention of a model.

    Calls that it cannot serve go to the usual one; the run record says which were used. `--kernels` comes first.

    Args:
        model: Model to change.
        attention: comfy kitchen attention is in 8-bit integers, with other results, and needs a CUDA GPU.
    """
    from pipegraph.kernels.dispatch import backends
    from pipegraph.models.patches.attention_backend import AttentionBackend

    name = _BACKENDS[attention]
    if missing := backends("attention")[name].missing():
        ctx.warn(f"{attention} cannot be used ({missing}): the usual attention is")
        return model
    others = tuple(p for p in model.patches if not isinstance(p, AttentionBackend))
    return replace(model, patches=(*others, AttentionBackend(name)))
