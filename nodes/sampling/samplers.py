"""Samplers with settings of their own."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Step, node

from ..wire import Sampler

Factor = Annotated[float, Ge(0), Le(100), Step(0.01)]
LcmFactor = Annotated[float, Ge(0), Le(64), Step(0.01)]


@node("SamplerLCM", category="sampling/custom_sampling/samplers", title="SamplerLCM")
def sampler_lcm(
    s_noise: LcmFactor = 1.0,
    s_noise_end: LcmFactor = 1.0,
    noise_clip_std: Annotated[float, Ge(0), Le(10), Step(0.01)] = 0.0,
) -> Sampler:
    """Choose LCM's steps with other noise.

    Args:
        s_noise: Factor of the noise at the first step.
        s_noise_end: Factor of the noise at the last step; in between it changes evenly.
        noise_clip_std: Values beyond so many standard deviations are cut; 0 cuts none.
    """
    from pipegraph.models.sampling.samplers import lcm

    return lcm(s_noise, s_noise_end, noise_clip_std)


@node("SamplerER_SDE", category="sampling/custom_sampling/samplers", title="SamplerER_SDE")
def sampler_er_sde(
    solver_type: Literal["ER-SDE", "Reverse-time SDE", "ODE"] = "ER-SDE",
    max_stage: Annotated[int, Ge(1), Le(3)] = 3,
    eta: Factor = 1.0,
    s_noise: Factor = 1.0,
) -> Sampler:
    """Choose the extended reverse-time SDE solver's steps.

    Args:
        solver_type: How noise and prediction are weighed; ODE adds no noise.
        max_stage: Order of the solver.
        eta: Of the reverse-time SDE: how much of the noise is new; 0 is the ODE.
        s_noise: The new noise is multiplied by it.
    """
    from pipegraph.models.sampling.samplers import er_sde

    if solver_type == "ER-SDE":
        return er_sde(None, max_stage, s_noise)
    if solver_type == "ODE" or not eta:
        return er_sde(1.0, max_stage, 0.0)
    return er_sde(eta + 1, max_stage, s_noise)
