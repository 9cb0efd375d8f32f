"""Noise levels of certain models, and changes of noise levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from pipegraph.runtime.node import Auto, Step, node

from ..wire import Model, Sigmas
from .shared import Steps, check_steps

Shape = Annotated[float, Gt(0), Le(50), Step(0.01)]


@node("ModelSamplingAuraFlow", category="advanced/model", title="ModelSamplingAuraFlow", changes={"levels": 1000})
def model_sampling_aura_flow(
    model: Model, shift: Annotated[float, Ge(0), Le(100), Step(0.01), Auto("shift")] = 1.73
) -> Model:
    """Set the shift of a flow model's noise levels, as ModelSamplingSD3 does; another default.

    Args:
        model: The model to set; its network is told the noise levels in its own unit.
        shift: a in sigma = a t / (1 + (a - 1) t): above 1 more of the steps lie at high noise.
    """
    from pipegraph.models.sampling.model_sampling import Flow, reshifted

    return model.with_sampling(reshifted(model.sampling, Flow(shift)))


@node("Flux2Scheduler", category="sampling/custom_sampling/schedulers", title="Flux2Scheduler")
def flux2_scheduler(
    steps: Annotated[int, Ge(1), Le(4096)] = 20,
    width: Annotated[int, Ge(16), Le(16384)] = 1024,
    height: Annotated[int, Ge(16), Le(16384)] = 1024,
) -> Sigmas:
    """Noise levels of FLUX.2 for a size of picture and a number of steps.

    Args:
        steps: How many steps.
        width: Of the picture, in pixels.
        height: Of the picture, in pixels.
    """
    from pipegraph.models.sampling.schedules import flux2

    return flux2(steps, round(width * height / 256)).float()


def _check_beta(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return check_steps({**values, "scheduler": "beta"}, model)


@node("BetaSamplingScheduler", category="sampling/custom_sampling/schedulers", check_model=_check_beta)
def beta_sampling_scheduler(model: Model, steps: Steps = 20, alpha: Shape = 0.6, beta: Shape = 0.6) -> Sigmas:
    """Noise levels at the quantiles of a beta distribution.

    Args:
        model: Whose noise levels.
        steps: How many steps; fewer where two fall on one noise level.
        alpha: Below 1 there are many steps at low noise.
        beta: Below 1 there are many steps at high noise.
    """
    from pipegraph.models.sampling import schedules

    return schedules.beta(model.sampling, steps, alpha, beta).float()


@node("SDTurboScheduler", category="sampling/custom_sampling/schedulers", title="SDTurboScheduler")
def sd_turbo_scheduler(
    model: Model,
    steps: Annotated[int, Ge(1), Le(10)] = 1,
    denoise: Annotated[float, Ge(0), Le(1), Step(0.01)] = 1.0,
) -> Sigmas:
    """Noise levels of SD Turbo and SDXL Turbo: some of the ten that they were trained on.

    Args:
        model: Whose noise levels; one that predicts noise.
        steps: How many steps, from the start on.
        denoise: Where to start: 1 at the highest noise; each tenth less is one level lower.
    """
    import torch

    from pipegraph.models.sampling.model_sampling import Discrete

    if not isinstance(model.sampling, Discrete):
        raise ValueError("SDTurboScheduler is for SD Turbo and SDXL Turbo; this is a flow model: use BasicScheduler")
    start = 10 - int(10 * denoise)
    timesteps = torch.arange(999, 0, -100)[start : start + steps]
    return torch.cat([model.sampling.sigma(timesteps), torch.zeros(1)]).float()


@node("SetFirstSigma", category="sampling/custom_sampling/sigmas")
def set_first_sigma(sigmas: Sigmas, sigma: Annotated[float, Ge(0), Le(20000), Step(0.001)] = 136.0) -> Sigmas:
    """Put another noise level at the beginning of a schedule.

    Args:
        sigmas: The schedule.
        sigma: Its first noise level from now on.
    """
    if not len(sigmas):
        raise ValueError("the schedule is empty: there is no first noise level to set")
    changed = sigmas.clone()
    changed[0] = sigma
    return changed
