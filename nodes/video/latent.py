"""Latents of clips: empty ones, and the rules of their sizes.

A clip of Wan's and Hunyuan's models has 4n + 1 frames: a latent frame for the first, and one for each four after it.
Sides are multiples of 16 pixels: 8 a latent cell, 2 cells a token. For an empty latent other numbers are cut, as in
ComfyUI; elsewhere they are refused before anything runs.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, Doc, OneMoreThan, RunContext, Step, node

from ..image.latent import cut_sizes
from ..ports import FRAME_SIDE, VideoCount
from ..utils.amounts import latents
from ..wire import Latent

Width = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("width"), FRAME_SIDE]
Height = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("height"), FRAME_SIDE]
Length = Annotated[int, Ge(1), Le(16384), OneMoreThan(4), Step(4), Auto("length"), Doc("How many frames: 1, 5, 9, ...")]
AnyWidth = Annotated[int, Ge(16), Le(16384), Step(16), Auto("width")]
AnyHeight = Annotated[int, Ge(16), Le(16384), Step(16), Auto("height")]
AnyLength = Annotated[int, Ge(1), Le(16384), Step(4), Auto("length")]


def cut_clip(ctx: RunContext, width: int, height: int, length: int) -> tuple[int, ...]:
    """Width, height and length that a clip has, cut as ComfyUI does; what changes is said."""
    return cut_sizes(ctx, width=(width, 16, 16), height=(height, 16, 16), length=(length, 4, 1))


@node(
    "EmptyHunyuanLatentVideo",
    category="latent/video",
    title="Empty HunyuanVideo 1.0 Latent",
    size=latents(16, 8, frames=4),
)
def empty_hunyuan_latent_video(
    ctx: RunContext,
    width: AnyWidth = 848,
    height: AnyHeight = 480,
    length: AnyLength = 25,
    batch_size: VideoCount = 1,
) -> Latent:
    """Make an empty latent of a clip, for Wan and HunyuanVideo: nothing to start from but a size.

    A model whose latent cells are larger (Wan 2.2's 5B: 16 pixels) makes clips of this size too, if it can.

    Args:
        width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
        height: Of the frames, in pixels, likewise.
        length: How many frames: 1, 5, 9, ...; other numbers are cut, with a warning.
    """
    import torch

    width, height, length = cut_clip(ctx, width, height, length)
    samples = torch.zeros(batch_size, 16, (length - 1) // 4 + 1, height // 8, width // 8)
    return {"samples": samples, "downscale_ratio_spatial": 8}
