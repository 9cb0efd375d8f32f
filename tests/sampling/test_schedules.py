"""Schedules against ComfyUI's values, their formulas, and the rules for every number of steps."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from pipegraph.models.sampling.model_sampling import Discrete, Flow, ModelSampling, mu_for_tokens
from pipegraph.models.sampling.schedules import SCHEDULES, part_of, sigmas_for
from pipegraph.nodes.sampling.custom import parse_sigmas

GOLDEN = json.loads((Path(__file__).parent / "golden_sigmas.json").read_text())
MODELS = {"sd15": Discrete(), "flow3": Flow(3.0, multiplier=1000), "flow1": Flow(), "flux": Flow.from_mu(1.15)}


def model_of(key: str) -> ModelSampling:
    head, _, rest = key.partition("_")
    if head == "sd15":
        return Discrete()
    value = rest.split("_")[0]
    return Flow(float(value.removeprefix("shift"))) if head == "flow" else Flow.from_mu(float(value.removeprefix("mu")))


@pytest.mark.parametrize("key", [k for k in GOLDEN if k.startswith(("sd15_", "flow_", "flux"))])
def test_equal_to_the_reference(key: str) -> None:
    parts = key.split("_")
    denoise = float(parts.pop().removeprefix("denoise")) if "denoise" in key else 1.0
    steps = int(parts.pop())
    name = "sgm_uniform" if "sgm" in parts else parts[-1]
    assert sigmas_for(model_of(key), name, steps, denoise).tolist() == pytest.approx(GOLDEN[key], rel=1e-6)


def test_ends_of_the_discrete_table() -> None:
    assert [Discrete().sigma_min, Discrete().sigma_max] == pytest.approx(GOLDEN["sd_sigma_min_max"], rel=1e-6)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_number_of_steps_gives_one_sigma_more_falling_to_0(name: str, model: ModelSampling) -> None:
    for steps in range(1, 51):
        for denoise in (1.0, 0.5, 1e-4) if steps in (1, 4) else (1.0,):
            for drop in (False, True):
                sigmas = sigmas_for(model, name, steps, denoise, drop_penultimate=drop)
                assert len(sigmas) == steps + 1, (steps, denoise, drop)
                assert bool((sigmas.diff() < 0).all()) and sigmas[-1] == 0 and sigmas.dtype == torch.float32


@pytest.mark.parametrize(("steps", "strength"), [(15, 0.05), (4, 0.2), (1, 0.99), (4, 0.25), (100, 0.29), (20, 1)])
def test_denoise_picks_the_start_not_the_number_of_steps(steps: int, strength: float) -> None:
    sigmas = sigmas_for(Flow(), "simple", steps, strength)
    assert len(sigmas) == steps + 1
    # On an unshifted flow the noise level is the part of the way.
    assert float(sigmas[0]) == pytest.approx(steps / int(steps / strength), abs=1.1e-3)


def test_denoise_0_is_no_schedule() -> None:
    assert len(sigmas_for(Flow(), "simple", 20, 0.0)) == 0


def test_more_steps_than_levels_is_an_error_that_names_the_limit() -> None:
    with pytest.raises(ValueError, match="999 noise levels"):
        sigmas_for(Flow(), "simple", 2000)


def test_formulas() -> None:
    n, low, high = 7, Discrete().sigma_min, Discrete().sigma_max
    for name, f in {"karras": lambda s: s ** (1 / 7), "exponential": math.log, "kl_optimal": math.atan}.items():
        image = torch.tensor([f(s) for s in sigmas_for(Discrete(), name, n)[:-1].tolist()], dtype=torch.float64)
        assert torch.allclose(image.diff(), image.diff()[:1], rtol=1e-4)
        assert image[0] == pytest.approx(f(high), rel=1e-5) and image[-1] == pytest.approx(f(low), rel=1e-3)
    # ddim_uniform is diffusers' "leading" spacing with an offset of 1.
    rows = [i * (1000 // n) + 1 for i in reversed(range(n))]
    assert sigmas_for(Discrete(), "ddim_uniform", n)[:-1].tolist() == pytest.approx(Discrete().table[rows].tolist())


def test_linear_quadratic() -> None:
    # What diffusers' Mochi pipeline makes for 8 and 5 steps.
    eight = [1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0.0]
    assert sigmas_for(Flow(), "linear_quadratic", 8).tolist() == pytest.approx(eight)
    five = [1.0, 0.9875, 0.975, 0.85833333, 0.53333333, 0.0]
    assert sigmas_for(Flow(), "linear_quadratic", 5).tolist() == pytest.approx(five)


def test_part_of_a_run() -> None:
    whole = torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0])
    assert part_of(whole, 0, 10000, leave_noise=False).equal(whole)
    assert part_of(whole, 1, 3, leave_noise=True).tolist() == [0.75, 0.5, 0.25]
    assert part_of(whole, 1, 3, leave_noise=False).tolist() == [0.75, 0.5, 0.0]
    assert part_of(whole, 3, 10000, leave_noise=True).tolist() == [0.25, 0.0]
    for start, end in ((4, 10000), (3, 3), (3, 2), (0, 0), (9, 20)):
        assert len(part_of(whole, start, end, leave_noise=False)) == 0


def test_sigmas_by_hand() -> None:
    assert parse_sigmas("1, 0.5  .25,0") == [1.0, 0.5, 0.25, 0.0]
    assert len(parse_sigmas(" ")) == 0
    for wrong in ("1, x", "0.5, 1", "1, 1, 0", "1, nan", "1, -0.1"):
        with pytest.raises(ValueError, match="sigmas"):
            parse_sigmas(wrong)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_timesteps_and_percents(model: ModelSampling) -> None:
    for sigma in model.table[[0, 300, 777, -1]].tolist():
        back = float(model.timestep(torch.tensor([sigma])))
        if not model.flow:
            assert float(model.sigma(torch.tensor(back))) == pytest.approx(sigma, rel=1e-6)
    assert float(model.percent_to_sigma(1.0)) == 0
    assert model.percent_to_sigma(0.0) >= model.sigma_max * (1 - 1e-12)
    assert model.percent_to_sigma(0.2) > model.percent_to_sigma(0.7) > model.sigma_min


def test_parametrisations_invert() -> None:
    z, n = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 4)
    for sigma in (0.1, 0.7):
        s = torch.full((2,), sigma)
        flow = Flow(3.0)
        x = flow.noise_scaling(sigma, n, z)
        assert torch.allclose(flow.denoised(s, n - z, x), z, atol=1e-6)
        eps = Discrete()
        x = eps.noise_scaling(sigma, n, z)
        assert torch.allclose(eps.denoised(s, n, x), z, atol=1e-6)
        v = Discrete("v")
        a, b = 1 / math.sqrt(1 + sigma**2), sigma / math.sqrt(1 + sigma**2)  # alpha, sigma of the unit-variance state
        assert torch.allclose(v.denoised(s, a * n - b * z, x), z, atol=1e-6)
        assert torch.allclose(eps.network_input(s, x), a * z + b * n, atol=1e-6)
    assert eps.noise_scaling(14.6, n, 0 * z, max_denoise=True).std() > eps.noise_scaling(14.6, n, 0 * z).std()


def test_mu_of_flux() -> None:
    # 256 x 256 pixels are 256 tokens, 1024 x 1024 are 4096.
    assert mu_for_tokens(256) == 0.5 and mu_for_tokens(4096) == pytest.approx(1.15)
    assert float(Flow.from_mu(1.15).sigma(torch.tensor(0.5))) == pytest.approx(math.exp(1.15) / (math.exp(1.15) + 1))
