"""KSampler and KSamplerAdvanced, and the model patches that set a model's noise levels."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Auto, Progress, RunContext, Step, node

from ..ports import Denoiser, PositiveConditioning
from ..wire import Latent, Model, SeedInt
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


@node("KSampler", category="sampling", title="KSampler", effect="random", check_model=check_steps)
def k_sampler(
    ctx: RunContext,
    *,
    model: Denoiser,
    seed: SeedInt = 0,
    steps: Steps = 20,
    cfg: Cfg = 8.0,
    sampler_name: SamplerName = "euler",
    scheduler: SchedulerName = "simple",
    positive: PositiveConditioning,
    negative: Negative,
    latent_image: Latent,
    denoise: Denoise = 1.0,
) -> Generator[Progress, None, Latent]:
    """Denoise a latent, guided by positive and negative conditioning.

    Args:
        seed: Seed of the noise; each batch item has its own noise.
        steps: Number of steps that run, for any denoise.
        sampler_name: The sampler.
        scheduler: The noise schedule.
        latent_image: Latent to start from; an empty one sets the size only.
        denoise: Share of the noise levels that runs: 1 keeps nothing of the latent, 0 all of it.
    """
    from pipegraph.models.sampling.guiders import Guider
    from pipegraph.models.sampling.noise import Noise
    from pipegraph.models.sampling.samplers import SAMPLERS
    from pipegraph.models.sampling.schedules import sigmas_for

    sampler = SAMPLERS[sampler_name]
    sigmas = sigmas_for(model.sampling, scheduler, steps, denoise, drop_penultimate=sampler.drop_penultimate)
    guider = Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
    sampled = yield from sampling_events(ctx, guider, Noise(seed), sampler, sigmas, latent_image)
    return sampled.latent(latent_image)


@node("KSamplerAdvanced", category="sampling", title="KSampler (Advanced)", effect="random", check_model=check_steps)
def k_sampler_advanced(
    ctx: RunContext,
    *,
    model: Denoiser,
    add_noise: Literal["enable", "disable"] = "enable",
    noise_seed: SeedInt = 0,
    steps: Steps = 20,
    cfg: Cfg = 8.0,
    sampler_name: SamplerName = "euler",
    scheduler: SchedulerName = "simple",
    positive: PositiveConditioning,
    negative: Negative,
    latent_image: Latent,
    start_at_step: Annotated[int, Ge(0), Le(10000)] = 0,
    end_at_step: Annotated[int, Ge(0), Le(10000)] = 10000,
    return_with_leftover_noise: Literal["disable", "enable"] = "disable",
) -> Generator[Progress, None, Latent]:
    """Run a range of sampling steps, so that several nodes can share a schedule.

    Args:
        add_noise: Add noise first; disable it for a latent with leftover noise.
        noise_seed: Seed of the noise; each batch item has its own noise.
        steps: Steps of the whole schedule.
        sampler_name: The sampler.
        scheduler: The noise schedule.
        latent_image: Latent to start from.
        start_at_step: First step to run; beyond the end the latent is returned unchanged.
        end_at_step: Step to stop before.
        return_with_leftover_noise: Keep the remaining noise of a run that stops early, for another node to continue.
    """
    from pipegraph.models.sampling.guiders import Guider
    from pipegraph.models.sampling.noise import Noise
    from pipegraph.models.sampling.samplers import SAMPLERS
    from pipegraph.models.sampling.schedules import part_of, sigmas_for

    sampler = SAMPLERS[sampler_name]
    sigmas = sigmas_for(model.sampling, scheduler, steps, drop_penultimate=sampler.drop_penultimate)
    sigmas = part_of(sigmas, start_at_step, end_at_step, leave_noise=return_with_leftover_noise == "enable")
    guider = Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
    noise = Noise(noise_seed, silent=add_noise == "disable")
    sampled = yield from sampling_events(ctx, guider, noise, sampler, sigmas, latent_image)
    return sampled.latent(latent_image)


@node("ModelSamplingFlux", category="advanced/model", changes={"levels": 10_000})
def model_sampling_flux(
    model: Model,
    max_shift: Annotated[float, Ge(0), Le(100), Step(0.01), Auto("max_shift")] = 1.15,
    base_shift: Annotated[float, Ge(0), Le(100), Step(0.01), Auto("base_shift")] = 0.5,
    width: Annotated[int, Ge(16), Le(16384), Step(8), Auto("width")] = 1024,
    height: Annotated[int, Ge(16), Le(16384), Step(8), Auto("height")] = 1024,
) -> Model:
    """Set the shift of FLUX for an image size: more pixels, more steps at high noise.

    Args:
        model: Model to patch.
        max_shift: mu of an image of 4096 tokens (1024 x 1024 pixels).
        base_shift: mu of an image of 256 tokens (256 x 256 pixels).
        width: Image width in pixels.
        height: Image height in pixels.
    """
    from pipegraph.models.sampling.model_sampling import Flow, mu_for_tokens, reshifted

    mu = mu_for_tokens(width * height / 256, base_shift, max_shift)
    return model.with_sampling(reshifted(model.sampling, Flow.from_mu(mu)))


@node("ModelSamplingSD3", category="advanced/model", title="ModelSamplingSD3", changes={"levels": 1000})
def model_sampling_sd3(
    model: Model,
    shift: Annotated[float, Ge(0), Le(100), Step(0.01), Auto("shift")] = 3.0,
) -> Model:
    """Set the shift of a flow model's noise levels.

    Args:
        model: Model to patch.
        shift: a in sigma = a t / (1 + (a - 1) t): above 1 puts more steps at high noise.
    """
    from pipegraph.models.sampling.model_sampling import Flow, reshifted

    return model.with_sampling(reshifted(model.sampling, Flow(shift)))
