"""Schedules of certain models, and changes of sigmas."""

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
    """Set the shift of a flow model, as ModelSamplingSD3, with another default.

    Args:
        model: Model to patch; its network keeps its own timestep unit.
        shift: a in sigma = a t / (1 + (a - 1) t): above 1 puts more steps at high noise.
    """
    from pipegraph.models.sampling.model_sampling import Flow, reshifted

    return model.with_sampling(reshifted(model.sampling, Flow(shift)))


@node("Flux2Scheduler", category="sampling/custom_sampling/schedulers", title="Flux2Scheduler")
def flux2_scheduler(
    steps: Annotated[int, Ge(1), Le(4096)] = 20,
    width: Annotated[int, Ge(16), Le(16384)] = 1024,
    height: Annotated[int, Ge(16), Le(16384)] = 1024,
) -> Sigmas:
    """Sigmas of FLUX.2 for an image size and a number of steps.

    Args:
        steps: Number of steps.
        width: Image width in pixels.
        height: Image height in pixels.
    """
    from pipegraph.models.sampling.schedules import flux2

    return flux2(steps, round(width * height / 256)).float()


def _check_beta(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return check_steps({**values, "scheduler": "beta"}, model)


@node("BetaSamplingScheduler", category="sampling/custom_sampling/schedulers", check_model=_check_beta)
def beta_sampling_scheduler(model: Model, steps: Steps = 20, alpha: Shape = 0.6, beta: Shape = 0.6) -> Sigmas:
    """Sigmas at the quantiles of a beta distribution.

    Args:
        model: Model with the noise levels.
        steps: Number of steps; fewer if two have the same sigma.
        alpha: Below 1 puts more steps at low noise.
        beta: Below 1 puts more steps at high noise.
    """
    from pipegraph.models.sampling import schedules

    return schedules.beta(model.sampling, steps, alpha, beta).float()


@node("SDTurboScheduler", category="sampling/custom_sampling/schedulers", title="SDTurboScheduler")
def sd_turbo_scheduler(
    model: Model,
    steps: Annotated[int, Ge(1), Le(10)] = 1,
    denoise: Annotated[float, Ge(0), Le(1), Step(0.01)] = 1.0,
) -> Sigmas:
    """Sigmas of SD Turbo and SDXL Turbo: some of their ten training levels.

    Args:
        model: Model with the noise levels; must predict noise.
        steps: Number of steps, from the first on.
        denoise: Start level: 1 is the highest noise; each 0.1 less is one level lower.
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
    """Replace the first sigma of a schedule.

    Args:
        sigmas: The schedule.
        sigma: New first sigma.
    """
    if not len(sigmas):
        raise ValueError("the schedule is empty: there is no first sigma to set")
    changed = sigmas.clone()
    changed[0] = sigma
    return changed
