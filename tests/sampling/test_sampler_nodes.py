"""Samplers with settings, and temporal score rescaling: by their formulas, against the plain samplers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.sampling.guidance_scales import Rescored
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.model_sampling import Discrete, Flow
from pipegraph.models.sampling.noise import ItemNoise, Noise, initial_noise
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS, Sampler
from pipegraph.nodes.sampling.samplers import sampler_er_sde, sampler_lcm
from pipegraph.nodes.sampling.scales import temporal_score_rescaling

Says = Callable[..., list[Any]]
SIGMAS = torch.tensor([0.9, 0.6, 0.3, 0.1, 0.0])
SHAPE = (1, 4, 8, 8)


class Denoise:
    """Predicts half of the state."""

    sampling = Flow(1.0)

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        return 0.5 * x


def end(sampler: Sampler, x: Tensor, noise: Callable[[Tensor], Tensor]) -> Tensor:
    run: Any = sampler.run
    result: Tensor = finish(run(Denoise(), x, SIGMAS, noise))
    return result


def drawn() -> Callable[[Tensor], Tensor]:
    return ItemNoise(5, range(1))


def test_lcm_with_a_noise_that_changes() -> None:
    x = initial_noise(1, SHAPE, None)
    assert torch.equal(end(sampler_lcm(), x, drawn()), end(SAMPLERS["lcm"], x, drawn()))
    noise, state = drawn(), x
    for i, to in enumerate((0.6, 0.3, 0.1)):
        factor = 2.0 + (0.5 - 2.0) * i / 3  # the fourth step adds none
        eps = noise(state)
        most = 1.5 * eps.std()
        state = (1 - to) * 0.5 * state + to * factor * eps.clamp(-most, most)
    assert torch.allclose(end(sampler_lcm(2.0, 0.5, 1.5), x, drawn()), 0.5 * state, atol=1e-6)


def test_er_sde_with_settings() -> None:
    x = initial_noise(1, SHAPE, None)
    assert torch.equal(end(sampler_er_sde(), x, drawn()), end(SAMPLERS["er_sde"], x, drawn()))
    ode = end(sampler_er_sde("ODE", 1), x, drawn())
    assert torch.equal(ode, end(sampler_er_sde("Reverse-time SDE", 1, 0.0), x, drawn()))
    assert torch.allclose(ode, end(SAMPLERS["euler"], x, drawn()), atol=1e-6), "order 1 of the ODE is Euler"
    noise, state = drawn(), x
    for s, to in ((0.9, 0.6), (0.6, 0.3), (0.3, 0.1)):  # phi = u^(eta + 1), first order
        u, v = s / (1 - s), to / (1 - to)
        r = (v / u) ** 1.5
        new = r * state / (1 - s) + (1 - r) * 0.5 * state + 0.7 * math.sqrt(v**2 - (u * r) ** 2) * noise(state)
        state = (1 - to) * new
    made = end(sampler_er_sde("Reverse-time SDE", 1, 0.5, 0.7), x, drawn())
    assert torch.allclose(made, 0.5 * state, atol=1e-5)
    orders = [end(sampler_er_sde("ODE", order), x, drawn()) for order in (1, 2, 3)]
    assert not torch.allclose(orders[0], orders[1]) and not torch.allclose(orders[1], orders[2])


def test_score_rescaling_multiplies_the_noise(toy: Any, says: Says) -> None:
    x, guided = torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(1))
    for sampling, sigma in ((Flow(3.0), 0.3), (Discrete(), 0.8)):
        acting = Rescored(0.9, 1.5).begin(sampling, {})
        alpha = sampling.alpha(sigma)
        snr = (alpha / sigma) ** 2
        r = (snr * 1.5**2 + 1) / (snr * 1.5**2 / 0.9 + 1)
        noise = (x - alpha * guided) / sigma
        wanted = (x - sigma * r * noise) / alpha
        assert 0.9 < r < 1 and torch.allclose(acting.combined(x, sigma, {}, guided, 1.0), wanted, atol=1e-5)
    assert Rescored(0.9, 1.0).begin(Flow(3.0), {}).combined(x, 1.0, {}, guided, 1.0) is guided
    assert temporal_score_rescaling(toy, 1.0) is toy
    model = temporal_score_rescaling(toy, 0.8)
    assert not Guider(model, says(1.0)).warnings(), "it acts without a negative"
    ends = [
        finish(
            sample(Guider(m, says(1.0)), Noise(1), SAMPLERS["euler"], SIGMAS, {"samples": torch.zeros(SHAPE)})
        ).samples
        for m in (toy, model, replace(toy, guidance=(Rescored(0.8, 1.0),)))
    ]
    assert torch.equal(ends[1], ends[2]) and not torch.allclose(ends[0], ends[1])


@pytest.mark.parametrize("node", [sampler_lcm, sampler_er_sde])
def test_they_are_values_of_a_sampler_wire(node: Any) -> None:
    assert list(node.node_spec.outputs) == ["SAMPLER"] and isinstance(node(), Sampler)
