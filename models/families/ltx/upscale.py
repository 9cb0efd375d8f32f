"""The value on a LATENT_UPSCALE_MODEL wire: LTX-Video's spatial or temporal latent upsampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...loaded import Loaded
from ...loading.networks import build
from .vae import LtxVae

if TYPE_CHECKING:
    from ...loading.detect import Part
    from ...loading.place import Place


@dataclass(frozen=True, eq=False, slots=True)
class LatentUpscaler:
    """A loaded latent upsampler. Immutable."""

    loaded: Loaded

    @torch.no_grad()
    def upscale(self, latent: Tensor, vae: Any) -> Tensor:
        """Upsample a video latent [B, C, T, h, w] normalized by the VAE: [B, C, t, h, w], float32 on the CPU.

        Raises:
            ValueError: the latent is none that this network takes, or the VAE is of another family.
        """
        if not isinstance(vae, LtxVae):
            raise ValueError("this network upscales latents of LTX-Video: connect the VAE of an LTX-Video model")
        vae.check(latent)
        channels = self.loaded.config.in_channels
        if latent.shape[1] != channels:
            raise ValueError(f"{self.loaded.name} reads {channels} channels, not {latent.shape[1]}")
        raw = self.loaded.inputs(vae.raw(latent.float()))
        with self.loaded.resident() as network:
            return vae.normalized(torch.cat([network(z[None]).float().cpu() for z in raw]))


def upscaler(part: Part, place: Place, name: str) -> LatentUpscaler:
    """The latent upsampler of a network in a file or folder."""
    return LatentUpscaler(Loaded(build(part, place.device, place.dtype), place.device, place.dtype, name))
