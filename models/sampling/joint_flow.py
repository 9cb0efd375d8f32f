"""Rectified flow of video and audio with separate schedules in one run (MiniMax-H3).

Both schedules are one grid t in 0..1, shifted by a for the video and by b for the sound: sigma = a t / (1 + (a - 1) t).
So the noise-to-signal ratio sigma / (1 - sigma) of the audio is b / a times the video's at each t. Audio scaled by a /
b has the video's noise level, so a sampler that knows only that level steps both exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from .model_sampling import Flow

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class JointFlow(Flow):
    """Noise levels of the video; ``shift`` is the video's."""

    shift: float = 12.0
    sound_shift: float = 3.0

    @property
    def ratio(self) -> float:
        """Noise-to-signal ratio of the audio relative to the video's."""
        return self.sound_shift / self.shift

    def carried(self, row: Tensor, shapes: Sequence[Sequence[int]]) -> Tensor:
        """A joined latent [B, 1, N] as the sampler carries it."""
        return self._loud(row, shapes, 1 / self.ratio)

    def restored(self, row: Tensor, shapes: Sequence[Sequence[int]]) -> Tensor:
        """The inverse of :meth:`carried`."""
        return self._loud(row, shapes, self.ratio)

    def _loud(self, row: Tensor, shapes: Sequence[Sequence[int]], factor: float) -> Tensor:
        import torch

        video, sound = row.split([prod(shape) for shape in shapes], -1)
        return torch.cat([video, sound * factor], -1)


def of_sound(clip_sigma: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
    """Noise level of the audio at the video's sigma, and g, for any shape.

    With r the ``ratio``: g = 1 / (1 - (1 - r) sigma), the sound's level is r g sigma, and its state is r g times what
    the sampler carries.
    """
    g = 1 / (1 - (1 - ratio) * clip_sigma)
    return ratio * g * clip_sigma, g


def carried_velocity(velocity: Tensor, carried: Tensor, g: Any, ratio: float) -> Tensor:
    """Velocity (noise - latent) of the carried audio from that of the audio itself."""
    restored: Tensor = (velocity - (1 - ratio) * carried) * g
    return restored
