"""Encoding in tiles is encoding as a whole, where the encoder does not see beyond the overlap."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.family import LatentFormat
from pipegraph.models.vae.tiled import encode_tiled
from pipegraph.nodes.image.vae import vae_encode_tiled

from ..context import Context


@dataclass
class Local:
    """A VAE whose latents are means of cells of 8 pixels, smoothed over 3 cells; with time where it is asked for."""

    latent: LatentFormat = field(default_factory=lambda: LatentFormat(3, 8))
    video: bool = False
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def encode(self, image: Tensor, warn: Any) -> Tensor:
        self.sizes.append((image.shape[1], image.shape[2]))
        cells = torch.nn.functional.avg_pool2d(image.movedim(-1, 1), 8)
        padded = torch.nn.functional.pad(cells, (1, 1, 1, 1), "replicate")
        latent = torch.nn.functional.avg_pool2d(padded, 3, 1)
        return latent.movedim(0, 1)[None] if self.video else latent


@pytest.mark.parametrize("video", [False, True])
def test_tiles_are_as_the_whole(video: bool) -> None:
    images = torch.rand(2, 208, 304, 3, generator=torch.Generator().manual_seed(1))
    vae: Any = Local(video=video)
    whole = vae.encode(images, print)
    vae.sizes.clear()
    latent = finish(encode_tiled(vae, images, 128, 32, print))
    assert torch.allclose(latent, whole, atol=1e-6)
    assert max(vae.sizes) == (128, 128) and len(vae.sizes) == 2 * 3


def test_the_node_crops_and_tells(tmp_path: Path) -> None:
    ctx = Context(tmp_path, tmp_path)
    vae: Any = Local()
    node: Any = vae_encode_tiled(torch.rand(1, 70, 130, 4), vae, ctx, 64, 64)
    latent = finish(node)
    assert latent["samples"].shape == (1, 3, 8, 16) and max(vae.sizes) == (64, 64)
    assert ctx.warnings == ["130x70 cut to 128x64", "overlap 64 is more than a quarter of tile_size 64; 16 is used"]
