"""ControlNets: the network on a CONTROL_NET wire, and its use with a hint inside a CONDITIONING.

One rule fits any hint to any latent: it is scaled to cover the pixels of the latent grid (padded to whole tokens),
keeping its proportions, and cut at the centre. One hint serves a whole batch; several must be as many as the pictures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .family import Family
from .loaded import Loaded

if TYPE_CHECKING:
    from torch import Tensor

    from .vae.image import Vae


@dataclass(frozen=True, eq=False)
class ControlNet:
    """A loaded ControlNet."""

    loaded: Loaded
    family: Family


@dataclass(frozen=True, eq=False)
class Control:
    """An applied ControlNet: a CONDITIONING item's ``control`` holds a tuple of these; their residuals are summed."""

    net: ControlNet
    image: Tensor
    """Hints, float32 [B, H, W, C] in 0..1."""
    strength: float = 1.0
    start_percent: float = 0.0
    end_percent: float = 1.0
    """Active from ``start_percent`` to ``end_percent`` of sampling."""
    vae: Vae | None = None
    _encoded: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False)

    def fitted(self, height: int, width: int) -> Tensor:
        """Hints as RGB of this size in pixels, [B, height, width, 3] in 0..1."""
        import torch.nn.functional as F

        picture = self.image.movedim(-1, 1)[:, :3].float()
        if picture.shape[1] != 3:
            picture = picture[:, :1].expand(-1, 3, -1, -1)
        h, w = picture.shape[-2:]
        scale = max(height / h, width / w)
        size = (max(height, round(h * scale)), max(width, round(w * scale)))
        if size != (h, w):
            picture = F.interpolate(picture, size, mode="bilinear", antialias=True, align_corners=False)
        top, left = (size[0] - height) // 2, (size[1] - width) // 2
        return picture[..., top : top + height, left : left + width].movedim(1, -1).clamp(0, 1)

    def encoded(self, rows: int, columns: int) -> Tensor:
        """Hints as VAE latents z [B, C, rows, columns]; cached by size."""
        assert self.vae is not None
        if (rows, columns) not in self._encoded:
            cell = self.vae.latent.downscale
            self._encoded[rows, columns] = self.vae.encode(self.fitted(rows * cell, columns * cell))
        return self._encoded[rows, columns]
