"""The closed-form linear codec of clips: principal components of 8 x 8 patches, of one frame and of four.

    python -m recipes.video_codec      (fits video_codec.npz, tells its fidelity)

As ``codec.py`` for pictures: it defines the latent space, so the transformer need not wait for the autoencoder.
"""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .video_world import draw, sample

FILE = Path(__file__).with_name("video_codec.npz")
CHANNELS = 16
CELL, GROUP = 8, 4


class VideoCodec:
    """Clips in -1..1, [B, 3, 4n + 1, H, W] <-> latents [B, 16, n + 1, H/8, W/8] of unit mean square."""

    def __init__(self, path: Path = FILE) -> None:
        with np.load(path) as f:
            self.parts = [tuple(torch.tensor(f[f"{k}{n}"]).float() for k in ("V", "mu", "sc")) for n in (1, GROUP)]

    def encode(self, clips: Tensor) -> Tensor:
        found = []
        for (basis, mean, scale), part in zip(self.parts, (clips[:, :, :1], clips[:, :, 1:]), strict=True):
            if part.shape[2]:
                found.append(((patches(part) - mean) @ basis * scale).permute(0, 4, 1, 2, 3))
        return torch.cat(found, 2)

    def decode(self, latents: Tensor) -> Tensor:
        found = []
        for (basis, mean, scale), part in zip(self.parts, (latents[:, :, :1], latents[:, :, 1:]), strict=True):
            if part.shape[2]:
                found.append(unpatched((part.permute(0, 2, 3, 4, 1) / scale) @ basis.T + mean))
        return torch.cat(found, 2)


def patches(clips: Tensor) -> Tensor:
    """[B, 3, 1 or 4n, H, W] -> [B, 1 or n, H/8, W/8, frames * 192]."""
    b, _, t, h, w = clips.shape
    group = 1 if t == 1 else GROUP
    cells = clips.reshape(b, 3, t // group, group, h // CELL, CELL, w // CELL, CELL)
    return cells.permute(0, 2, 4, 6, 3, 5, 7, 1).flatten(4)


def unpatched(cells: Tensor) -> Tensor:
    """The inverse of :func:`patches`."""
    b, t, rows, columns, values = cells.shape
    group = values // (3 * CELL * CELL)
    whole = cells.reshape(b, t, rows, columns, group, CELL, CELL, 3).permute(0, 7, 1, 4, 2, 5, 3, 6)
    return whole.reshape(b, 3, t * group, rows * CELL, columns * CELL)


def clips(count: int, rng: random.Random, *, held_out: bool = False) -> Tensor:
    """Clips [N, 3, 13, 64, 64] in -1..1."""
    drawn = np.stack([draw(sample(rng, held_out=held_out), rng) for _ in range(count)])
    return torch.tensor(drawn).permute(0, 4, 1, 2, 3).float() / 127.5 - 1


def fit(examples: Tensor, channels: int, path: Path) -> None:
    """Fit the codec; as in ``codec.py`` latents are scaled by the square root of their deviation."""
    found: dict[str, Any] = {}
    for part, group in ((examples[:, :, :1], 1), (examples[:, :, 1:], GROUP)):
        x = patches(part).flatten(0, 3).numpy()
        variance, vectors = np.linalg.eigh(np.cov((x - (mean := x.mean(0))).T))
        variance, vectors = variance[::-1][:channels], vectors[:, ::-1][:, :channels]
        scale = variance**-0.25
        found |= {f"V{group}": vectors, f"mu{group}": mean, f"sc{group}": scale / np.sqrt((variance * scale**2).mean())}
    np.savez(path, **{k: v.astype(np.float32) for k, v in found.items()})


def psnr(a: Tensor, b: Tensor) -> float:
    """Peak signal-to-noise ratio in dB of values in -1..1."""
    return -10 * math.log10(float((a.clamp(-1, 1) - b).pow(2).mean()) / 4)


def fidelity(path: Path = FILE, count: int = 32) -> dict[str, float]:
    """PSNR in dB of the first frames and of the others, on held-out scenes."""
    wanted, codec = clips(count, random.Random(5), held_out=True), VideoCodec(path)
    got = codec.decode(codec.encode(wanted))
    return {
        "first": round(psnr(got[:, :, :1], wanted[:, :, :1]), 2),
        "others": round(psnr(got[:, :, 1:], wanted[:, :, 1:]), 2),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    fit(clips(600, random.Random(1)), CHANNELS, FILE)
    print(fidelity())
