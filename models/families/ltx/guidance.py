"""Separate guidance scales for video and audio in LTX-2."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

from ...sampling.guidance import ActiveGuidance

if TYPE_CHECKING:
    from ...sampling.guidance import Branches
    from ...sampling.model_sampling import ModelSampling


@dataclass(frozen=True, slots=True)
class TwoScales(ActiveGuidance):
    """The guided x0 of each part is d_neg + scale (d_pos - d_neg) with its own scale, whatever the guider's cfg is."""

    video: float
    sound: float
    cut: int = 0
    """Number of elements of the joined latent that belong to the video, in one run."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> ActiveGuidance:
        shapes = branches["positive"].entries[0].inputs.shared.get("shapes")
        if shapes is None:
            raise ValueError("two scales of guidance are for a video with sound: join latents with LTXVConcatAVLatent")
        return TwoScales(self.video, self.sound, prod(shapes[0]))

    def idle(self, *, guided: bool) -> str:
        return ""

    def after(self, x: Tensor, predictions: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        if "negative" not in predictions:
            return guided
        difference = predictions["positive"] - predictions["negative"]
        difference[..., : self.cut] *= self.video - cfg
        difference[..., self.cut :] *= self.sound - cfg
        return guided + difference
