"""The closed-form linear codec: principal components of 8 x 8 patches.

It defines the latent space (so the transformer can be trained before the autoencoder is), and it is the bar that
the trained autoencoder has to beat.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


class LinearCodec:
    """Pictures in -1..1, [B, 3, H, W] <-> latents [B, 16, H/8, W/8] of unit mean square."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as f:
            self.basis, self.mean, self.scale = (torch.tensor(f[k]).float() for k in ("V", "mu", "sc"))

    def encode(self, image: Tensor) -> Tensor:
        b, _, h, w = image.shape
        patches = image.reshape(b, 3, h // 8, 8, w // 8, 8).permute(0, 2, 4, 3, 5, 1).reshape(b, h // 8, w // 8, 192)
        return (((patches - self.mean) @ self.basis) * self.scale).permute(0, 3, 1, 2)

    def decode(self, latent: Tensor) -> Tensor:
        b, _, h, w = latent.shape
        patches = (latent.permute(0, 2, 3, 1) / self.scale) @ self.basis.T + self.mean
        return patches.reshape(b, h, w, 8, 8, 3).permute(0, 5, 1, 3, 2, 4).reshape(b, 3, h * 8, w * 8)


def fit(images: np.ndarray, channels: int, path: Path) -> None:
    """Fit the codec on uint8 pictures [N, H, W, 3]; latents are scaled by the square root of their deviation."""
    n, h, w, _ = images.shape
    x = images.astype(np.float32) / 127.5 - 1
    patches = x.reshape(n, h // 8, 8, w // 8, 8, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 192)
    mean = patches.mean(0)
    variance, vectors = np.linalg.eigh(np.cov((patches - mean).T))
    variance, vectors = variance[::-1][:channels], vectors[:, ::-1][:, :channels]
    scale = variance**-0.25
    scale = scale / np.sqrt((variance * scale**2).mean())
    np.savez(path, V=vectors.astype(np.float32), mu=mean, sc=scale.astype(np.float32))
