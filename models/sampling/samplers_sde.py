"""Samplers that draw fresh noise in each step.

They work on the half log signal-to-noise ratio lambda = ln(alpha / sigma), with alpha = 1 for z + sigma n and
1 - sigma for flow models. Each step asks ``noise`` once, and not at all where it goes to sigma 0, so the same
generator gives the same noise to the same steps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .model_sampling import ModelSampling
from .steps import Denoiser, SamplerStep, StepNoise, Steps, each_step, euler_step


def _lambda(sampling: ModelSampling, sigma: float) -> float:
    return math.log(sampling.alpha(sigma) / sigma) if sigma else math.inf


def _levels(sampling: ModelSampling, sigmas: Tensor) -> list[float]:
    """The sigmas; a first sigma of 1 in flow models, where lambda is -inf, is lowered by 1e-4 of the range."""
    levels: list[float] = sigmas.tolist()
    if sampling.flow and levels[0] >= 1:
        levels[0] = max(sampling.percent_to_sigma(1e-4), (1 + levels[1]) / 2)
    return levels


def euler_ancestral(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise, eta: float = 1.0) -> Steps:
    """Euler to below the next sigma, then noise up to it (DDPM's posterior at eta 1)."""
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        if to == 0:
            x = d
        elif denoise.sampling.flow:
            down = to * (1 + (to / s - 1) * eta)
            keep = (1 - to) / (1 - down)
            up = math.sqrt(max(to**2 - (down * keep) ** 2, 0.0))
            x = keep * euler_step(x, d, s, down) + up * noise(x)
        else:
            up = min(to, eta * to * math.sqrt(s**2 - to**2) / s)
            x = euler_step(x, d, s, math.sqrt(to**2 - up**2)) + up * noise(x)
        yield SamplerStep(done, total, s, d)
    return x


def lcm(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """Jump to the prediction and add noise again (latent consistency models, arXiv 2310.04378)."""
    for done, total, s, to in each_step(sigmas.tolist()):
        x = d = denoise(x, s)
        if to > 0:
            x = denoise.sampling.noise_scaling(to, noise(d), d)
        yield SamplerStep(done, total, s, d)
    return x


def dpmpp_2m_sde(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise, eta: float = 1.0) -> Steps:
    """SDE-DPM-Solver++(2M) (arXiv 2211.01095, section 5), midpoint form."""
    sampling = denoise.sampling
    before: tuple[float, Tensor] | None = None
    for done, total, s, to in each_step(_levels(sampling, sigmas)):
        d = denoise(x, s)
        if to == 0:
            x = d
        else:
            h = _lambda(sampling, to) - _lambda(sampling, s)
            gain = -sampling.alpha(to) * math.expm1(-(1 + eta) * h)
            x = (to / s * math.exp(-eta * h)) * x + gain * d
            if before is not None:
                x = x + (gain / 2 * h / before[0]) * (d - before[1])
            x = x + (to * math.sqrt(-math.expm1(-2 * eta * h))) * noise(x)
            before = (h, d)
        yield SamplerStep(done, total, s, d)
    return x


def dpmpp_3m_sde(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise, eta: float = 1.0) -> Steps:
    """SDE-DPM-Solver++ with a parabola in lambda through the last three predictions."""
    sampling = denoise.sampling
    history: list[tuple[float, Tensor]] = []  # (length of the step that began there, prediction), newest first
    for done, total, s, to in each_step(_levels(sampling, sigmas)):
        d = denoise(x, s)
        if to == 0:
            x = d
        else:
            h = _lambda(sampling, to) - _lambda(sampling, s)
            reach = (1 + eta) * h
            x = (to / s * math.exp(-eta * h)) * x - (sampling.alpha(to) * math.expm1(-reach)) * d
            x = x + sampling.alpha(to) * _bend(d, history, h, reach)
            x = x + (to * math.sqrt(-math.expm1(-2 * eta * h))) * noise(x)
            history = [(h, d), *history[:1]]
        yield SamplerStep(done, total, s, d)
    return x


def _bend(d: Tensor, history: list[tuple[float, Tensor]], h: float, reach: float) -> Tensor | float:
    """Contribution of x0's slope and curvature in lambda to a step of ``h``."""
    if not history:
        return 0.0
    phi2 = math.expm1(-reach) / reach + 1
    slope = (d - history[0][1]) * (h / history[0][0])
    if len(history) == 1:
        return phi2 * slope
    r0, r1 = history[0][0] / h, history[1][0] / h
    change = slope - (history[0][1] - history[1][1]) / r1
    phi3 = phi2 / reach - 0.5
    return phi2 * (slope + change * (r0 / (r0 + r1))) - (phi3 / (r0 + r1)) * change


def er_sde(
    denoise: Denoiser,
    x: Tensor,
    sigmas: Tensor,
    noise: StepNoise,
    order: int = 3,
    power: float | None = None,
    s_noise: float = 1.0,
) -> Steps:
    """Extended reverse-time SDE solver with the noise scale phi(u) = u (exp(u^0.3) + 10) (arXiv 2309.06169).

    u = sigma / alpha. The two integrals of the paper's order 2 and 3 terms are taken by the midpoint rule. With
    ``power`` the noise scale is u^power: 1 is the ODE, 2 the usual reverse-time SDE.
    """
    sampling = denoise.sampling
    before: list[tuple[float, Tensor]] = []  # (u, prediction), newest first
    slope_before: Tensor | None = None
    for done, total, s, to in each_step(_levels(sampling, sigmas)):
        d = denoise(x, s)
        if to == 0:
            x = d
        else:
            u, v = s / sampling.alpha(s), to / sampling.alpha(to)
            phi = _er_phi(v, power)
            r = phi / _er_phi(u, power)
            area, moment = _er_integrals(u, v, power)
            new = (r / sampling.alpha(s)) * x + (1 - r) * d
            slope = None
            if before and order > 1:
                slope = (d - before[0][1]) / (u - before[0][0])
                new = new + (v - u + area * phi) * slope
            if slope is not None and slope_before is not None and order > 2:
                curvature = (slope - slope_before) / ((u - before[1][0]) / 2)
                new = new + ((v - u) ** 2 / 2 + moment * phi) * curvature
            if s_noise:
                new = new + s_noise * math.sqrt(max(v**2 - (u * r) ** 2, 0.0)) * noise(x)
            x = sampling.alpha(to) * new
            before, slope_before = [(u, d), *before[:1]], slope
        yield SamplerStep(done, total, s, d)
    return x


def _er_phi(u: float, power: float | None) -> float:
    return u * (math.exp(u**0.3) + 10) if power is None else u**power


def _er_integrals(u: float, v: float, power: float | None, parts: int = 200) -> tuple[float, float]:
    """Integrals from v to u of 1 / phi and of (l - u) / phi."""
    width = (u - v) / parts
    at = v + width * (torch.arange(parts, dtype=torch.float64) + 0.5)
    density = width / (at * (at.pow(0.3).exp() + 10) if power is None else at.pow(power))
    return float(density.sum()), float(((at - u) * density).sum())
