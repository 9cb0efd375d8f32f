"""Empty video latents, and the rules of their sizes.

A video of Wan's and Hunyuan's models has 4n + 1 frames: a latent frame for the first, and one for each four after it.
Sides are multiples of 16 pixels: 8 per latent cell, 2 cells per token. For an empty latent other sizes are rounded
down, as in ComfyUI; elsewhere they are an error before the run.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, Doc, OneMoreThan, RunContext, Step, node

from ..image.latent import cut_sizes
from ..ports import FRAME_HEIGHT, FRAME_WIDTH, VideoCount
from ..utils.amounts import latents
from ..wire import Latent

Width = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("width"), FRAME_WIDTH]
Height = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("height"), FRAME_HEIGHT]
Length = Annotated[
    int, Ge(1), Le(16384), OneMoreThan(4), Step(4), Auto("length"), Doc("Number of frames: 1, 5, 9, ...")
]
AnyWidth = Annotated[int, Ge(16), Le(16384), Step(16), Auto("width")]
AnyHeight = Annotated[int, Ge(16), Le(16384), Step(16), Auto("height")]
AnyLength = Annotated[int, Ge(1), Le(16384), Step(4), Auto("length")]


def cut_video(ctx: RunContext, width: int, height: int, length: int) -> tuple[int, ...]:
    """Width, height and length rounded down to those of a video, as ComfyUI does, with a warning."""
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
    """Make an empty video latent, for Wan and HunyuanVideo.

    Models with larger latent cells (Wan 2.2 5B: 16 pixels) keep the size in pixels, if they can.

    Args:
        width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
        height: Frame height in pixels, likewise.
        length: Number of frames: 1, 5, 9, ...; other numbers are rounded down, with a warning.
    """
    import torch

    width, height, length = cut_video(ctx, width, height, length)
    samples = torch.zeros(batch_size, 16, (length - 1) // 4 + 1, height // 8, width // 8)
    return {"samples": samples, "downscale_ratio_spatial": 8}
