"""Sampling nodes: ComfyUI's names, and what they do with a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

import pytest
import torch

from pipegraph.models.sampling.model_sampling import Discrete, Flow
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.sampling.schedules import SCHEDULES
from pipegraph.nodes.image import latent
from pipegraph.nodes.sampling import custom as sampling_custom
from pipegraph.nodes.sampling import ksampler as sampling
from pipegraph.nodes.sampling.shared import SamplerNames, SchedulerNames
from pipegraph.runtime.context import Available
from pipegraph.runtime.node import NodeSpec, Progress

LATENT = {"samples": torch.zeros(1, 4, 8, 8)}
Says = Callable[..., list[Any]]


@dataclass
class Context:
    """Collects what a node says."""

    warned: list[str] = field(default_factory=list)
    noted: dict[str, Any] = field(default_factory=dict)

    def warn(self, message: str) -> None:
        self.warned.append(message)

    def note(self, key: str, value: Any) -> None:
        self.noted[key] = value


@pytest.fixture
def ctx() -> Context:
    return Context()


def finish(node: Any) -> tuple[list[Progress], Any]:
    events = []
    while True:
        try:
            events.append(next(node))
        except StopIteration as stop:
            return events, stop.value


SIGNATURES = {
    "KSampler": "model seed steps cfg sampler_name scheduler positive negative latent_image denoise -> LATENT",
    "KSamplerAdvanced": "model add_noise noise_seed steps cfg sampler_name scheduler positive negative latent_image "
    "start_at_step end_at_step return_with_leftover_noise -> LATENT",
    "SamplerCustom": "model add_noise noise_seed cfg positive negative sampler sigmas latent_image "
    "-> output denoised_output",
    "SamplerCustomAdvanced": "noise guider sampler sigmas latent_image -> output denoised_output",
    "KSamplerSelect": "sampler_name -> SAMPLER",
    "SamplerEulerAncestral": "eta s_noise -> SAMPLER",
    "BasicScheduler": "model scheduler steps denoise -> SIGMAS",
    "ManualSigmas": "sigmas -> SIGMAS",
    "KarrasScheduler": "steps sigma_max sigma_min rho -> SIGMAS",
    "ExponentialScheduler": "steps sigma_max sigma_min -> SIGMAS",
    "SplitSigmas": "sigmas step -> high_sigmas low_sigmas",
    "SplitSigmasDenoise": "sigmas denoise -> high_sigmas low_sigmas",
    "RandomNoise": "noise_seed -> NOISE",
    "DisableNoise": "-> NOISE",
    "BasicGuider": "model conditioning -> GUIDER",
    "CFGGuider": "model positive negative cfg -> GUIDER",
    "ModelSamplingFlux": "model max_shift base_shift width height -> MODEL",
    "ModelSamplingSD3": "model shift -> MODEL",
    "EmptyLatentImage": "width height batch_size -> LATENT",
    "EmptySD3LatentImage": "width height batch_size -> LATENT",
    "SetLatentNoiseMask": "samples mask -> LATENT",
    "LatentUpscale": "samples upscale_method width height crop -> LATENT",
    "RepeatLatentBatch": "samples amount -> LATENT",
    "LatentFromBatch": "samples batch_index length -> LATENT",
}


def test_names_and_order_are_comfyuis() -> None:
    specs: dict[str, NodeSpec] = {
        value.node_spec.id: value.node_spec
        for module in (sampling, sampling_custom, latent)
        for value in vars(module).values()
        if hasattr(value, "node_spec")
    }
    found = {id: " ".join([*spec.inputs, "->", *spec.outputs]) for id, spec in specs.items()}
    assert found == SIGNATURES
    auto = {id: [p.auto for p in spec.inputs.values() if p.auto] for id, spec in specs.items()}
    assert auto["KSampler"] == ["steps", "cfg", "sampler_name", "scheduler"] == auto["KSamplerAdvanced"]
    assert auto["EmptySD3LatentImage"] == auto["EmptyLatentImage"] == ["width", "height"]
    assert auto["ModelSamplingFlux"] == ["max_shift", "base_shift", "width", "height"]


def test_choices_are_what_there_is() -> None:
    assert get_args(SamplerNames) == tuple(SAMPLERS)
    assert get_args(SchedulerNames) == tuple(SCHEDULES)


@pytest.mark.parametrize("scheduler", SCHEDULES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_k_sampler_with_every_sampler_and_schedule(toy: Any, says: Says, ctx: Any, name: str, scheduler: str) -> None:
    # Near the picture the model asks for, the fixed point of x0 = 0.1 x + 0.9; pure noise is 2.2 away from it.
    events, out = finish(
        sampling.k_sampler(
            ctx,
            model=toy,
            seed=3,
            steps=4,
            cfg=2.0,
            sampler_name=name,  # type: ignore[arg-type]
            scheduler=scheduler,  # type: ignore[arg-type]
            positive=says(0.9),
            negative=Available(says(0.9)),
            latent_image=LATENT,
        )
    )
    assert events == [Progress(i, 4) for i in range(1, 5)]
    assert ctx.noted["sampling"]["steps"] == 4 and ctx.noted["sampling"]["sigma_last"] == 0
    assert ctx.noted["sampling"]["model_calls"] == (7 if name in ("heun", "dpm_2") else 4)
    assert out["samples"].shape == (1, 4, 8, 8) and float((out["samples"] - 2.25).abs().mean()) < 0.6


def test_k_sampler_advanced_shares_a_run_between_nodes(toy: Any, says: Says, ctx: Any) -> None:
    shared = dict(
        model=toy,
        noise_seed=1,
        steps=6,
        cfg=1.0,
        sampler_name="euler",
        scheduler="simple",
        positive=says(1.0),
        negative=Available(says(0.0)),
    )
    _, whole = finish(sampling.k_sampler_advanced(ctx, latent_image=LATENT, **shared))
    _, half = finish(
        sampling.k_sampler_advanced(
            ctx, latent_image=LATENT, end_at_step=3, return_with_leftover_noise="enable", **shared
        )
    )
    _, rest = finish(
        sampling.k_sampler_advanced(ctx, latent_image=half, add_noise="disable", start_at_step=3, **shared)
    )
    assert torch.allclose(rest["samples"], whole["samples"], atol=1e-5)
    calls = len(toy.calls)
    events, same = finish(sampling.k_sampler_advanced(ctx, latent_image=half, start_at_step=6, **shared))
    assert torch.equal(same["samples"], half["samples"]) and events == [] and len(toy.calls) == calls


def test_denoise_0_returns_the_input_and_1e4_runs_all_steps(toy: Any, says: Says, ctx: Any) -> None:
    given = {"samples": torch.randn(1, 4, 8, 8)}

    def run(denoise: float, steps: int) -> Any:
        node = sampling.k_sampler(
            ctx,
            model=toy,
            steps=steps,
            cfg=1.0,
            positive=says(1.0),
            negative=Available(says(0.0)),
            latent_image=given,
            denoise=denoise,
        )
        return finish(node)[1]["samples"]

    assert torch.equal(run(0.0, 4), given["samples"]) and toy.calls == []
    for steps in (1, 4):
        toy.calls.clear()
        changed = run(1e-4, steps)
        assert len(toy.calls) == steps and bool(torch.isfinite(changed).all())


def test_custom_sampling_equals_k_sampler(toy: Any, says: Says, ctx: Any) -> None:
    positive, negative = says(1.0), Available(says(-0.5))
    _, wanted = finish(
        sampling.k_sampler(
            ctx,
            model=toy,
            seed=5,
            steps=5,
            cfg=2.0,
            sampler_name="dpmpp_2m_sde",
            scheduler="beta",
            positive=positive,
            negative=negative,
            latent_image=LATENT,
        )
    )
    sampler = sampling_custom.k_sampler_select("dpmpp_2m_sde")
    sigmas = sampling_custom.basic_scheduler(toy, "beta", 5)
    guider = sampling_custom.cfg_guider(ctx, toy, positive, negative, 2.0)
    noise = sampling_custom.random_noise(5)
    _, advanced = finish(sampling_custom.sampler_custom_advanced(ctx, noise, guider, sampler, sigmas, LATENT))
    _, custom = finish(
        sampling_custom.sampler_custom(
            ctx,
            model=toy,
            noise_seed=5,
            cfg=2.0,
            positive=positive,
            negative=negative,
            sampler=sampler,
            sigmas=sigmas,
            latent_image=LATENT,
        )
    )
    assert torch.equal(advanced.output["samples"], wanted["samples"])
    assert torch.equal(custom.output["samples"], wanted["samples"])
    assert torch.equal(custom.denoised_output["samples"], advanced.denoised_output["samples"])
    assert ctx.warned == []


@dataclass
class Unasked:
    """A lazy input that must not be computed."""

    texts: tuple[str, ...]

    def get(self) -> Any:
        raise AssertionError("computed for nothing")

    def lost_texts(self) -> tuple[str, ...]:
        return self.texts


@pytest.mark.parametrize(("text", "warned"), [("", []), ("ugly", ["cfg is 1: the negative prompt is not used"])])
def test_at_cfg_1_the_negative_is_not_computed_and_a_lost_prompt_is_said(
    toy: Any, says: Says, ctx: Any, text: str, warned: list[str]
) -> None:
    node = sampling.k_sampler(
        ctx, model=toy, steps=1, cfg=1.0, positive=says(1.0), negative=Unasked((text,)), latent_image=LATENT
    )
    assert finish(node)[1]["samples"].shape == (1, 4, 8, 8)
    assert ctx.warned == warned


def test_parts_of_schedules(toy: Any) -> None:
    whole = sampling_custom.basic_scheduler(toy, "simple", 4)
    parts = sampling_custom.split_sigmas(whole, 1)
    assert parts.high_sigmas.equal(whole[:2]) and parts.low_sigmas.equal(whole[1:])
    parts = sampling_custom.split_sigmas_denoise(whole, 0.5)
    assert parts.high_sigmas.equal(whole[:3]) and parts.low_sigmas.equal(whole[2:])
    assert sampling_custom.split_sigmas_denoise(whole, 1.0).low_sigmas.equal(whole)
    assert len(sampling_custom.basic_scheduler(toy, "simple", 4, 0.0)) == 0
    assert len(sampling_custom.karras_scheduler(3)) == len(sampling_custom.exponential_scheduler(3)) == 4
    assert sampling_custom.manual_sigmas("1, 0.5").tolist() == [1.0, 0.5]


def test_noise_can_be_left_out(toy: Any, says: Says, ctx: Any) -> None:
    noise, guider = sampling_custom.disable_noise(), sampling_custom.basic_guider(toy, says(1.0))
    sigmas = torch.tensor([0.5, 0.0])
    _, out = finish(sampling_custom.sampler_custom_advanced(ctx, noise, guider, SAMPLERS["euler"], sigmas, LATENT))
    assert torch.allclose(out.output["samples"], torch.full((1, 4, 8, 8), 2.25))


def test_shifts_of_a_model(toy: Any) -> None:
    flux = sampling.model_sampling_flux(toy, 1.15, 0.5, 1024, 1024).sampling
    assert isinstance(flux, Flow) and flux.table.equal(Flow.from_mu(1.15).table)
    small = sampling.model_sampling_flux(toy, 1.15, 0.5, 256, 256).sampling
    assert small.table.equal(Flow.from_mu(0.5).table)
    thousand = toy.with_sampling(Flow(1.0, multiplier=1000))
    assert sampling.model_sampling_sd3(thousand, 5.0).sampling == Flow(5.0, multiplier=1000)
    with pytest.raises(ValueError, match="flow models"):
        sampling.model_sampling_sd3(toy.with_sampling(Discrete()), 3.0)


@pytest.mark.parametrize(
    ("painted", "warned"),
    [
        (slice(0, 0), ["nothing to repaint: the mask is empty"]),
        (slice(0, 2), ["nothing to repaint: the mask is too small for the latent"]),
        (slice(0, 8), []),
    ],
)
def test_a_mask_that_paints_nothing_is_said(toy: Any, says: Says, ctx: Any, painted: slice, warned: list[str]) -> None:
    mask = torch.zeros(1, 64, 64)
    mask[:, painted] = 1
    masked = latent.set_latent_noise_mask({"samples": torch.ones(1, 4, 8, 8)}, mask)
    node = sampling.k_sampler(
        ctx, model=toy, steps=1, cfg=1.0, positive=says(1.0), negative=Unasked(()), latent_image=masked
    )
    finish(node)
    assert ctx.warned == warned


def masked() -> dict[str, Any]:
    """A latent of two pictures whose left half is to stay."""
    mask = torch.zeros(1, 64, 64)
    mask[..., 32:] = 1
    samples = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(2))
    return latent.set_latent_noise_mask({"samples": samples}, mask)


def advanced(ctx: Any, toy: Any, says: Says, start: int, end: int, given: Any, sampler: Any, last: bool) -> Any:
    return finish(
        sampling.k_sampler_advanced(
            ctx,
            model=toy,
            add_noise="disable" if start else "enable",
            noise_seed=3,
            steps=4,
            cfg=1.0,
            sampler_name=sampler,
            scheduler="simple",
            positive=says(1.0),
            negative=Unasked(()),
            latent_image=given,
            start_at_step=start,
            end_at_step=end,
            return_with_leftover_noise="disable" if last else "enable",
        )
    )[1]


def custom(ctx: Any, toy: Any, says: Says, start: int, end: int, given: Any, sampler: str, last: bool) -> Any:
    sigmas = SCHEDULES["simple"](toy.sampling, 4)[start : end + 1]
    return finish(
        sampling_custom.sampler_custom(
            ctx,
            model=toy,
            add_noise=not start,
            noise_seed=3,
            cfg=1.0,
            positive=says(1.0),
            negative=Unasked(()),
            sampler=SAMPLERS[sampler],
            sigmas=sigmas,
            latent_image=given,
        )
    )[1].output


def custom_advanced(ctx: Any, toy: Any, says: Says, start: int, end: int, given: Any, sampler: str, last: bool) -> Any:
    sigmas = SCHEDULES["simple"](toy.sampling, 4)[start : end + 1]
    noise = sampling_custom.disable_noise() if start else sampling_custom.random_noise(3)
    guider = sampling_custom.basic_guider(toy, says(1.0))
    node = sampling_custom.sampler_custom_advanced(ctx, noise, guider, SAMPLERS[sampler], sigmas, given)
    return finish(node)[1].output


@pytest.mark.parametrize("run", [advanced, custom, custom_advanced])
@pytest.mark.parametrize("levels", [Flow(3.0), Discrete()])
@pytest.mark.parametrize("sampler", ["euler", "heun", "dpm_2"])
def test_samplers_that_share_the_steps_keep_what_one_keeps(
    toy: Any, says: Says, ctx: Any, run: Any, levels: Any, sampler: str
) -> None:
    """Two or three nodes with a mask give what one gives, and what is kept is the original."""
    toy, given = toy.with_sampling(levels), masked()
    whole = run(ctx, toy, says, 0, 4, given, sampler, True)
    assert torch.allclose(whole["samples"][..., :4], given["samples"][..., :4], atol=1e-4)
    for cuts in ((0, 2, 4), (0, 1, 3, 4)):
        made = given
        for start, end in pairwise(cuts):
            made = run(ctx, toy, says, start, end, made, sampler, end == 4)
        assert torch.allclose(made["samples"], whole["samples"], atol=1e-4, rtol=0)
        assert made.keys() == given.keys()
    assert ctx.warned == []


def test_a_masked_empty_latent_is_kept_as_it_is(toy: Any, says: Says, ctx: Any) -> None:
    given = {**masked(), "samples": torch.zeros(1, 4, 8, 8)}
    whole = advanced(ctx, toy, says, 0, 4, given, "euler", True)
    early = advanced(ctx, toy, says, 0, 2, given, "euler", False)
    done = advanced(ctx, toy, says, 2, 4, early, "euler", True)
    assert torch.allclose(done["samples"], whole["samples"], atol=1e-5)


def test_a_mask_that_comes_with_the_second_sampler_keeps_the_first_ones_original(
    toy: Any, says: Says, ctx: Any
) -> None:
    given = masked()
    early = advanced(ctx, toy, says, 0, 2, {"samples": given["samples"]}, "euler", False)
    late = latent.set_latent_noise_mask(early, given["noise_mask"])
    done = advanced(ctx, toy, says, 2, 4, late, "euler", True)
    assert torch.allclose(done["samples"][..., :4], given["samples"][..., :4], atol=1e-4) and ctx.warned == []


def test_an_item_of_a_noisy_batch_keeps_its_original(toy: Any, says: Says, ctx: Any) -> None:
    early = advanced(ctx, toy, says, 0, 2, masked(), "euler", False)
    both = advanced(ctx, toy, says, 2, 4, early, "euler", True)["samples"]
    one = advanced(ctx, toy, says, 2, 4, latent.latent_from_batch(early, 1, 1), "euler", True)["samples"]
    more = advanced(ctx, toy, says, 2, 4, latent.repeat_latent_batch(early, 2), "euler", True)["samples"]
    assert torch.equal(one[0], both[1]) and torch.equal(more, both.repeat(2, 1, 1, 1)) and ctx.warned == []


def test_noise_that_a_mask_would_keep_is_said(toy: Any, says: Says, ctx: Any) -> None:
    """A node in between has changed the samples: nobody knows their original."""
    early = advanced(ctx, toy, says, 0, 2, masked(), "euler", False)
    changed = {**early, "samples": early["samples"].flip(-1)}
    done = advanced(ctx, toy, says, 2, 4, changed, "euler", True)
    assert len(ctx.warned) == 1 and "noise is kept" in ctx.warned[0]
    assert torch.allclose(done["samples"][..., :4], changed["samples"][..., :4], atol=1e-4)
