"""Differential diffusion (Levin and Fried 2023, arXiv 2306.00950): a gray mask sets when a place starts to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .model_sampling import ModelSampling


@dataclass(frozen=True, slots=True)
class Differential:
    """A place is repainted in steps where its mask is at least the remaining fraction of sampling."""

    strength: float = 1.0
    """Blend of thresholded and original mask; 0 counts as 1, as in ComfyUI."""

    def begin(self, sampling: ModelSampling, levels: Tensor, mask: Tensor) -> Callable[[float], Tensor]:
        """The mask at each noise level of a run.

        Args:
            sampling: Noise levels of the model.
            levels: The sigmas of the run.
            mask: 1 is repainted in all steps, m in the last fraction m of the timesteps.
        """
        last = max(float(levels[-1]), sampling.sigma_min)
        start, end = (float(t) for t in sampling.timestep(torch.tensor([float(levels[0]), last], dtype=torch.float64)))

        def at(sigma: float) -> Tensor:
            now = float(sampling.timestep(torch.tensor([sigma], dtype=torch.float64))[0])
            left = (now - end) / (start - end) if start != end else 0.0
            painted = (mask >= left).to(mask)
            return torch.lerp(mask, painted, self.strength) if 0 < self.strength < 1 else painted

        return at
