"""The samplers by ComfyUI's names."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from . import samplers_ode as ode
from . import samplers_sde as sde
from .steps import Denoiser, SamplerFunction, StepNoise, Steps


@dataclass(frozen=True, slots=True)
class Sampler:
    """The value on a SAMPLER wire."""

    name: str
    run: SamplerFunction
    drop_penultimate: bool = False
    """Schedules get one more step and drop the last sigma before 0, which is too close to it for this order."""
    fresh_mask_noise: bool = False
    """Masked areas are noised with fresh noise instead of the initial noise."""
    blockwise: bool = False
    """Generates a video block by block."""


SAMPLERS: dict[str, Sampler] = {
    s.name: s
    for s in (
        Sampler("euler", ode.euler),
        Sampler("euler_ancestral", sde.euler_ancestral),
        Sampler("heun", ode.heun),
        Sampler("dpm_2", ode.dpm_2, drop_penultimate=True),
        Sampler("dpmpp_2m", ode.dpmpp_2m),
        Sampler("dpmpp_2m_sde", sde.dpmpp_2m_sde),
        Sampler("dpmpp_3m_sde", sde.dpmpp_3m_sde),
        Sampler("lcm", sde.lcm),
        Sampler("res_multistep", ode.res_multistep),
        Sampler("gradient_estimation", ode.gradient_estimation),
        Sampler("er_sde", sde.er_sde),
        Sampler("ddim", ode.euler, fresh_mask_noise=True),
        Sampler("uni_pc", ode.uni_pc, drop_penultimate=True),
        Sampler("uni_pc_bh2", ode.uni_pc_bh2, drop_penultimate=True),
        # ComfyUI's names for noise drawn on the GPU. Ours is drawn on the CPU whatever the name.
        Sampler("dpmpp_2m_sde_gpu", sde.dpmpp_2m_sde),
        Sampler("dpmpp_3m_sde_gpu", sde.dpmpp_3m_sde),
    )
}


def euler_ancestral(eta: float, s_noise: float) -> Sampler:
    """Ancestral Euler with ``eta`` and noise scale ``s_noise``."""

    def run(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
        return sde.euler_ancestral(denoise, x, sigmas, lambda state: s_noise * noise(state), eta)

    return Sampler("euler_ancestral", run)


def er_sde(power: float | None, order: int, s_noise: float) -> Sampler:
    """ER-SDE with noise scaling, order and noise scale ``s_noise`` (see ``samplers_sde.er_sde``)."""

    def run(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
        return sde.er_sde(denoise, x, sigmas, noise, order, power, s_noise)

    return Sampler("er_sde", run)


def lcm(s_noise: float, s_noise_end: float, clip_std: float) -> Sampler:
    """LCM with noise scaled linearly from step to step, and clipped.

    Args:
        s_noise: Factor of the first step.
        s_noise_end: Factor of the last step, the one to 0 that adds no noise.
        clip_std: How many standard deviations of an item are left; 0: all.
    """

    def run(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
        factors = iter(torch.linspace(s_noise, s_noise_end, len(sigmas) - 1).tolist())

        def changed(state: Tensor) -> Tensor:
            drawn = noise(state)
            if clip_std:
                most = clip_std * drawn.std(tuple(range(1, drawn.ndim)), keepdim=True)
                drawn = drawn.clamp(-most, most)
            scaled: Tensor = next(factors) * drawn
            return scaled

        return sde.lcm(denoise, x, sigmas, changed)

    return Sampler("lcm", run)
