"""Guidance of LTX-2 with one scale for the clip and another for its sound."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

from ...sampling.guidance import Acting

if TYPE_CHECKING:
    from ...sampling.guidance import Branches
    from ...sampling.model_sampling import ModelSampling


@dataclass(frozen=True, slots=True)
class TwoScales(Acting):
    """The guided x0 of each part is d_neg + scale (d_pos - d_neg) with its own scale, whatever the guider's cfg is."""

    clip: float
    sound: float
    cut: int = 0
    """Numbers of the joined latent that are the clip's, in a run."""

    def begin(self, sampling: ModelSampling, branches: Branches) -> Acting:
        shapes = branches["positive"].entries[0].inputs.shared.get("shapes")
        if shapes is None:
            raise ValueError("two scales of guidance are for a clip with sound: join latents with LTXVConcatAVLatent")
        return TwoScales(self.clip, self.sound, prod(shapes[0]))

    def idle(self, *, guided: bool) -> str:
        return ""

    def after(self, x: Tensor, found: Mapping[Hashable, Tensor], guided: Tensor, cfg: float) -> Tensor:
        if "negative" not in found:
            return guided
        way = found["positive"] - found["negative"]
        way[..., : self.cut] *= self.clip - cfg
        way[..., self.cut :] *= self.sound - cfg
        return guided + way
