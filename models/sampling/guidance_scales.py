"""Rescaled classifier-free guidance: other scales, norms and contrast.

CFGNorm keeps the length of the channels at each place at that of the positive prediction. RescaleCFG is of Lin et al.
2023 (arXiv 2305.08891, eq. 15 and 16): the contrast of the guided v prediction goes back to that of the positive one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .guidance import ActiveGuidance, Branches, SamplingRange

if TYPE_CHECKING:
    from .model_sampling import ModelSampling

LatentOperation = Callable[[Tensor], Tensor]
"""The value on a LATENT_OPERATION wire: a change of a latent [B, C, ...]."""
_LEAST = 1e-8


class Always(ActiveGuidance):
    """A change of guidance that is the same in each run and has no effect without a negative."""

    node = ""
    """Id of the node, for warnings."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        return self

    def idle(self, *, guided: bool) -> str:
        return "" if guided else f"{self.node} changes nothing at cfg 1: there is no negative prediction"


@dataclass(frozen=True)
class NormAfter(Always):
    """Limit the channel norm of the guided x0 to the positive prediction's, then multiply by ``strength``."""

    strength: float
    node = "CFGNorm"

    def idle(self, *, guided: bool) -> str:
        return "" if guided or self.strength != 1 else super().idle(guided=guided)

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        ratio = _lengths(predictions["positive"]) / (_lengths(guided) + _LEAST)
        return guided * ratio.clamp(max=1) * self.strength


@dataclass(frozen=True)
class NormBefore(Always):
    """Set the channel norm of the guided noise x - x0 to the positive prediction's; ``strength`` blends."""

    strength: float
    node = "CFGNorm"

    def combined(
        self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float
    ) -> Tensor:
        if "negative" not in predictions:
            return guided
        noise = x - guided
        length = _lengths(noise)
        ratio = torch.where(length > 0, _lengths(x - predictions["positive"]) / length.clamp_min(1e-12), 1.0)
        return x - noise * torch.lerp(torch.ones_like(ratio), ratio, self.strength)


@dataclass(frozen=True)
class Rescaled(Always):
    """Keep the standard deviation of the positive v prediction in the guided one (RescaleCFG).

    v = x - x0 (sigma^2 + 1) up to a factor that is the same for all. Flow models have no v of this kind; ComfyUI takes
    the same formula for them, and so do we.
    """

    multiplier: float
    """0 changes nothing, 1 restores the whole deviation."""
    node = "RescaleCFG"

    def combined(
        self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float
    ) -> Tensor:
        if "negative" not in predictions:
            return guided
        state = x / (sigma**2 + 1)
        positive, both = state - predictions["positive"], state - guided
        axes = tuple(range(1, x.ndim))
        ratio = positive.std(axes, keepdim=True) / both.std(axes, keepdim=True).clamp_min(_LEAST)
        return state - both * (self.multiplier * ratio + 1 - self.multiplier)


@dataclass(frozen=True)
class Rescheduled(Always):
    """Another guidance scale for a range of sampling; at 1 the negative is not evaluated there."""

    cfg: float
    part: SamplingRange
    node = "CFGOverride"

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        return _Rescheduled(self.cfg, *self.part.levels(sampling))


@dataclass(frozen=True)
class _Rescheduled(ActiveGuidance):
    cfg: float
    low: float
    high: float

    def scale(self, cfg: float, sigma: float) -> float:
        return self.cfg if self.low <= sigma <= self.high else cfg

    def asked(self, branches: Branches, sigma: float) -> Branches:
        if self.low <= sigma <= self.high and math.isclose(self.cfg, 1.0):
            return {name: branch for name, branch in branches.items() if name != "negative"}
        return branches


@dataclass(frozen=True)
class Rescored(Always):
    """Temporal score rescaling (Xu et al. 2025, arXiv 2510.01184, eq. 6): the predicted noise times r.

    r = (snr s^2 + 1) / (snr s^2 / k + 1), with snr = (alpha / sigma)^2: 1 at high noise, k at low noise.
    """

    k: float
    sigma: float
    """s: the larger, the sooner r goes to k."""

    def idle(self, *, guided: bool) -> str:
        return ""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        return _Rescored(self, sampling)


@dataclass(frozen=True)
class _Rescored(ActiveGuidance):
    change: Rescored
    sampling: ModelSampling

    def combined(
        self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float
    ) -> Tensor:
        alpha = self.sampling.alpha(sigma)
        if alpha <= 0 or sigma <= 0:
            return guided
        level = (alpha / sigma * self.change.sigma) ** 2
        factor = (level + 1) / (level / self.change.k + 1)
        return torch.lerp(x / alpha, guided, factor)  # (x - r sigma n) / alpha with n = (x - alpha x0) / sigma


@dataclass(frozen=True)
class Operated(Always):
    """Apply an operation to the guidance direction d_pos - d_neg; without a negative, to d_pos."""

    operation: LatentOperation
    node = "LatentApplyOperationCFG"

    def idle(self, *, guided: bool) -> str:
        return ""

    def before(self, predictions: Mapping[Hashable, Tensor]) -> Mapping[Hashable, Tensor]:
        positive, negative = predictions["positive"], predictions.get("negative")
        if negative is None:
            return {**predictions, "positive": self.operation(positive)}
        return {**predictions, "positive": self.operation(positive - negative) + negative}


@dataclass(frozen=True)
class TonemapReinhard:
    """Compress channel norms by Reinhard's curve, l / (1 + l / top)."""

    multiplier: float
    """top = multiplier * (mean norm + 5 standard deviations)."""

    def __call__(self, latent: Tensor) -> Tensor:
        length = _lengths(latent) + 1e-10
        axes = tuple(range(1, latent.ndim))
        top = (length.mean(axes, keepdim=True) + 5 * length.std(axes, keepdim=True)) * self.multiplier
        return latent / (1 + length / top)


def _lengths(x: Tensor) -> Tensor:
    """Channel norms [B, 1, ...]."""
    lengths: Tensor = torch.linalg.vector_norm(x, dim=1, keepdim=True)
    return lengths
