"""Custom sampling: noise, guider, sampler and sigmas as nodes, and the nodes that run them."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from pipegraph.runtime.node import Linked, NotBelow, Progress, RunContext, Step, node, outputs

from ..ports import Denoiser, PositiveConditioning
from ..wire import Guider, Latent, Model, Noise, Sampler, SeedInt, Sigmas
from .shared import (
    Cfg,
    Denoise,
    Negative,
    SamplerName,
    SchedulerName,
    Steps,
    check_steps,
    sampling_events,
    used_negative,
)


@outputs
class SamplerOutputs:
    """Outputs of the custom samplers."""

    output: Latent
    """The final latent."""
    denoised_output: Latent
    """The model's last denoised prediction, without leftover noise."""


@outputs
class SplitOutputs:
    """Two parts of a schedule that share the sigma between them."""

    high_sigmas: Sigmas
    low_sigmas: Sigmas


@node("SamplerCustom", category="sampling/custom_sampling", effect="random")
def sampler_custom(
    ctx: RunContext,
    *,
    model: Denoiser,
    add_noise: bool = True,
    noise_seed: SeedInt = 0,
    cfg: Cfg = 8.0,
    positive: PositiveConditioning,
    negative: Negative,
    sampler: Sampler,
    sigmas: Sigmas,
    latent_image: Latent,
) -> Generator[Progress, None, SamplerOutputs]:
    """Sample with a given sampler and sigmas.

    Args:
        add_noise: Whether noise is added first.
        noise_seed: Seed of the noise; each batch item has its own noise.
        sampler: The sampler.
        sigmas: Decreasing noise levels.
        latent_image: Latent to start from; an empty one sets the size only.
    """
    from pipegraph.models.sampling import guiders, noise

    guider = guiders.Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
    drawn = noise.Noise(noise_seed, silent=not add_noise)
    sampled = yield from sampling_events(ctx, guider, drawn, sampler, sigmas, latent_image)
    return SamplerOutputs(sampled.latent(latent_image), sampled.denoised_latent(latent_image))


@node("SamplerCustomAdvanced", category="sampling/custom_sampling")
def sampler_custom_advanced(
    ctx: RunContext, noise: Noise, guider: Guider, sampler: Sampler, sigmas: Sigmas, latent_image: Latent
) -> Generator[Progress, None, SamplerOutputs]:
    """Sample with noise, guider, sampler and sigmas from nodes.

    Args:
        noise: Noise source.
        guider: Model and conditioning.
        sampler: The sampler.
        sigmas: Decreasing noise levels.
        latent_image: Latent to start from; an empty one sets the size only.
    """
    sampled = yield from sampling_events(ctx, guider, noise, sampler, sigmas, latent_image)
    return SamplerOutputs(sampled.latent(latent_image), sampled.denoised_latent(latent_image))


@node("KSamplerSelect", category="sampling/custom_sampling/samplers", title="KSamplerSelect")
def k_sampler_select(sampler_name: SamplerName = "euler") -> Sampler:
    """Choose a sampler.

    Args:
        sampler_name: The sampler.
    """
    from pipegraph.models.sampling.samplers import SAMPLERS

    return SAMPLERS[sampler_name]


@node("SamplerEulerAncestral", category="sampling/custom_sampling/samplers", title="SamplerEulerAncestral")
def sampler_euler_ancestral(
    eta: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0, s_noise: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0
) -> Sampler:
    """Choose the ancestral Euler sampler.

    Args:
        eta: Share of fresh noise: 0 as euler, 1 as euler_ancestral.
        s_noise: Factor of the fresh noise.
    """
    from pipegraph.models.sampling.samplers import euler_ancestral

    return euler_ancestral(eta, s_noise)


@node("BasicScheduler", category="sampling/custom_sampling/schedulers", check_model=check_steps)
def basic_scheduler(
    model: Model, scheduler: SchedulerName = "simple", steps: Steps = 20, denoise: Denoise = 1.0
) -> Sigmas:
    """Compute the sigmas of a model for a number of steps.

    Args:
        model: Model with the noise levels.
        scheduler: The schedule.
        steps: Number of steps that run, for any denoise.
        denoise: Share of the noise levels that runs: 1 all, 0 none.
    """
    from pipegraph.models.sampling.schedules import sigmas_for

    return sigmas_for(model.sampling, scheduler, steps, denoise)


def parse_sigmas(text: str) -> list[float]:
    """Parse sigmas separated by commas or spaces; ValueError if they do not decrease or are below 0."""
    try:
        sigmas = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(f"sigmas are numbers separated by commas, got {text!r}") from error
    if not all(0 <= sigma < math.inf for sigma in sigmas) or any(a <= b for a, b in pairwise(sigmas)):
        raise ValueError(f"sigmas must be finite, at least 0 and decreasing, got {text!r}")
    return sigmas


