"""The trained autoencoder that ships: tiles whose borders do not show, no flicker where chunks meet, steady memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models import paths
from pipegraph.models.checkpoints.load import load_vae
from pipegraph.models.loading.place import Place
from pipegraph.models.vae import video as video_vae
from pipegraph.models.vae.video import VideoVae

from .test_wan_tiles import TILE, compared


@pytest.fixture(scope="module")
def vae() -> VideoVae:
    found = load_vae(str(paths.EMBEDDED / "wan-tiny"), Place(torch.device("cpu"), torch.float32))
    assert isinstance(found, VideoVae)
    return found


def scene(frames: int, height: int, width: int) -> Tensor:
    """Two discs that pass each other before a sky, [frames, height, width, 3]."""
    y, x = torch.arange(height)[:, None] + 0.5, torch.arange(width)[None] + 0.5
    down, across = (y / height).expand(height, width), (x / width).expand(height, width)
    sky = torch.stack([0.35 + 0.3 * down, 0.55 + 0.2 * across, 0.8 - 0.3 * down], 2)
    made = []
    for i in range(frames):
        picture = sky
        for centre, radius, colour in ((20 + 5 * i, 14, (0.9, 0.2, 0.1)), (width - 30 - 4 * i, 11, (0.95, 0.85, 0.2))):
            edge = radius - ((x - centre) ** 2 + (y - 0.55 * height) ** 2).sqrt()
            covered = (edge + 0.5).clamp(0, 1)[..., None]
            picture = picture * (1 - covered) + covered * torch.tensor(colour)
        made.append(picture)
    return torch.stack(made)


def test_the_borders_of_tiles_do_not_show(vae: VideoVae) -> None:
    """How much wrong the step from column to column is there, of 255 and against elsewhere.

    Measured: without overlap 27 of 255 and 17 times as much as elsewhere, with a quarter 1.5 and 1.7 times, with a
    half 0.5 and 0.9 times.
    """
    z = vae.encode(scene(5, 40, 160))
    whole = vae.decode(z)

    def measured(overlap: int) -> tuple[float, float]:
        tiled = finish(vae.decode_tiled_steps(z, TILE, overlap))
        wrong = (tiled - whole).diff(dim=2).abs().mean((0, 1, 3))
        ratio = compared(tiled, whole, overlap)[1]
        return ratio * float(wrong.mean()) * 255, ratio

    level, ratio = measured(4)
    assert level < 2 and ratio < 2
    cut, times = measured(0)
    assert cut > 3 * level and times > 4


def chunk_borders(clip: Tensor) -> float:
    """Mean change from frame to frame where a latent frame ends, against that inside of latent frames."""
    change = clip.diff(dim=0).abs().mean((1, 2, 3))[1:]  # the first frame is a latent frame of its own
    border = torch.arange(1, len(change) + 1) % 4 == 0
    return float(change[border].mean() / change[~border].mean())


def test_no_flicker_where_chunks_meet(vae: VideoVae, monkeypatch: pytest.MonkeyPatch) -> None:
    z = vae.encode(scene(13, 48, 64))
    whole = vae.decode(z)
    with torch.no_grad():
        at_once = vae.loaded.network.decode(z).sample[0].movedim(0, -1)
    assert (whole - ((at_once + 1) / 2).clamp(0, 1)).abs().max() < 1e-5
    assert chunk_borders(whole) < 1.3
    decode = video_vae._Memory.decode

    def forgets(self: video_vae._Memory, z: Tensor) -> Tensor:
        found = decode(self, z)
        self._cached = [torch.zeros_like(k) if isinstance(k, Tensor) else k for k in self._cached or ()]
        return found

    monkeypatch.setattr(video_vae._Memory, "decode", forgets)
    assert chunk_borders(vae.decode(z)) > 1.6


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length() -> None:
    """Peak memory of decoding 97 and 997 frames, each in a process of its own, and of keeping the 997."""
    short, long, kept = (peak(*args) for args in (("25",), ("250",), ("250", "keep")))
    assert long < 1.2 * short < kept, (short, long, kept)


def peak(*args: str) -> int:
    """Peak resident memory in KiB of a process that decodes so many latent frames."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.video.decoding", *args],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout.split()[-1])
