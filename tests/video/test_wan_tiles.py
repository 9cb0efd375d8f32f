"""Frames decoded in tiles, against frames decoded whole: how much differs, and whether the borders of tiles show."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.families.wan import WAN
from pipegraph.models.loaded import Loaded
from pipegraph.models.vae.blending import tile_starts
from pipegraph.models.vae.video import VideoVae

from . import tiny

CELLS = (12, 20)
"""Height and width of the latent; tiles are 8 wide."""
TILE = 8


def vae(attention: bool) -> VideoVae:
    """A random one; ``attention``: of each frame over all its cells, which tiles cannot have."""
    torch.manual_seed(1)
    network = tiny.autoencoder().eval().requires_grad_(False)
    if not attention:
        network.decoder.mid_block.attentions[0].proj.weight.zero_()  # type: ignore[union-attr, index]
        network.decoder.mid_block.attentions[0].proj.bias.zero_()  # type: ignore[union-attr, index]
    return VideoVae(Loaded(network, torch.device("cpu"), torch.float32), WAN.latent)


def latent() -> Tensor:
    """Soft shapes: one latent frame, as tiles lie alike in all."""
    coarse = torch.randn(1, 16, 1, 3, 5, generator=torch.Generator().manual_seed(3))
    return torch.nn.functional.interpolate(coarse, (1, *CELLS), mode="trilinear") * 2


def compared(tiled: Tensor, whole: Tensor, overlap: int) -> tuple[float, float]:
    """PSNR in dB, and how much larger the step from column to column is wrong at the tiles' borders than elsewhere."""
    psnr = float(-10 * torch.log10(((tiled - whole) ** 2).mean()))
    wrong = ((tiled - whole).diff(dim=2)).abs().mean((0, 1, 3))  # of the step between columns i and i + 1
    starts = tile_starts(CELLS[1], TILE, overlap)
    borders = {8 * x for x in starts[1:]} | {8 * (x + TILE) for x in starts[:-1]}
    return psnr, float(wrong[[x - 1 for x in borders]].max() / wrong.mean())


@pytest.mark.parametrize("attention", [False, True])
def test_the_borders_of_tiles_do_not_show(attention: bool) -> None:
    z, decoder = latent(), vae(attention)
    whole = decoder.decode(z)
    found = {o: compared(finish(decoder.decode_tiled_steps(z, TILE, o)), whole, o) for o in (0, 2, 4)}
    assert found[0][1] > 8  # without an overlap they do
    assert found[2][1] < 2 and found[4][1] < 2
    assert found[4][0] > max(26, found[0][0] + 1)


def test_one_tile_is_the_whole() -> None:
    z, decoder = latent(), vae(attention=True)
    assert torch.equal(finish(decoder.decode_tiled_steps(z, 64, 8)), decoder.decode(z))
    with pytest.raises(ValueError, match="cannot overlap by 8"):
        finish(decoder.decode_tiled_steps(z, 8, 8))
