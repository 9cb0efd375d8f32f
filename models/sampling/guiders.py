"""Guidance: from a model and its conditionings to one denoised prediction, in x0 space.

Classifier-free guidance (Ho and Salimans 2022, arXiv 2207.12598): d = d_neg + cfg (d_pos - d_neg). Positive and
negative are batched in one call where possible; at cfg 1 the negative is not evaluated.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from pipegraph.models.model import Model, Patch, Prepared

    from .model_sampling import ModelSampling

OPTIONAL = {
    "concat_latent_image": "image concatenated to the latent (InpaintModelConditioning, InstructPixToPixConditioning)",
    "reference_latents": "reference latents (ReferenceLatent)",
}
"""Optional latents of a CONDITIONING item, and how messages call them."""
FEATHER = 8
"""Latent cells over which the area of a conditioning fades out."""


@dataclass(frozen=True, eq=False, slots=True)
class Third:
    """A third conditioning, and how its prediction d3 is combined with the guided prediction of the other two."""

    conditioning: Sequence[Any]
    cfg: float
    nested: bool = False
    """True: d3 + cfg (guided - d3). False: guided + cfg (d3 - d_pos)."""


@dataclass(frozen=True, eq=False, slots=True)
class Guider:
    """The value on a GUIDER wire: a model with its conditionings."""

    model: Model
    positive: Sequence[Any]
    negative: Sequence[Any] | None = None
    """None: no guidance."""
    cfg: float = 1.0
    third: Third | None = None

    @property
    def guided(self) -> bool:
        """Whether the negative is evaluated."""
        return self.negative is not None and not math.isclose(self.cfg, 1.0)

    def warnings(self) -> list[str]:
        """Warnings about unexpected effects of these settings."""
        warnings = [w for change in self.model.guidance if (w := change.idle(guided=self.guided))]
        family = self.model.family
        sides = (self.positive, (self.guided and self.negative) or (), self.third.conditioning if self.third else ())
        there = {name for side in sides for _, extras in side for name in OPTIONAL if extras.get(name) is not None}
        warnings += [f"{family.title} reads no {OPTIONAL[n]}: it changes nothing" for n in sorted(there - family.reads)]
        if self.guided and self.model.recommended.get("cfg") == 1:
            warnings.append(
                f"this model is distilled for cfg 1: cfg {self.cfg:g} doubles the work and is likely to harm the image"
            )
        return warnings

    def with_extras(self, **entries: Any) -> Guider:
        """A copy with additional entries in its conditionings."""

        def with_entries(side: Sequence[Any]) -> Sequence[Any]:
            return [[text, {**extras, **entries}] for text, extras in side]

        return replace(
            self,
            positive=with_entries(self.positive),
            negative=self.negative and with_entries(self.negative),
            third=self.third and replace(self.third, conditioning=with_entries(self.third.conditioning)),
        )

    def denoiser(self, x: Tensor) -> GuidedDenoiser:
        """Prepare the conditionings for a run on states like ``x`` [B, ...]."""
        sides: dict[Hashable, Sequence[Any]] = {"positive": self.positive}
        if self.guided:
            sides["negative"] = self.negative or ()
        if self.third:
            sides["third"] = self.third.conditioning
        if not all(sides.values()):
            raise ValueError("a conditioning is empty: it needs at least one entry")
        entries = iter(self.model.prepare([entry for side in sides.values() for entry in side], x))
        branches = {name: Branch(list(islice(entries, len(side))), x) for name, side in sides.items()}
        return GuidedDenoiser(self.model, branches, self.cfg, self.third)


class Branch:
    """One conditioning: its entries with areas and weights."""

    def __init__(self, entries: Sequence[Prepared], x: Tensor) -> None:
        self.entries = entries
        self.weights = [_weight(entry, x) for entry in entries]

    def patched(self, patch: Patch) -> Branch:
        """A copy whose entries use a patched network."""
        branch = copy.copy(self)
        branch.entries = [replace(entry, patches=(*entry.patches, patch)) for entry in self.entries]
        return branch

    def acting(self, sigma: float) -> list[int]:
        return [i for i, entry in enumerate(self.entries) if entry.acts(sigma)]

    def combine(self, acting: Sequence[int], predictions: Sequence[Tensor], x: Tensor) -> Tensor:
        """Weighted average of the predictions; 0 where no entry applies."""
        if len(acting) == 1 and self.weights[acting[0]] is None:
            return predictions[0]
        total, weights = torch.zeros_like(x), torch.zeros_like(x)
        for i, prediction in zip(acting, predictions, strict=True):
            entry, weight = self.entries[i], self.weights[i]
            share = entry.strength if weight is None else entry.strength * weight
            entry.crop(total).add_(prediction * share)
            entry.crop(weights).add_(share)
        return torch.where(weights == 0, total, total / weights)


def _weight(entry: Prepared, x: Tensor) -> Tensor | None:
    """Weight of an entry within its area, broadcastable to its part of x; None: 1."""
    if entry.mask is not None:
        return entry.crop(fit_mask(entry.mask, x))
    if entry.area is None:
        return None
    height, width, top, left = entry.area
    rows = _fade(height, top, x.shape[-2], x.device)
    return rows[:, None] * _fade(width, left, x.shape[-1], x.device)


def _fade(size: int, start: int, whole: int, device: torch.device) -> Tensor:
    """1 inside, ramping up by eighths from edges that are not image edges."""
    ramp = torch.ones(size, device=device)
    steps = torch.arange(1, FEATHER + 1, device=device)[:size] / FEATHER
    if start > 0:
        ramp[: len(steps)] *= steps
    if start + size < whole:
        ramp[-len(steps) :] *= steps.flip(0)
    return ramp


def fit_mask(mask: Tensor, x: Tensor) -> Tensor:
    """A mask [H, W], [B, H, W] or [B, 1, H, W] resized for the state x [B, C, ..., h, w]: [B or 1, 1, ..., h, w].

    One with time, [B, 1, T, H, W], is resized for the state of a video in time too; one of a joined state, [B, 1, N],
    has its size.
    """
    if x.ndim == 3:
        return mask.to(x.device, x.dtype)
    timed = mask.ndim == 5
    mask = mask.to(x.device, x.dtype)
    mask = mask if timed else mask.reshape(-1, 1, *mask.shape[-2:])
    size = x.shape[2:] if timed else x.shape[-2:]
    if mask.shape[2:] != size:
        mask = nn.functional.interpolate(mask, size, mode="trilinear" if timed else "bilinear")
    if len(mask) not in (1, len(x)):
        # ComfyUI repeats a shorter stack of masks over the batch.
        mask = mask.repeat(-(-len(x) // len(mask)), *[1] * (mask.ndim - 1))[: len(x)]
    return mask if timed else mask.reshape(len(mask), *[1] * (x.ndim - 3), *mask.shape[-2:])


class GuidedDenoiser:
    """A guider during a run: (x, sigma) -> x0, with statistics."""

    def __init__(
        self, model: Model, branches: Mapping[Hashable, Branch], cfg: float, third: Third | None = None
    ) -> None:
        self.model, self._branches, self._cfg, self._third = model, branches, cfg, third
        self.sampling: ModelSampling = model.sampling
        self._changes = [change.begin(model.sampling, branches) for change in model.guidance]
        self.cached = model.step_cache.run(model.sampling) if model.step_cache else None
        """Reuse state, if steps may be reused."""
        self.calls = 0
        """Number of calls of the model."""
        self.rows = 0
        """Largest number of rows in a call: batch size x conditionings."""

    @property
    def entries(self) -> list[Prepared]:
        """All entries of all conditionings."""
        return [entry for branch in self._branches.values() for entry in branch.entries]

    def __call__(self, x: Tensor, sigma: float, share: Tensor | None = None) -> Tensor:
        """x0 of the state; ``share`` [B or 1, 1, ...] is the fraction of sigma at each place, default 1."""
        branches = self._branches
        for change in self._changes:
            branches = change.asked(branches, sigma)
        acting = {name: branch.acting(sigma) for name, branch in branches.items()}
        asked = [branches[name].entries[i] for name, these in acting.items() for i in these]
        predictions: Iterator[Tensor] = iter(())
        if asked:
            levels = x.new_full((len(x),), sigma)
            if share is not None:
                levels = (sigma * share).expand(len(x), 1, *x.shape[2:])
            predictions = iter(self.model.predict(x, levels, asked, self.cached))
            self.calls += 1
            self.rows = max(self.rows, len(asked) * len(x))
        combined = {
            n: branches[n].combine(these, list(islice(predictions, len(these))), x) for n, these in acting.items()
        }
        return self._combined(x, sigma, combined)

    def _combined(self, x: Tensor, sigma: float, predictions: Mapping[Hashable, Tensor]) -> Tensor:
        """Combine the predictions x0 of the branches."""
        cfg = self._cfg
        for change in self._changes:
            cfg, predictions = change.scale(cfg, sigma), change.before(predictions)
        guided = predictions["positive"]
        if "negative" in predictions:
            guided = torch.lerp(predictions["negative"], guided, cfg)
        for change in self._changes:
            guided = change.combined(x, sigma, predictions, guided, cfg)
        for change in self._changes:
            guided = change.after(x, predictions, guided, cfg)
        if self._third is None:
            return guided
        if self._third.nested:
            return torch.lerp(predictions["third"], guided, self._third.cfg)
        return guided + self._third.cfg * (predictions["third"] - predictions["positive"])
