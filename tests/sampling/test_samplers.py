"""Samplers against exact solutions: Gaussian data, whose denoiser, ODE and marginals are known in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch
from scipy.integrate import quad
from torch import Tensor

from pipegraph.models.sampling.model_sampling import Discrete, Flow, ModelSampling
from pipegraph.models.sampling.noise import ItemNoise
from pipegraph.models.sampling.samplers import SAMPLERS, Sampler
from pipegraph.models.sampling.samplers_ode import _uni_pc_update
from pipegraph.models.sampling.schedules import sigmas_for
from pipegraph.models.sampling.steps import SamplerStep
from pipegraph.nodes.sampling.custom import sampler_euler_ancestral

MEAN, SPREAD = 0.4, 0.5


@dataclass
class Gaussian:
    """The ideal denoiser of data N(MEAN, SPREAD^2)."""

    sampling: ModelSampling
    asked: list[float] = field(default_factory=list)

    def marginal(self, sigma: float) -> tuple[float, float]:
        a = self.sampling.alpha(sigma)
        return a * MEAN, math.sqrt((a * SPREAD) ** 2 + sigma**2)

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        self.asked.append(sigma)
        mean, std = self.marginal(sigma)
        return MEAN + self.sampling.alpha(sigma) * SPREAD**2 / std**2 * (x - mean)

    def solution(self, x: Tensor, sigma: float, to: float) -> Tensor:
        """Where the probability-flow ODE takes x: it keeps the place in the marginal."""
        mean, std = self.marginal(sigma)
        new_mean, new_std = self.marginal(to)
        return new_mean + (x - mean) / std * new_std


def run(
    name: str | Sampler, denoise: Gaussian, x: Tensor, sigmas: Tensor, seed: int = 0
) -> tuple[Tensor, list[SamplerStep]]:
    sampler = SAMPLERS[name] if isinstance(name, str) else name
    steps, told = sampler.run(denoise, x, sigmas, ItemNoise(seed, range(len(x)))), []
    while True:
        try:
            told.append(next(steps))
        except StopIteration as stop:
            return stop.value, told


ODE = {"euler": 1, "heun": 2, "dpm_2": 2, "dpmpp_2m": 2, "res_multistep": 2, "uni_pc": 2, "uni_pc_bh2": 2, "ddim": 1}
SDE = ["euler_ancestral", "dpmpp_2m_sde", "dpmpp_3m_sde", "er_sde"]
SAMPLINGS: list[ModelSampling] = [Discrete(), Flow(3.0)]


def ode_error(name: str, sampling: ModelSampling, n: int) -> float:
    """Largest distance from the exact solution after n steps, even in log sigma, between two inner noise levels."""
    high, low = (8.0, 0.1) if not sampling.flow else (0.9, 0.05)
    sigmas = torch.linspace(math.log(high), math.log(low), n + 1, dtype=torch.float64).exp()
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)[None] * high
    model = Gaussian(sampling)
    end, _ = run(name, model, x, sigmas)
    return float((end - model.solution(x, high, low)).abs().max())


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["eps", "flow"])
@pytest.mark.parametrize("name", ODE)
def test_error_falls_with_the_order_of_the_method(name: str, sampling: ModelSampling) -> None:
    coarse, fine = ode_error(name, sampling, 160), ode_error(name, sampling, 320)
    measured = math.log2(coarse / fine)
    assert measured > ODE[name] - 0.3, f"order {measured:.2f}"
    assert measured < ODE[name] + 1.3, f"order {measured:.2f}: the tested order is too low"
    assert fine < 0.06


def test_gradient_estimation_is_first_order_and_looks_ahead() -> None:
    errors = [ode_error("gradient_estimation", Discrete(), n) for n in (40, 80)]
    assert 0.7 < math.log2(errors[0] / errors[1]) < 2.3
    # gamma 2 is Adams-Bashforth with twice its weight on the change: the error has the other sign of Euler's.
    assert errors[1] < 2 * ode_error("euler", Discrete(), 80)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["eps", "flow"])
@pytest.mark.parametrize("name", SDE)
def test_sde_samplers_end_in_the_distribution_of_the_data(name: str, sampling: ModelSampling) -> None:
    model, count = Gaussian(sampling), 40_000
    sigmas = sigmas_for(sampling, "karras" if not sampling.flow else "simple", 120)
    noise = torch.randn(1, count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mean, std = model.marginal(float(sigmas[0]))
    end, _ = run(name, model, mean + std * noise, sigmas)
    assert float(end.mean()) == pytest.approx(MEAN, abs=0.02)
    # euler_ancestral is of order 1 and comes up to it from below: 0.472 after 120 steps, 0.489 after 240.
    assert float(end.std()) == pytest.approx(SPREAD, rel=0.08 if name == "euler_ancestral" else 0.03)
    # It is a stochastic sampler: the end is not that of the ODE.
    assert float((end - model.solution(mean + std * noise, float(sigmas[0]), 0.0)).abs().mean()) > 0.1


def test_a_higher_order_sde_is_nearer_to_the_distribution() -> None:
    def miss(name: str) -> float:
        model, sigmas = Gaussian(Discrete()), sigmas_for(Discrete(), "karras", 60)
        start = 14.6 * torch.randn(1, 40_000, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        return abs(float(run(name, model, start, sigmas)[0].std()) - SPREAD)

    assert miss("dpmpp_2m_sde") < miss("euler_ancestral") / 2
    assert miss("dpmpp_3m_sde") < miss("euler_ancestral") / 2
    assert miss("er_sde") < miss("euler_ancestral") / 2


def test_lcm_noises_each_prediction_again() -> None:
    for sampling in SAMPLINGS:
        model: Gaussian = Gaussian(sampling)
        sigmas = torch.tensor([0.9, 0.5, 0.0])
        x = torch.zeros(1, 64)
        end, told = run("lcm", model, x, sigmas, seed=3)
        fresh = ItemNoise(3, [0])(x)
        middle = sampling.alpha(0.5) * told[0].denoised + 0.5 * fresh
        assert torch.allclose(end, model(middle, 0.5))


TWO_CALLS = {"heun", "dpm_2"}


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["eps", "flow"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_steps_calls_and_end(name: str, sampling: ModelSampling) -> None:
    for n in (1, 2, 3, 7):
        drop = SAMPLERS[name].drop_penultimate
        sigmas = sigmas_for(sampling, "simple", n, drop_penultimate=drop)
        model, x = Gaussian(sampling), torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
        before = x.clone()
        end, told = run(name, model, x, sigmas)
        assert [(s.done, s.total) for s in told] == [(i, n) for i in range(1, n + 1)]
        assert len(model.asked) == (2 * n - 1 if name in TWO_CALLS else n)
        assert bool(torch.isfinite(end).all()) and torch.equal(x, before)
        assert told[0].sigma == pytest.approx(float(sigmas[0]), rel=1e-3)
        if not name.startswith("uni_pc"):
            assert torch.allclose(end, told[-1].denoised, atol=1e-6)


@pytest.mark.parametrize("name", [*SDE, "lcm"])
def test_an_item_does_not_depend_on_its_batch(name: str) -> None:
    sigmas = sigmas_for(Flow(3.0), "simple", 5)
    x = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    whole, _ = run(name, Gaussian(Flow(3.0)), x, sigmas, seed=9)
    steps = SAMPLERS[name].run(Gaussian(Flow(3.0)), x[2:], sigmas, ItemNoise(9, [2]))
    with pytest.raises(StopIteration) as stop:
        while True:
            next(steps)
    assert torch.equal(stop.value.value[0], whole[2])
    assert not torch.equal(run(name, Gaussian(Flow(3.0)), x, sigmas, seed=10)[0], whole)


@pytest.mark.parametrize("variant", ["bh1", "bh2"])
def test_one_uni_pc_update_from_exact_predictions_has_its_order(variant: str) -> None:
    # A whole run is of order 2, since its last step is one of order 1 with no corrector.
    model = Gaussian(Discrete())

    def local_error(order: int, h: float, corrected: bool) -> float:
        sigmas = [2 * math.exp(-h * i) for i in range(order + 1)]
        xs = [model.solution(torch.full((1,), 1.5, dtype=torch.float64), 1.0, s) for s in sigmas]
        seen = [(s, model(x, s)) for s, x in zip(sigmas[:-1], xs[:-1], strict=True)]
        by = model(xs[-1], sigmas[-1]) if corrected else None
        return abs(float(_uni_pc_update(xs[-2], seen, sigmas[-1], variant, by) - xs[-1]))

    for order in (1, 2, 3):
        for corrected in (False, True):
            measured = math.log2(local_error(order, 0.02, corrected) / local_error(order, 0.01, corrected))
            assert measured == pytest.approx(order + 1 + corrected, abs=0.2), (order, corrected)


def test_uni_pc_beats_its_lower_orders() -> None:
    assert ode_error("uni_pc", Flow(3.0), 20) < ode_error("dpmpp_2m", Flow(3.0), 20) / 3
    assert ode_error("dpmpp_2m", Flow(3.0), 20) < ode_error("euler", Flow(3.0), 20) / 3


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["eps", "flow"])
def test_how_much_of_the_noise_of_ancestral_euler_is_new(sampling: ModelSampling) -> None:
    """At eta 0 none is, as in Euler's method; at 1 all, as in the sampler of that name; it can be stronger."""
    x, sigmas = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)), sigmas_for(sampling, "normal", 6)
    kinds: dict[str, str | Sampler] = {
        "euler": "euler",
        "ancestral": "euler_ancestral",
        "none": sampler_euler_ancestral(0, 1),
        "all": sampler_euler_ancestral(),
        "half": sampler_euler_ancestral(0.5),
        "silent": sampler_euler_ancestral(1, 0),
    }
    ends = {key: run(which, Gaussian(sampling), x, sigmas)[0] for key, which in kinds.items()}
    assert torch.allclose(ends["none"], ends["euler"], atol=1e-5)
    assert torch.equal(ends["all"], ends["ancestral"])
    assert (ends["half"] - ends["all"]).abs().max() > 0.01
    assert ends["silent"].std() < ends["all"].std() / 2


