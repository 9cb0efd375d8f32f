"""Changes of guidance: CFG-Zero* and skip-layer guidance, in x0 space.

CFG-Zero* (Fan and others 2025, arXiv 2503.18886): v = a v_neg + cfg (v_pos - a v_neg), where of each item
a = <v_pos, v_neg> / |v_neg|^2 brings the negative velocity as near to the positive one as a factor can. With
x0 = x - sigma v this is the guided x0 plus (1 - cfg) (1 - a) (x - x0_neg). ComfyUI scales x0_neg where the paper
scales v_neg, which is another result where a is not 1.

Skip-layer guidance (Stability AI's for SD3; after Perturbed-Attention Guidance, arXiv 2403.17377): the positive
prediction is made once more by a network without some of its layers, and the guided x0 goes ``scale`` times as far
away from it as the positive one is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pipegraph.models.model import Patch

    from .guiders import Branch
    from .model_sampling import ModelSampling

Branches = Mapping[Hashable, "Branch"]
"""Branches of a step: ``positive``, ``negative`` if guided, and what an ``ActiveGuidance`` adds."""
_LEAST = 1e-8
"""Epsilon for divisors."""


class Guidance(Protocol):
    """A change of guidance, made by a node."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        """The change as active in one run."""
        ...

    def idle(self, *, guided: bool) -> str:
        """Why it changes nothing in a run with or without negative, as a sentence; empty if it does."""
        ...


class ActiveGuidance:
    """A change of guidance in one run; the defaults change nothing."""

    def scale(self, cfg: float, sigma: float) -> float:
        """The guidance scale at a noise level."""
        return cfg

    def asked(self, branches: Branches, sigma: float) -> Branches:
        """The branches to evaluate at a noise level."""
        return branches

    def before(self, predictions: Mapping[Hashable, Tensor]) -> Mapping[Hashable, Tensor]:
        """Change the predictions x0 of the branches before guidance combines them."""
        return predictions

    def combined(
        self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float
    ) -> Tensor:
        """Replace the guided x0, which is d_neg + cfg (d_pos - d_neg)."""
        return guided

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        """Change the guided x0, given the state x and the predictions x0 of the branches."""
        return guided


@dataclass(frozen=True, slots=True)
class ZeroStar(ActiveGuidance):
    """CFG-Zero* without its zero-init steps, as in ComfyUI."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        return self

    def idle(self, *, guided: bool) -> str:
        return "" if guided else "CFGZeroStar changes nothing at cfg 1: there is no negative prediction"

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        if "negative" not in predictions:
            return guided
        positive, negative = x - predictions["positive"], x - predictions["negative"]
        p, n = positive.flatten(1), negative.flatten(1)
        factor = (p * n).sum(1) / ((n * n).sum(1) + _LEAST)
        return guided + (1 - cfg) * (1 - factor.reshape(-1, *[1] * (x.ndim - 1))) * negative


@dataclass(frozen=True, slots=True)
class SamplingRange:
    """The range of sampling in which a change is active, as fractions."""

    start_percent: float
    end_percent: float

    def levels(self, sampling: ModelSampling) -> tuple[float, float]:
        """Noise levels of the range, the lower one first."""
        ends = (self.end_percent, self.start_percent)
        low, high = (math.inf if p <= 0 else sampling.percent_to_sigma(p) for p in ends)
        return low, high


@dataclass(frozen=True, slots=True)
class SkippedLayers:
    """Skip-layer guidance: away from the prediction without some layers."""

    patch: Patch
    part: SamplingRange
    scale: float
    rescale: float = 0.0
    """How much of the positive prediction's standard deviation is restored: 0 none, 1 all."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        return _Skipping(self, *self.part.levels(sampling), branches["positive"].patched(self.patch))

    def idle(self, *, guided: bool) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class SkippedInNegative:
    """The negative prediction skips some layers."""

    patch: Patch
    part: SamplingRange

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        negative = branches.get("negative")
        return _Negative(*self.part.levels(sampling), negative and negative.patched(self.patch))

    def idle(self, *, guided: bool) -> str:
        return "" if guided else "SkipLayerGuidanceDiTSimple changes nothing at cfg 1: there is no negative prediction"


@dataclass(frozen=True, eq=False, slots=True)
class _Skipping(ActiveGuidance):
    of: SkippedLayers
    low: float
    high: float
    branch: Branch

    def asked(self, branches: Branches, sigma: float) -> Branches:
        return {**branches, self: self.branch} if self.low <= sigma <= self.high else branches

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        if self not in predictions:
            return guided
        positive = predictions["positive"]
        moved = guided + self.of.scale * (positive - predictions[self])
        if not self.of.rescale:
            return moved
        factor = _deviation(positive) / _deviation(moved).clamp_min(_LEAST)
        return moved * (self.of.rescale * factor + 1 - self.of.rescale)


@dataclass(frozen=True, eq=False, slots=True)
class _Negative(ActiveGuidance):
    low: float
    high: float
    branch: Branch | None

    def asked(self, branches: Branches, sigma: float) -> Branches:
        if self.branch is None or not self.low <= sigma <= self.high:
            return branches
        return {**branches, "negative": self.branch}


def _deviation(x: Tensor) -> Tensor:
    """Standard deviation per item, broadcastable to x."""
    return torch.std(x, dim=tuple(range(1, x.ndim)), keepdim=True)
