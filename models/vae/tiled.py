"""Encode images too large for the memory in tiles."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from torch import Tensor

from .blending import Blend, tile_places
from .image import Warn

if TYPE_CHECKING:
    from .image import StepCount, Vae


def encode_tiled(vae: Vae, images: Tensor, tile: int, overlap: int, warn: Warn) -> Generator[StepCount, None, Tensor]:
    """Latents [B, C, (T,) h, w] of images [B, H, W, 3]; yields after each tile.

    Tiles fade into each other as they do when decoding: the outer quarter of an overlap is thrown away.

    Args:
        vae: Any VAE whose ``encode`` takes images.
        images: In 0..1, of whole latent cells.
        tile: Side of a tile in pixels.
        overlap: How far neighbors overlap in pixels, less than ``tile``.
        warn: Called on retries.
    """
    cell = vae.latent.downscale
    height, width, side = images.shape[1] // cell, images.shape[2] // cell, max(2, tile // cell)
    overlap = min(overlap // cell, side - 1)
    places = tile_places(height, width, side, overlap)
    blend = Blend(height, width, overlap)
    for number, (y, x) in enumerate(places, 1):
        latent = vae.encode(images[:, y * cell : (y + side) * cell, x * cell : (x + side) * cell], warn)
        blend.add(latent, y, x, *latent.shape[-2:])
        yield number, len(places)
    return blend.mean()