class Predictions:
    """A denoiser that gives numbers, one after the other, whatever it is asked."""

    def __init__(self, sampling: ModelSampling, *values: float) -> None:
        self.sampling, self.values = sampling, iter(values)

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        return torch.full_like(x, next(self.values))


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["eps", "flow"])
def test_er_sde_takes_the_integral_of_its_paper(sampling: ModelSampling) -> None:
    """x(v) = phi(v) (x(u) / phi(u) + integral of phi' / phi^2 of the prediction) of arXiv 2309.06169, without noise:
    the prediction goes on by slope and curvature of the last three; u = sigma / alpha, x without alpha."""
    sigmas, values = [0.9, 0.6, 0.4, 0.25, 0.1], [1.0, -0.5, 2.0, 0.3]
    steps = SAMPLERS["er_sde"].run(
        Predictions(sampling, *values),
        torch.full((1, 1), 0.7, dtype=torch.float64),
        torch.tensor(sigmas, dtype=torch.float64),
        torch.zeros_like,
    )
    with pytest.raises(StopIteration) as stop:
        while True:
            next(steps)

    def phi(u: float) -> float:
        return u * (math.exp(u**0.3) + 10)

    def rate(u: float) -> float:  # phi' / phi^2
        return float(math.exp(u**0.3) * (1 + 0.3 * u**0.3) + 10) / phi(u) ** 2

    us = [s / sampling.alpha(s) for s in sigmas]
    x = 0.7 / sampling.alpha(sigmas[0])
    slopes = [0.0, *((values[i] - values[i - 1]) / (us[i] - us[i - 1]) for i in range(1, 4))]
    bends = [0.0, 0.0, *((slopes[i] - slopes[i - 1]) / ((us[i] - us[i - 2]) / 2) for i in range(2, 4))]
    for i, (u, v) in enumerate(pairwise(us)):

        def goes_on(at: float, i: int = i, u: float = u) -> float:
            return rate(at) * (values[i] + slopes[i] * (at - u) + bends[i] * (at - u) ** 2 / 2)

        x = phi(v) * (x / phi(u) + quad(goes_on, v, u)[0])
    assert float(stop.value.value) == pytest.approx(x * sampling.alpha(sigmas[-1]), rel=1e-4)


def test_the_noise_of_er_sde_fills_up_the_variance() -> None:
    """Of pure noise of level u, phi(v) / phi(u) is kept; v^2 is its variance again with what is added."""
    for sampling in SAMPLINGS:
        s, to = 0.8, 0.5
        u, v = s / sampling.alpha(s), to / sampling.alpha(to)
        step = SAMPLERS["er_sde"].run(
            Predictions(sampling, 0.0), torch.zeros(1, 1, dtype=torch.float64), torch.tensor([s, to]), torch.ones_like
        )
        with pytest.raises(StopIteration) as stop:
            while True:
                next(step)
        kept = v * (math.exp(v**0.3) + 10) / (u * (math.exp(u**0.3) + 10))
        assert float(stop.value.value) == pytest.approx(
            sampling.alpha(to) * math.sqrt(v**2 - (u * kept) ** 2), rel=1e-5
        )
