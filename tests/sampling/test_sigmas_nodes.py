"""Noise levels that nodes make: against diffusers where it has them, and by their formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pipegraph.models.sampling.differential import Differential
from pipegraph.models.sampling.model_sampling import Discrete, Flow
from pipegraph.models.sampling.schedules import sigmas_for
from pipegraph.nodes.sampling.guiders import differential_diffusion, dual_cfg_guider
from pipegraph.nodes.sampling.sigmas import (
    _check_beta,
    beta_sampling_scheduler,
    flux2_scheduler,
    model_sampling_aura_flow,
    sd_turbo_scheduler,
    set_first_sigma,
)
from pipegraph.runtime.context import Available


@pytest.mark.parametrize(("steps", "side"), [(4, 512), (20, 1024), (50, 1024), (28, 1360)])
def test_flux2_as_diffusers_has_it(steps: int, side: int) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler
    from diffusers.pipelines.flux2.pipeline_flux2 import compute_empirical_mu

    tokens = round(side * side / 256)
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    sigmas = np.linspace(1, 1 / steps, steps)
    scheduler.set_timesteps(sigmas=sigmas, mu=compute_empirical_mu(image_seq_len=tokens, num_steps=steps))
    assert torch.allclose(flux2_scheduler(steps, side, side), scheduler.sigmas, atol=2e-6)


def test_aura_flow_is_a_shift_in_the_networks_own_unit(toy: Any) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    model = model_sampling_aura_flow(toy, 1.73)
    assert model.sampling == Flow(1.73) and model.sampling.entries == 1000
    assert torch.allclose(model.sampling.table.flip(0).float(), FlowMatchEulerDiscreteScheduler(shift=1.73).sigmas)
    thousand = model_sampling_aura_flow(toy.with_sampling(Flow(5.0, multiplier=1000)), 3.1)
    assert float(thousand.sampling.timestep(torch.tensor(0.5))) == 500
    with pytest.raises(ValueError, match="a shift is for flow models"):
        model_sampling_aura_flow(toy.with_sampling(Discrete()), 1.73)


def test_beta_of_any_shape(toy: Any) -> None:
    from scipy.stats import beta

    assert torch.equal(beta_sampling_scheduler(toy, 8), sigmas_for(toy.sampling, "beta", 8))
    rows = [round(beta.ppf(1 - i / 5, 0.4, 0.7) * 999) for i in range(5)]
    wanted = [float(toy.sampling.table[row]) for row in rows] + [0]
    assert beta_sampling_scheduler(toy, 5, 0.4, 0.7).tolist() == pytest.approx(wanted)
    assert list(_check_beta({"steps": 30}, {"levels": 20})) == [
        ("steps", 'the schedule "beta" has 19 noise levels for this model, too few for 30 steps')
    ]


def test_turbo_takes_the_levels_it_was_trained_on(toy: Any) -> None:
    model = toy.with_sampling(Discrete())
    table = model.sampling.table
    assert sd_turbo_scheduler(model, 1).tolist() == pytest.approx([float(table[999]), 0])
    assert sd_turbo_scheduler(model, 2, 0.5).tolist() == pytest.approx([float(table[499]), float(table[399]), 0])
    assert len(sd_turbo_scheduler(model, 10)) == 11
    with pytest.raises(ValueError, match="SDTurboScheduler is for SD Turbo"):
        sd_turbo_scheduler(toy, 1)


def test_first_sigma() -> None:
    sigmas = torch.tensor([1.0, 0.5, 0.0])
    assert set_first_sigma(sigmas, 999.0).tolist() == [999, 0.5, 0] and sigmas[0] == 1
    with pytest.raises(ValueError, match="schedule is empty"):
        set_first_sigma(torch.empty(0), 1.0)


def test_dual_guider(toy: Any, says: Callable[..., list[Any]]) -> None:
    ctx: Any = None
    one, two, none = says(1.0), says(2.0), says(3.0)
    regular = dual_cfg_guider(ctx, toy, one, two, Available(none), 3.0, 2.0)
    assert (regular.positive, regular.negative, regular.cfg) == (two, none, 2.0)
    assert regular.third and (regular.third.conditioning, regular.third.cfg, regular.third.nested) == (one, 3.0, False)
    nested = dual_cfg_guider(ctx, toy, one, two, Available(none), 3.0, 2.0, "nested")
    assert (nested.positive, nested.negative, nested.cfg) == (one, two, 3.0)
    assert nested.third and (nested.third.conditioning, nested.third.cfg, nested.third.nested) == (none, 2.0, True)
    alone = dual_cfg_guider(ctx, toy, one, two, Available(none), 1.0, 1.0)
    assert alone.positive is one and alone.third is None and not alone.guided
    assert differential_diffusion(toy, 0.5).differential == Differential(0.5)
