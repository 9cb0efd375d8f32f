"""The parts of a sampling as nodes of their own: noise, guider, sampler, sigmas, and the nodes that run them."""

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
    """Where the run ended."""
    denoised_output: Latent
    """The model's last prediction, free of noise also where the run left some in."""


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
    """Sample with a sampler and sigmas of one's own.

    Args:
        add_noise: Whether noise is added first.
        noise_seed: Of the noise; item i of a batch has noise of its own.
        sampler: How a step is made of predictions.
        sigmas: The noise levels, falling.
        latent_image: What to start from; an empty latent gives the size.
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
    """Sample with parts that are all nodes of their own.

    Args:
        noise: What the noise is drawn from.
        guider: The model and what it is to follow.
        sampler: How a step is made of predictions.
        sigmas: The noise levels, falling.
        latent_image: What to start from; an empty latent gives the size.
    """
    sampled = yield from sampling_events(ctx, guider, noise, sampler, sigmas, latent_image)
    return SamplerOutputs(sampled.latent(latent_image), sampled.denoised_latent(latent_image))


@node("KSamplerSelect", category="sampling/custom_sampling/samplers", title="KSamplerSelect")
def k_sampler_select(sampler_name: SamplerName = "euler") -> Sampler:
    """Choose how a step is made of predictions.

    Args:
        sampler_name: The sampler.
    """
    from pipegraph.models.sampling.samplers import SAMPLERS

    return SAMPLERS[sampler_name]


@node("SamplerEulerAncestral", category="sampling/custom_sampling/samplers", title="SamplerEulerAncestral")
def sampler_euler_ancestral(
    eta: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0, s_noise: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0
) -> Sampler:
    """Choose Euler's steps with fresh noise in each.

    Args:
        eta: How much of the noise is new: 0 none, as euler; 1 as euler_ancestral.
        s_noise: The new noise is multiplied by it.
    """
    from pipegraph.models.sampling.samplers import euler_ancestral

    return euler_ancestral(eta, s_noise)


@node("BasicScheduler", category="sampling/custom_sampling/schedulers", check_model=check_steps)
def basic_scheduler(
    model: Model, scheduler: SchedulerName = "simple", steps: Steps = 20, denoise: Denoise = 1.0
) -> Sigmas:
    """Spread a model's noise levels over steps.

    Args:
        model: Whose noise levels.
        scheduler: How they are spread.
        steps: How many steps are run, whatever denoise is.
        denoise: Part of the noise levels that is run: 1 all of them, 0 none.
    """
    from pipegraph.models.sampling.schedules import sigmas_for

    return sigmas_for(model.sampling, scheduler, steps, denoise)


def parse_sigmas(text: str) -> list[float]:
    """Sigmas written as numbers with commas or spaces between them; ValueError if they do not fall or are below 0."""
    try:
        sigmas = [float(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise ValueError(f"sigmas are numbers separated by commas, got {text!r}") from error
    if not all(0 <= sigma < math.inf for sigma in sigmas) or any(a <= b for a, b in pairwise(sigmas)):
        raise ValueError(f"sigmas must be finite, at least 0 and fall, got {text!r}")
    return sigmas


def _check_sigmas(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    try:
        parse_sigmas(values.get("sigmas", ""))
    except ValueError as error:
        yield "sigmas", str(error)


@node("ManualSigmas", category="sampling/custom_sampling/schedulers", check=_check_sigmas)
def manual_sigmas(sigmas: str = "1, 0.5") -> Sigmas:
    """Give the noise levels by hand.

    Args:
        sigmas: Numbers that fall, separated by commas or spaces; to finish the picture the last is 0.
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
        steps: How many steps.
        sigma_max: The first sigma.
        sigma_min: The last sigma before 0.
        rho: The higher, the more of the steps lie at low noise.
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
        steps: How many steps.
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
        step: The first step of the second part.
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
    """Noise of a seed.

    Args:
        noise_seed: The same seed is the same noise on every device.
    """
    from pipegraph.models.sampling import noise

    return noise.Noise(noise_seed)


@node("DisableNoise", category="sampling/custom_sampling/noise")
def disable_noise() -> Noise:
    """No noise at the start, for a latent that has noise in it."""
    from pipegraph.models.sampling import noise

    return noise.Noise(silent=True)


@node("BasicGuider", category="sampling/custom_sampling/guiders")
def basic_guider(model: Denoiser, conditioning: PositiveConditioning) -> Guider:
    """Follow one conditioning as it is, with no negative."""
    from pipegraph.models.sampling import guiders

    return guiders.Guider(model, conditioning)


@node("CFGGuider", category="sampling/custom_sampling/guiders", title="CFGGuider")
def cfg_guider(
    ctx: RunContext, model: Denoiser, positive: PositiveConditioning, negative: Negative, cfg: Cfg = 8.0
) -> Guider:
    """Follow a conditioning and keep away from another (classifier-free guidance)."""
    from pipegraph.models.sampling import guiders

    return guiders.Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
