"""Frames of a video that are generated on demand: each chunk is sampled, decoded and handed on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.noise import ItemNoise, Noise
from pipegraph.models.sampling.run import is_filled
from pipegraph.models.vae.video import DecodedFrames, VideoVae

from .rollout import Rollout, begins_with


@dataclass(frozen=True, eq=False)
class RolloutFrames(DecodedFrames):
    """A video, generated again by each ``chunks()``. With a window, time per frame and memory are constant.

    Noise is drawn from one generator on demand, so a longer video of a seed begins like a shorter one.
    """

    guider: Guider
    noise: Noise
    rollout: Rollout
    sigmas: Tensor
    latent: Tensor
    """[1, C, T, h, w]; all zeros: only its size counts."""
    vae: VideoVae

    def __post_init__(self) -> None:
        self.vae.check(self.latent)
        if len(self.latent) != 1:
            raise ValueError(f"one video is made at a time, not {len(self.latent)}: give a latent of batch size 1")
        first = self.guider.model.begins_with
        self.rollout.check(self.latent.shape[2], 0 if first is None else first.shape[2], self.vae.latent)

    @property
    def count(self) -> int:
        return self.vae.frames_of(self.latent.shape[2])

    def chunks(self) -> Iterator[Tensor]:
        yield from self.vae.stream(self.latents())

    @torch.no_grad()
    def latents(self) -> Iterator[Tensor]:
        """VAE latents [C, n, h, w] of the known first frames, then of each chunk."""
        model, size = self.guider.model, self.latent.shape
        levels, drawn, filled = self.sigmas.float().cpu(), ItemNoise(self.noise.seed, [0]), is_filled(self.latent)
        if (first := begins_with(model, 1)) is not None:
            yield model.process_out(first)[0].cpu()

        def state(start: int, end: int) -> Tensor:
            clean = self.latent[:, :, start:end].to(model.loaded.device, torch.float32)
            clean = model.process_in(clean) if filled else clean
            noise = torch.zeros_like(clean) if self.noise.silent else drawn(clean)
            return model.sampling.noise_scaling(float(levels[0]), noise, clean, max_denoise=not filled)

        denoise = self.guider.denoiser(self.latent.new_zeros(1, size[1], 1, *size[3:], device=model.loaded.device))
        for part in self.rollout.parts(denoise, size[2], state, levels, drawn):
            if part.finished:
                yield model.process_out(part.step.denoised)[0].cpu()
