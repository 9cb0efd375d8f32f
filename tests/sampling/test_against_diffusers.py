"""Samplers and schedules against diffusers' schedulers where both have the formula, on a denoiser that is not linear.

diffusers' variance-preserving schedulers hold x / sqrt(1 + sigma^2); the predicted noise is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.sampling import samplers_sde
from pipegraph.models.sampling.model_sampling import Discrete, Flow, ModelSampling
from pipegraph.models.sampling.noise import ItemNoise
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.sampling.samplers_ode import UNI_PC_LAST_SIGMA
from pipegraph.models.sampling.schedules import sigmas_for
from pipegraph.models.sampling.steps import Steps

# diffusers calls numpy in a way that numpy 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
BETAS = dict(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", num_train_timesteps=1000)
N = 7


class Bent:
    """A smooth denoiser with no structure that a solver could be exact for."""

    def __init__(self, sampling: ModelSampling) -> None:
        self.sampling = sampling

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        return torch.tanh(x / math.sqrt(1 + sigma**2) + math.cos(3 * sigma)) + 0.1 * torch.sin(5 * x / (1 + sigma))


def start(sigma: float) -> Tensor:
    return sigma * torch.randn(1, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def ours(name: str, denoise: Bent, x: Tensor, sigmas: Tensor) -> Tensor:
    return finish(SAMPLERS[name].run(denoise, x, sigmas, noises()))


def finish(steps: Steps) -> Tensor:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            assert isinstance(stop.value, Tensor)
            return stop.value


def scheduled(scheduler: Any, sigmas: Tensor, timesteps: Tensor | None = None) -> Any:
    """The scheduler with our sigmas put into it."""
    scheduler.set_timesteps(len(sigmas) - 1)
    scheduler.sigmas = sigmas.double()
    if timesteps is not None:
        scheduler.timesteps, scheduler.num_inference_steps = timesteps, len(sigmas) - 1
    return scheduler


def noises() -> Callable[[Tensor], Tensor]:
    return ItemNoise(5, [0])


def test_flow_match_euler_with_its_shift() -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(sigmas=torch.linspace(1, 1 / N, N).tolist())
    sigmas = torch.tensor([*Flow(3.0).sigma(torch.linspace(1, 1 / N, N)).tolist(), 0.0])
    assert scheduler.sigmas.tolist() == pytest.approx(sigmas.tolist(), rel=1e-6)
    model = Bent(Flow(3.0))
    x = theirs = start(1.0)
    for t, s in zip(scheduler.timesteps, scheduler.sigmas.tolist(), strict=False):
        theirs = scheduler.step((theirs - model(theirs, s)) / s, t, theirs).prev_sample
    assert torch.allclose(ours("euler", model, x, scheduler.sigmas), theirs, atol=1e-5)


@pytest.mark.parametrize("name", ["euler", "heun"])
def test_euler_and_heun(name: str) -> None:
    from diffusers import EulerDiscreteScheduler, HeunDiscreteScheduler

    sigmas = sigmas_for(Discrete(), "karras", N)
    scheduler = {"euler": EulerDiscreteScheduler, "heun": HeunDiscreteScheduler}[name](**BETAS, use_karras_sigmas=True)
    scheduler.set_timesteps(N)
    assert torch.unique_consecutive(scheduler.sigmas).tolist() == pytest.approx(sigmas.tolist(), rel=1e-3)
    sigmas = torch.unique_consecutive(scheduler.sigmas)
    model = Bent(Discrete())
    x = theirs = start(14.6)
    for t in scheduler.timesteps:
        scheduler.scale_model_input(theirs, t)
        s = float(scheduler.sigmas[scheduler.step_index])
        theirs = scheduler.step((theirs - model(theirs, s)) / s, t, theirs).prev_sample
    assert torch.allclose(ours(name, model, x, sigmas), theirs.double(), atol=2e-4)


def vp_run(scheduler: Any, model: Bent, x: Tensor, sigmas: Tensor, noise: Callable[[Tensor], Tensor] | None) -> Tensor:
    """A variance-preserving scheduler's run, in our units."""
    theirs = x / math.sqrt(1 + float(sigmas[0]) ** 2)
    for i, t in enumerate(scheduler.timesteps):
        s = float(sigmas[i])
        full = theirs * math.sqrt(1 + s**2)
        extra = {"variance_noise": noise(x)} if noise is not None and sigmas[i + 1] > 0 else {}
        theirs = scheduler.step((full - model(full, s)) / s, t, theirs, **extra).prev_sample
    return theirs * math.sqrt(1 + float(sigmas[-1]) ** 2)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dpmpp_2m", dict(algorithm_type="dpmsolver++", solver_order=2)),
        ("dpmpp_2m_sde", dict(algorithm_type="sde-dpmsolver++", solver_order=2)),
        # With eta 0. diffusers' SDE of order 3 has -0.5 in its last coefficient where the integral gives +0.5.
        ("dpmpp_3m_sde", dict(algorithm_type="dpmsolver++", solver_order=3, solver_type="heun")),
    ],
)
def test_dpm_solver_multistep(name: str, settings: dict[str, Any]) -> None:
    from diffusers import DPMSolverMultistepScheduler

    # So many steps that diffusers does not lower the order at the end, which ours do only for a last sigma of 0.
    sigmas = sigmas_for(Discrete(), "karras", 16)[:-1]
    scheduler = DPMSolverMultistepScheduler(**BETAS, **settings, lower_order_final=False, final_sigmas_type="sigma_min")
    scheduled(scheduler, sigmas, torch.arange(15, 0, -1))
    model, x = Bent(Discrete()), start(14.6)
    noise = noises() if "sde" in settings["algorithm_type"] else None
    run = partial(samplers_sde.dpmpp_3m_sde, eta=0.0) if name == "dpmpp_3m_sde" else SAMPLERS[name].run
    assert torch.allclose(
        finish(run(model, x, sigmas, noises())), vp_run(scheduler, model, x, sigmas, noise), atol=2e-4
    )


