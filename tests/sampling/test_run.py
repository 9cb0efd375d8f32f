"""A sampling run as a whole: guidance, conditioning that covers parts, noise masks, and what does not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.family import LatentFormat
from pipegraph.models.sampling.guiders import Guider, fit_mask
from pipegraph.models.sampling.model_sampling import Discrete, Flow
from pipegraph.models.sampling.noise import Noise, initial_noise
from pipegraph.models.sampling.run import Sampled, SamplingReport, fit_cells, sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.sampling.schedules import sigmas_for
from pipegraph.models.sampling.steps import SamplerStep

Says = Callable[..., list[Any]]
EMPTY = {"samples": torch.zeros(2, 4, 8, 8)}


def finish(
    guider: Guider, latent: Any = EMPTY, sigmas: Tensor | None = None, sampler: str = "euler", silent: bool = False
) -> Sampled:
    sigmas = sigmas_for(Flow(3.0), "simple", 4) if sigmas is None else sigmas
    run = sample(guider, Noise(1, silent), SAMPLERS[sampler], sigmas, latent)
    while True:
        try:
            assert isinstance(next(run), SamplerStep)
            assert not torch.is_inference_mode_enabled()
        except StopIteration as stop:
            assert isinstance(stop.value, Sampled)
            return stop.value


def test_a_run_is_eulers_by_hand(toy: Any, says: Says) -> None:
    latent = {"samples": torch.randn(2, 4, 8, 8)}
    sigmas = torch.tensor([0.8, 0.4, 0.0])
    done = finish(Guider(toy, says(1.0)), latent, sigmas)
    x = 0.8 * initial_noise(1, (2, 4, 8, 8)) + 0.2 * (latent["samples"] - 0.25) * 0.5
    x = (0.1 * x + 1) + (x - (0.1 * x + 1)) * 0.5
    x = 0.1 * x + 1
    assert torch.allclose(done.samples, x / 0.5 + 0.25, atol=1e-5)
    assert torch.allclose(done.denoised, done.samples, atol=1e-6)
    assert not done.samples.is_inference() and not done.denoised.is_inference()
    assert done.report.as_dict() == dict(
        sampler="euler", steps=2, model_calls=2, sigma_first=pytest.approx(0.8), sigma_last=0.0, rows_per_step=2
    )


def test_a_run_that_stops_early_and_one_that_goes_on(toy: Any, says: Says) -> None:
    sigmas = sigmas_for(Flow(3.0), "simple", 6)
    whole = finish(Guider(toy, says(1.0)), sigmas=sigmas)
    first = finish(Guider(toy, says(1.0)), sigmas=sigmas[:4])
    second = finish(Guider(toy, says(1.0)), {"samples": first.samples}, sigmas[3:], silent=True)
    assert torch.allclose(second.samples, whole.samples, atol=1e-5)
    assert not torch.allclose(first.denoised, first.samples)


@pytest.mark.parametrize("cfg", [0.0, 1.0000001, 3.0])
def test_guidance_is_linear_and_one_call(toy: Any, says: Says, cfg: float) -> None:
    guided = finish(Guider(toy, says(1.0), says(-0.5), cfg))
    one = finish(Guider(toy, says(-0.5 + cfg * 1.5)))
    assert torch.allclose(guided.samples, one.samples, atol=1e-5)
    assert guided.report.model_calls == 4 and guided.report.rows_per_step == 4
    assert [rows for _, rows in toy.calls] == [4] * 4 + [2] * 4


def test_at_cfg_1_the_negative_costs_nothing(toy: Any, says: Says) -> None:
    guider = Guider(toy, says(1.0), says(9.0), 1.0)
    assert torch.equal(finish(guider).samples, finish(Guider(toy, says(1.0))).samples)
    assert {rows for _, rows in toy.calls} == {2}


def test_a_distilled_model_with_cfg_is_doubted_aloud(toy: Any, says: Says) -> None:
    toy.recommended = {"cfg": 1.0}
    assert "distilled for cfg 1" in Guider(toy, says(1.0), says(0.0), 3.0).warnings()[0]
    assert Guider(toy, says(1.0), says(0.0), 1.0).warnings() == []


def one_prediction(guider: Guider, x: Tensor, sigma: float = 0.5) -> Tensor:
    return guider.denoiser(x)(x, sigma)


def test_entries_are_averaged_by_strength(toy: Any, says: Says) -> None:
    x = torch.zeros(1, 4, 8, 8)
    both = [*says(1.0, strength=3.0), *says(5.0, strength=1.0)]
    assert torch.allclose(one_prediction(Guider(toy, both), x), torch.full_like(x, 2.0))
    assert torch.allclose(one_prediction(Guider(toy, says(5.0, strength=0.3)), x), torch.full_like(x, 5.0))


def test_an_area_counts_only_inside_and_fades_at_inner_edges(toy: Any, says: Says) -> None:
    x = torch.zeros(1, 4, 24, 32)
    entries = [*says(1.0), *says(3.0, area=(24, 16, 0, 16))]
    row = one_prediction(Guider(toy, entries), x)[0, 0, 12]
    assert torch.allclose(row[:16], torch.ones(16))
    assert torch.allclose(row[24:], torch.full((8,), 2.0))
    weight = torch.arange(1, 9) / 8
    assert torch.allclose(row[16:24], (1 + 3 * weight) / (1 + weight))
    # Where nothing is asked there is nothing.
    alone = one_prediction(Guider(toy, says(3.0, area=(24, 16, 0, 16))), x)[0, 0, 12]
    assert torch.allclose(alone, torch.tensor([0.0] * 16 + [3.0] * 16))


def test_a_mask_weighs_by_place(toy: Any, says: Says) -> None:
    x, mask = torch.zeros(1, 4, 8, 8), torch.zeros(1, 64, 64)
    mask[..., 32:] = 1
    prediction = one_prediction(Guider(toy, [*says(1.0), *says(3.0, mask=mask)]), x)
    assert torch.allclose(prediction[..., :4], torch.tensor(1.0)) and torch.allclose(
        prediction[..., 4:], torch.tensor(2.0)
    )


def test_entries_act_in_their_range_of_noise(toy: Any, says: Says) -> None:
    guider = Guider(toy, [*says(1.0, start=0.6), *says(3.0, end=0.6)])
    x = torch.zeros(1, 4, 8, 8)
    assert float(one_prediction(guider, x, 0.9).mean()) == 3.0
    assert float(one_prediction(guider, x, 0.2).mean()) == 1.0
    assert float(one_prediction(guider, x, 0.6).mean()) == 2.0
    assert [rows for _, rows in toy.calls] == [1, 1, 2]


@pytest.mark.parametrize("sampler", ["euler", "ddim", "dpmpp_2m", "euler_ancestral", "lcm", "heun"])
def test_a_noise_mask_keeps_the_rest(toy: Any, says: Says, sampler: str) -> None:
    original, mask = torch.randn(2, 4, 8, 8), torch.zeros(1, 64, 64)
    mask[..., 32:] = 1
    done = finish(Guider(toy, says(1.0)), {"samples": original, "noise_mask": mask}, sampler=sampler)
    assert torch.allclose(done.samples[..., :4], original[..., :4], atol=1e-5)
    assert (done.samples[..., 4:] - original[..., 4:]).abs().mean() > 0.5
    # What the model sees there is the original with the noise of each level.
    everything = finish(Guider(toy, says(1.0)), {"samples": original, "noise_mask": torch.ones(8, 8)}, sampler=sampler)
    unmasked = finish(Guider(toy, says(1.0)), {"samples": original}, sampler=sampler)
    assert torch.allclose(everything.samples, unmasked.samples, atol=1e-6)


def test_masks_are_resized_and_repeated() -> None:
    x = torch.zeros(4, 16, 8, 8)
    assert fit_mask(torch.ones(64, 64), x).shape == (1, 1, 8, 8)
    stack = torch.stack([torch.zeros(8, 8), torch.ones(8, 8)])
    assert fit_mask(stack, x).flatten(1).mean(1).tolist() == [0, 1, 0, 1]
    assert fit_mask(stack, torch.zeros(2, 16, 3, 8, 8)).shape == (2, 1, 1, 8, 8)


def test_an_empty_latent_gets_cells_of_the_models_size() -> None:
    model = LatentFormat(channels=4, downscale=16, patch=2)
    empty = torch.zeros(1, 4, 8, 12)
    assert fit_cells({"samples": empty, "downscale_ratio_spatial": 8}, model).shape == (1, 4, 4, 6)
    assert fit_cells({"samples": empty}, model) is empty
    filled = empty + 1
    assert fit_cells({"samples": filled, "downscale_ratio_spatial": 8}, model) is filled
    for shape in ((1, 4, 8, 10), (1, 4, 10, 8)):
        with pytest.raises(ValueError, match="multiples of 32 pixels"):
            fit_cells({"samples": torch.zeros(shape), "downscale_ratio_spatial": 8}, model)


@pytest.mark.parametrize("count", [0, 1])
def test_no_steps_return_the_input_and_call_nothing(toy: Any, says: Says, count: int) -> None:
    latent = {"samples": torch.randn(2, 4, 8, 8)}
    done = finish(Guider(toy, says(1.0)), latent, torch.ones(count))
    assert torch.equal(done.samples, latent["samples"]) and torch.equal(done.denoised, latent["samples"])
    assert toy.calls == [] and done.report == SamplingReport("euler", 0, 0, None, None, 0)


def test_sigmas_that_rise_repeat_or_are_no_numbers_are_refused(toy: Any, says: Says) -> None:
    for wrong in ([0.0, 1.0], [1.0, 1.0, 0.0], [1.0, float("nan"), 0.0], [1.0, -0.5], [1.0, 0.5, -0.5]):
        with pytest.raises(ValueError, match="fall"):
            finish(Guider(toy, says(1.0)), sigmas=torch.tensor(wrong))
    with pytest.raises(ValueError, match="empty"):
        finish(Guider(toy, []))


@pytest.mark.parametrize(
    ("changes", "blockwise", "says_why"),
    [
        ({"begins_with": "a picture"}, False, "use the sampler of SamplerARVideo"),
        ({"step_cache": "easy"}, True, "leave out EasyCache"),
        ({"patches": ("tiles",)}, True, "leave out SlidingTileAttention"),
    ],
)
def test_what_the_sampler_of_rolled_out_videos_cannot_do(
    toy: Any, says: Says, changes: dict[str, Any], blockwise: bool, says_why: str
) -> None:
    def run(model: Any) -> None:
        sampler = replace(SAMPLERS["euler"], blockwise=blockwise)
        next(sample(Guider(model, says(1.0)), Noise(1), sampler, torch.tensor([1.0, 0.5, 0.0]), EMPTY))

    with pytest.raises(ValueError, match=says_why):
        run(replace(toy, **changes))
    run(toy)
    assert toy.calls


def test_an_empty_latent_takes_the_models_channels_and_a_filled_one_must_have_them(toy: Any, says: Says) -> None:
    sixteen = finish(Guider(toy, says(1.0)), {"samples": torch.zeros(1, 16, 8, 8)})
    assert torch.equal(sixteen.samples, finish(Guider(toy, says(1.0)), {"samples": torch.zeros(1, 4, 8, 8)}).samples)
    with pytest.raises(ValueError, match="16 channels"):
        finish(Guider(toy, says(1.0)), {"samples": torch.ones(1, 16, 8, 8)})


def test_an_empty_latent_is_not_shifted(toy: Any, says: Says) -> None:
    sigmas = torch.tensor([0.5, 0.0])
    done = finish(Guider(toy, says(0.0)), {"samples": torch.zeros(1, 4, 8, 8)}, sigmas)
    assert torch.allclose(done.samples, 0.1 * 0.5 * initial_noise(1, (1, 4, 8, 8)) / 0.5 + 0.25, atol=1e-6)


def test_pure_noise_of_an_eps_model_has_the_variance_of_training(toy: Any, says: Says) -> None:
    model = toy.with_sampling(Discrete())
    seen: list[Tensor] = []

    def predict(x: Tensor, sigma: Tensor, prepared: Any, cached: None) -> list[Tensor]:
        seen.append(x)
        return [torch.zeros_like(x)]

    model.predict = predict
    finish(Guider(model, says(0.0)), sigmas=sigmas_for(Discrete(), "karras", 2))
    top = Discrete().sigma_max
    assert torch.allclose(seen[0], initial_noise(1, (2, 4, 8, 8)) * (1 + top**2) ** 0.5, rtol=1e-5)


@pytest.mark.parametrize("sampler", ["euler", "dpmpp_2m_sde", "er_sde", "ddim"])
def test_items_of_a_batch_can_be_made_alone(toy: Any, says: Says, sampler: str) -> None:
    mask = torch.ones(64, 64)
    mask[:32] = 0
    batch = {"samples": torch.randn(3, 4, 8, 8), "noise_mask": mask}
    whole = finish(Guider(toy, says(1.0)), batch, sampler=sampler).samples
    for i in range(3):
        alone = {**batch, "samples": batch["samples"][i : i + 1], "batch_index": [i]}
        assert torch.equal(finish(Guider(toy, says(1.0)), alone, sampler=sampler).samples[0], whole[i])


def test_what_goes_in_is_not_changed(toy: Any, says: Says) -> None:
    latent = {"samples": torch.randn(1, 4, 8, 8), "noise_mask": torch.ones(8, 8)}
    sigmas = sigmas_for(Flow(3.0), "simple", 3)
    kept = latent["samples"].clone(), sigmas.clone()
    finish(Guider(toy, says(1.0), says(0.0), 2.0), latent, sigmas, sampler="uni_pc")
    assert torch.equal(latent["samples"], kept[0]) and torch.equal(sigmas, kept[1])


def test_a_run_that_is_closed_asks_no_more(toy: Any, says: Says) -> None:
    run = sample(Guider(toy, says(1.0)), Noise(), SAMPLERS["euler"], sigmas_for(Flow(3.0), "simple", 9), EMPTY)
    next(run)
    run.close()
    assert len(toy.calls) == 1 and not torch.is_inference_mode_enabled()