def _check_sigmas(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    try:
        parse_sigmas(values.get("sigmas", ""))
    except ValueError as error:
        yield "sigmas", str(error)


@node("ManualSigmas", category="sampling/custom_sampling/schedulers", check=_check_sigmas)
def manual_sigmas(sigmas: str = "1, 0.5") -> Sigmas:
    """Set the noise levels by hand.

    Args:
        sigmas: Decreasing numbers, separated by commas or spaces; the last is 0 for a fully denoised result.
    """
    import torch

    return torch.tensor(parse_sigmas(sigmas))


@node("KarrasScheduler", category="sampling/custom_sampling/schedulers")
def karras_scheduler(
    steps: Steps = 20,
    sigma_max: Annotated[float, Gt(0), Le(5000), Step(0.01), NotBelow("sigma_min")] = 14.614642,
    sigma_min: Annotated[float, Gt(0), Le(5000), Step(0.01)] = 0.0291675,
    rho: Annotated[float, Gt(0), Le(100), Step(0.01)] = 7.0,
) -> Sigmas:
    """Noise levels that are even in sigma^(1/rho).

    Args:
        steps: Number of steps.
        sigma_max: The first sigma.
        sigma_min: The last sigma before 0.
        rho: Higher values put more steps at low noise.
    """
    from pipegraph.models.sampling.schedules import karras_between

    return karras_between(sigma_min, sigma_max, steps, rho).float()


@node("ExponentialScheduler", category="sampling/custom_sampling/schedulers")
def exponential_scheduler(
    steps: Steps = 20,
    sigma_max: Annotated[float, Gt(0), Le(5000), Step(0.01), NotBelow("sigma_min")] = 14.614642,
    sigma_min: Annotated[float, Gt(0), Le(5000), Step(0.01)] = 0.0291675,
) -> Sigmas:
    """Noise levels that are even in log sigma.

    Args:
        steps: Number of steps.
        sigma_max: The first sigma.
        sigma_min: The last sigma before 0.
    """
    from pipegraph.models.sampling.schedules import exponential_between

    return exponential_between(sigma_min, sigma_max, steps).float()


@node("SplitSigmas", category="sampling/custom_sampling/sigmas")
def split_sigmas(sigmas: Sigmas, step: Annotated[int, Ge(0), Le(10000)] = 0) -> SplitOutputs:
    """Cut a schedule in two at a step.

    Args:
        sigmas: The whole schedule.
        step: First step of the second part.
    """
    return SplitOutputs(sigmas[: step + 1], sigmas[step:])


@node("SplitSigmasDenoise", category="sampling/custom_sampling/sigmas")
def split_sigmas_denoise(sigmas: Sigmas, denoise: Denoise = 1.0) -> SplitOutputs:
    """Cut a schedule in two so that the second part is a share of the steps.

    Args:
        sigmas: The whole schedule.
        denoise: The share of the second part, rounded to whole steps.
    """
    steps = max(len(sigmas) - 1, 0)
    cut = steps - round(steps * denoise)
    return SplitOutputs(sigmas[: cut + 1], sigmas[cut:])


@node("RandomNoise", category="sampling/custom_sampling/noise", effect="random")
def random_noise(noise_seed: SeedInt = 0) -> Noise:
    """Noise from a seed.

    Args:
        noise_seed: Seed; the same seed gives the same noise on every device.
    """
    from pipegraph.models.sampling import noise

    return noise.Noise(noise_seed)


@node("DisableNoise", category="sampling/custom_sampling/noise")
def disable_noise() -> Noise:
    """No initial noise, for a latent that already contains noise."""
    from pipegraph.models.sampling import noise

    return noise.Noise(silent=True)


@node("BasicGuider", category="sampling/custom_sampling/guiders")
def basic_guider(model: Denoiser, conditioning: PositiveConditioning) -> Guider:
    """Follow one conditioning without guidance."""
    from pipegraph.models.sampling import guiders

    return guiders.Guider(model, conditioning)


@node("CFGGuider", category="sampling/custom_sampling/guiders", title="CFGGuider")
def cfg_guider(
    ctx: RunContext, model: Denoiser, positive: PositiveConditioning, negative: Negative, cfg: Cfg = 8.0
) -> Guider:
    """Classifier-free guidance with a positive and a negative conditioning."""
    from pipegraph.models.sampling import guiders

    return guiders.Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
