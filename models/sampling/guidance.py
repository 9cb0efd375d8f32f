"""What nodes change in how predictions become one: CFG-Zero* and guidance by skipped layers, in x0 space.

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
"""What is asked of the model: ``positive``, ``negative`` where there is guidance, and what an Acting adds."""
_LEAST = 1e-8
"""Added to a squared length that is divided by."""


class Guidance(Protocol):
    """What a node changes in guidance."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> Acting:
        """The change at work in one run."""
        ...

    def idle(self, *, guided: bool) -> str:
        """Why it changes nothing in a run with or without negative, as a sentence; empty if it does."""
        ...


class Acting:
    """A change of guidance in one run; what a change leaves as it is, it inherits."""

    def scale(self, cfg: float, sigma: float) -> float:
        """The guidance scale at a noise level."""
        return cfg

    def asked(self, branches: Branches, sigma: float) -> Branches:
        """What is asked at a noise level."""
        return branches

    def before(self, predictions: Mapping[Hashable, Tensor]) -> Mapping[Hashable, Tensor]:
        """The predictions x0 of the branches, before guidance combines them."""
        return predictions

    def combined(
        self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float
    ) -> Tensor:
        """The guided x0 in the place of ``guided``, which is d_neg + cfg (d_pos - d_neg)."""
        return guided

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        """The prediction x0, of the state x, what was found for each branch, and the guided x0 so far."""
        return guided


@dataclass(frozen=True, slots=True)
class ZeroStar(Acting):
    """CFG-Zero*, without its zero first steps, as ComfyUI has it."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> Acting:
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
class Part:
    """The part of the way from noise to picture where something acts."""

    start_percent: float
    end_percent: float

    def levels(self, sampling: ModelSampling) -> tuple[float, float]:
        """The noise levels at its ends, the lower one first."""
        ends = (self.end_percent, self.start_percent)
        low, high = (math.inf if p <= 0 else sampling.percent_to_sigma(p) for p in ends)
        return low, high


@dataclass(frozen=True, slots=True)
class SkippedLayers:
    """Guidance away from what the network makes without some layers."""

    patch: Patch
    part: Part
    scale: float
    rescale: float = 0.0
    """How much of the positive prediction's deviation is given back: 0 none, 1 all of it."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> Acting:
        return _Skipping(self, *self.part.levels(sampling), branches["positive"].patched(self.patch))

    def idle(self, *, guided: bool) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class SkippedInNegative:
    """The negative prediction is the one that is made without some layers."""

    patch: Patch
    part: Part

    def begin(self, sampling: ModelSampling, branches: Branches) -> Acting:
        negative = branches.get("negative")
        return _Negative(*self.part.levels(sampling), negative and negative.patched(self.patch))

    def idle(self, *, guided: bool) -> str:
        return "" if guided else "SkipLayerGuidanceDiTSimple changes nothing at cfg 1: there is no negative prediction"


@dataclass(frozen=True, eq=False, slots=True)
class _Skipping(Acting):
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
class _Negative(Acting):
    low: float
    high: float
    branch: Branch | None

    def asked(self, branches: Branches, sigma: float) -> Branches:
        if self.branch is None or not self.low <= sigma <= self.high:
            return branches
        return {**branches, "negative": self.branch}


def _deviation(x: Tensor) -> Tensor:
    """Standard deviation of each item, of x's axes."""
    return torch.std(x, dim=tuple(range(1, x.ndim)), keepdim=True)
