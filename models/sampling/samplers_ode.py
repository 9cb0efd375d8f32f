"""Samplers that solve the probability-flow ODE dx/dsigma = (x - x0) / sigma and draw no noise.

The ODE is the same for z + sigma n and for sigma n + (1 - sigma) z, so none of them asks which one the model uses.
The exponential ones integrate in lambda = -ln sigma, where x(lambda') = e^-h x + integral of e^(l - lambda') x0(l) dl
and h = lambda' - lambda. Where the last sigma is 0 the last step returns the prediction.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .steps import Denoiser, SamplerStep, StepNoise, Steps, each_step, euler_step


def euler(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """Euler's method; order 1, one model call a step. It is also DDIM with eta 0 (arXiv 2010.02502)."""
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        x = euler_step(x, d, s, to)
        yield SamplerStep(done, total, s, d)
    return x


def heun(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """Heun's method (arXiv 2206.00364, algorithm 1); order 2, two model calls a step, one in a last step to 0."""
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        ahead = euler_step(x, d, s, to)
        if to == 0:
            x = ahead
        else:
            slope = (x - d) / s + (ahead - denoise(ahead, to)) / to
            x = x + slope * ((to - s) / 2)
        yield SamplerStep(done, total, s, d)
    return x


def dpm_2(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """Midpoint method, the middle taken in log sigma (DPM-Solver-2, arXiv 2206.00927); two model calls a step."""
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        if to == 0:
            x = d
        else:
            middle = math.sqrt(s * to)
            half = euler_step(x, d, s, middle)
            x = x + (half - denoise(half, middle)) * ((to - s) / middle)
        yield SamplerStep(done, total, s, d)
    return x


def dpmpp_2m(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """DPM-Solver++(2M) (arXiv 2211.01095, algorithm 2): x0 is extrapolated from two predictions to mid-step."""
    before: tuple[float, Tensor] | None = None
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        if to == 0:
            x = d
        else:
            h, ahead = math.log(s / to), d
            if before is not None:
                r = math.log(before[0] / s) / h
                ahead = torch.lerp(before[1], d, 1 + 1 / (2 * r))
            x = euler_step(x, ahead, s, to)
        before = (s, d)
        yield SamplerStep(done, total, s, d)
    return x


def res_multistep(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """Refined exponential solver, two-step form (arXiv 2308.02157): x0 is a line in lambda through two predictions."""
    before: tuple[float, Tensor] | None = None
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        if to == 0 or before is None:
            x = euler_step(x, d, s, to)
        else:
            h, back = math.log(s / to), math.log(before[0] / s)
            phi1 = -math.expm1(-h) / h
            phi2 = (1 - phi1) / h
            x = (to / s) * x + (h * phi1 + h * h * phi2 / back) * d - (h * h * phi2 / back) * before[1]
        before = (s, d)
        yield SamplerStep(done, total, s, d)
    return x


def gradient_estimation(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise, gamma: float = 2.0) -> Steps:
    """Euler along gamma times the new direction plus 1 - gamma times the one before (arXiv 2306.04848)."""
    before: Tensor | None = None
    for done, total, s, to in each_step(sigmas.tolist()):
        d = denoise(x, s)
        slope = (x - d) / s
        if to == 0:
            x = d
        else:
            x = x + (slope if before is None else torch.lerp(before, slope, gamma)) * (to - s)
        before = slope
        yield SamplerStep(done, total, s, d)
    return x


UNI_PC_LAST_SIGMA = 0.001
"""Replaces a last sigma of 0 in uni_pc, where lambda is infinite."""


def uni_pc(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise, variant: str = "bh1") -> Steps:
    """UniPC with x0 prediction (arXiv 2302.04867, algorithms 5 to 8): a predictor of up to order 3 and its corrector.

    The corrector uses the prediction that the next step needs anyway, so there is one model call a step.
    """
    levels = sigmas.tolist()
    levels[-1] = levels[-1] or UNI_PC_LAST_SIGMA
    highest = max(1, min(3, len(levels) - 2))
    history: list[tuple[float, Tensor]] = []
    at, order = x, 1
    for done, total, s, to in each_step(levels):
        d = denoise(x, s)
        if history:
            x = _uni_pc_update(at, history[-order:], s, variant, corrected_by=d)
        history = [*history[-2:], (s, d)]
        at, order = x, min(highest, done, total + 1 - done)
        x = _uni_pc_update(at, history[-order:], to, variant)
        yield SamplerStep(done, total, s, d)
    return x


def uni_pc_bh2(denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
    """UniPC with B(h) = e^h - 1, the variant its authors use for few steps."""
    return uni_pc(denoise, x, sigmas, noise, variant="bh2")


def _uni_pc_update(
    x: Tensor, history: list[tuple[float, Tensor]], to: float, variant: str, corrected_by: Tensor | None = None
) -> Tensor:
    """From x at the last sigma of ``history`` to ``to``; ``history`` has as many predictions as the order."""
    s, d = history[-1]
    h = math.log(s / to)
    rates = [math.log(s / earlier) / h for earlier, _ in history[-2::-1]]
    slopes = [(earlier - d) / r for (_, earlier), r in zip(history[-2::-1], rates, strict=True)]
    if corrected_by is not None:
        rates, slopes = [*rates, 1.0], [*slopes, corrected_by - d]
    x = (to / s) * x - math.expm1(-h) * d
    scale = -h if variant == "bh1" else math.expm1(-h)
    for weight, slope in zip(_uni_pc_weights(rates, -h, scale), slopes, strict=True):
        x = x - (scale * weight) * slope
    return x


def _uni_pc_weights(rates: list[float], h: float, scale: float) -> list[float]:
    """Weights of the differences, exact for polynomials; 1/2 for a single difference, as in the paper."""
    if len(rates) <= 1:
        return [0.5] * len(rates)
    wanted, phi, factorial = [], math.expm1(h) / h - 1, 1.0
    for k in range(1, len(rates) + 1):
        wanted.append(phi * factorial / scale)
        factorial *= k + 1
        phi = phi / h - 1 / factorial
    powers = torch.tensor([[r**k for r in rates] for k in range(len(rates))], dtype=torch.float64)
    solved: list[float] = torch.linalg.solve(powers, torch.tensor(wanted, dtype=torch.float64)).tolist()
    return solved
