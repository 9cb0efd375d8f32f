"""Latents of clips: empty ones, and the rules of their sizes.

A clip of Wan's and Hunyuan's models has 4n + 1 frames: a latent frame for the first, and one for each four after it.
Sides are multiples of 16 pixels: 8 a latent cell, 2 cells a token. Other numbers are refused before anything runs.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, OneMoreThan, Step, node

from .amounts import latents
from .latent import BatchSize
from .wire import Latent

Width = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("width")]
Height = Annotated[int, Ge(16), Le(16384), MultipleOf(16), Step(16), Auto("height")]
Length = Annotated[int, Ge(1), Le(16384), OneMoreThan(4), Step(4), Auto("length")]


@node(
    "EmptyHunyuanLatentVideo",
    category="latent/video",
    title="Empty HunyuanVideo 1.0 Latent",
    size=latents(16, 8, frames=4),
)
def empty_hunyuan_latent_video(
    width: Width = 848, height: Height = 480, length: Length = 25, batch_size: BatchSize = 1
) -> Latent:
    """Make an empty latent of a clip, for Wan and HunyuanVideo: nothing to start from but a size.

    A model whose latent cells are larger (Wan 2.2's 5B: 16 pixels) makes clips of this size too, if it can.

    Args:
        width: Of the frames, in pixels.
        height: Of the frames, in pixels.
        length: How many frames: 1, 5, 9, ...
        batch_size: How many clips.
    """
    import torch

    samples = torch.zeros(batch_size, 16, (length - 1) // 4 + 1, height // 8, width // 8)
    return {"samples": samples, "downscale_ratio_spatial": 8}