@pytest.mark.parametrize(("steps", "order"), [(3, 2), (N, 3)])
@pytest.mark.parametrize(("name", "solver"), [("uni_pc", "bh1"), ("uni_pc_bh2", "bh2")])
def test_uni_pc(name: str, solver: str, steps: int, order: int) -> None:
    from diffusers import UniPCMultistepScheduler

    sigmas = sigmas_for(Discrete(), "karras", steps)
    sigmas[-1] = UNI_PC_LAST_SIGMA
    scheduler = UniPCMultistepScheduler(**BETAS, solver_order=order, solver_type=solver, final_sigmas_type="sigma_min")
    scheduled(scheduler, sigmas, torch.arange(steps, 0, -1))
    model, x = Bent(Discrete()), start(14.6)
    assert torch.allclose(ours(name, model, x, sigmas), vp_run(scheduler, model, x, sigmas, None), atol=2e-4)


def test_ddim() -> None:
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(**BETAS, clip_sample=False, set_alpha_to_one=True, steps_offset=1)
    scheduler.set_timesteps(N)
    sigmas = sigmas_for(Discrete(), "ddim_uniform", N)
    assert Discrete().table[scheduler.timesteps].tolist() == pytest.approx(sigmas[:-1].tolist(), rel=1e-6)
    # diffusers' last step goes to timestep 1 - 1000 // N < 0, which set_alpha_to_one makes sigma 0.
    model, x = Bent(Discrete()), start(5.0)
    assert torch.allclose(ours("ddim", model, x, sigmas), vp_run(scheduler, model, x, sigmas, None), atol=2e-4)


def test_euler_ancestral(monkeypatch: pytest.MonkeyPatch) -> None:
    import diffusers.schedulers.scheduling_euler_ancestral_discrete as module

    scheduler = module.EulerAncestralDiscreteScheduler(**BETAS)
    sigmas = scheduled(scheduler, sigmas_for(Discrete(), "karras", N)).sigmas
    noise = noises()
    monkeypatch.setattr(module, "randn_tensor", lambda shape, **_: noise(torch.empty(shape)))
    model = Bent(Discrete())
    x = theirs = start(14.6)
    for i, t in enumerate(scheduler.timesteps):
        scheduler.scale_model_input(theirs, t)
        s = float(sigmas[i])
        theirs = scheduler.step((theirs - model(theirs, s)) / s, t, theirs).prev_sample
    assert torch.allclose(ours("euler_ancestral", model, x, sigmas), theirs.double(), atol=2e-4)


def test_lcm_with_the_boundary_of_a_flow_model() -> None:
    from diffusers import FlowMatchLCMScheduler

    scheduler = FlowMatchLCMScheduler(shift=3.0)
    scheduler.set_timesteps(sigmas=torch.linspace(1, 0.25, 4).tolist())
    model, noise = Bent(Flow(3.0)), noises()
    x = theirs = start(1.0)
    sigmas = scheduler.sigmas.tolist()
    for t, s, to in zip(scheduler.timesteps, sigmas, sigmas[1:], strict=False):
        # diffusers draws its noise itself: give it ours by taking its prediction where it ends.
        denoised = theirs - s * (theirs - model(theirs, s)) / s
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(theirs.shape, generator=generator, dtype=theirs.dtype)
        stepped = scheduler.step((theirs - model(theirs, s)) / s, t, theirs, generator=torch.Generator().manual_seed(0))
        assert torch.allclose(stepped.prev_sample.double(), to * drawn + (1 - to) * denoised, atol=1e-5)
        theirs = to * noise(denoised) + (1 - to) * denoised if to else denoised
    assert torch.allclose(ours("lcm", model, x, scheduler.sigmas), theirs, atol=1e-5)


def test_beta_schedule() -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    # diffusers takes quantiles with both ends, ComfyUI without the last: ours are all but the last of one more.
    theirs = FlowMatchEulerDiscreteScheduler()._convert_to_beta(torch.tensor([1.0, 0.001]), 9)
    assert sigmas_for(Flow(), "beta", 8)[:-1].tolist() == pytest.approx(list(theirs[:-1]), abs=2e-3)
