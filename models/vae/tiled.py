"""Encode images too large for the memory in tiles."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .image import Warn, tile_fade, tile_starts

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
        warn: Told of retries.
    """
    cell = vae.latent.downscale
    height, width, side = images.shape[1] // cell, images.shape[2] // cell, max(2, tile // cell)
    overlap = min(overlap // cell, side - 1)
    places = [(y, x) for y in tile_starts(height, side, overlap) for x in tile_starts(width, side, overlap)]
    total, weights = torch.zeros(()), torch.zeros(height, width)
    for number, (y, x) in enumerate(places, 1):
        part = images[:, y * cell : (y + side) * cell, x * cell : (x + side) * cell]
        latent = vae.encode(part, warn)
        rows, columns = latent.shape[-2:]
        if not total.ndim:
            total = torch.zeros(*latent.shape[:-2], height, width)
        fade = tile_fade(y, rows, height, overlap, 1)[:, None] * tile_fade(x, columns, width, overlap, 1)
        total[..., y : y + rows, x : x + columns] += latent * fade
        weights[y : y + rows, x : x + columns] += fade
        yield number, len(places)
    return total / weights
