"""How guidance combines its predictions: by the formulas, item by item, and in a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.sampling.differential import Differential
from pipegraph.models.sampling.guidance import SamplingRange
from pipegraph.models.sampling.guidance_scales import NormAfter, NormBefore, Operated, Rescaled, Rescheduled
from pipegraph.models.sampling.guiders import Guider, Third
from pipegraph.models.sampling.model_sampling import Discrete, Flow
from pipegraph.models.sampling.noise import Noise, initial_noise
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.nodes.sampling.scales import (
    cfg_norm,
    cfg_override,
    latent_apply_operation,
    latent_apply_operation_cfg,
    latent_operation_tonemap_reinhard,
    rescale_cfg,
)

Says = Callable[..., list[Any]]
X, POSITIVE, NEGATIVE = torch.randn(3, 2, 4, 5, 6, generator=torch.Generator().manual_seed(5))
CFG = 4.0
GUIDED = NEGATIVE + CFG * (POSITIVE - NEGATIVE)
BOTH: Any = {"positive": POSITIVE, "negative": NEGATIVE}


def run(guider: Guider, sigmas: list[float], latent: dict[str, Any] | None = None) -> Tensor:
    latent = latent or {"samples": torch.zeros(1, 4, 2, 2)}
    return finish(sample(guider, Noise(1), SAMPLERS["euler"], torch.tensor(sigmas), latent)).samples


def test_a_guided_picture_is_never_longer_than_the_positive_one() -> None:
    out = NormAfter(1.0).after(X, BOTH, GUIDED, CFG)
    for at in ((0, 1, 2), (1, 4, 5)):
        item, row, column = at
        vector, wanted = GUIDED[item, :, row, column], POSITIVE[item, :, row, column].norm()
        shrunk = vector * min(1.0, float(wanted / vector.norm()))
        assert torch.allclose(out[item, :, row, column], shrunk, atol=1e-6)
    short = NormAfter(1.0).after(X, BOTH, POSITIVE / 2, CFG)
    assert torch.allclose(short, POSITIVE / 2), "what is shorter stays"
    assert torch.allclose(NormAfter(0.5).after(X, BOTH, GUIDED, CFG), out / 2)
    assert "CFGNorm changes nothing" in NormAfter(1.0).idle(guided=False)
    assert not NormAfter(2.0).idle(guided=False) and not NormAfter(1.0).idle(guided=True)


def test_the_guided_noise_gets_the_length_of_the_positive_one() -> None:
    out = NormBefore(1.0).combined(X, 0.5, BOTH, GUIDED, CFG)
    assert torch.allclose((X - out).norm(dim=1), (X - POSITIVE).norm(dim=1), atol=1e-5)
    cosine = torch.nn.functional.cosine_similarity(X - out, X - GUIDED, dim=1)
    assert torch.allclose(cosine, torch.ones_like(cosine), atol=1e-5)
    half = NormBefore(0.5).combined(X, 0.5, BOTH, GUIDED, CFG)
    assert torch.allclose(half, (out + GUIDED) / 2, atol=1e-5)
    assert NormBefore(1.0).combined(X, 0.5, {"positive": POSITIVE}, POSITIVE, 1.0) is POSITIVE
    assert torch.equal(NormBefore(1.0).combined(X, 0.5, BOTH, X, CFG), X), "no noise: nothing to scale"


def test_rescaling_is_that_of_the_paper_on_v() -> None:
    sigma = 1.7
    alpha, noise = 1 / (1 + sigma**2) ** 0.5, sigma / (1 + sigma**2) ** 0.5  # of a state of variance 1

    def v(x0: Tensor) -> Tensor:
        result: Tensor = (alpha * (X * alpha) - x0) / noise
        return result

    out = Rescaled(0.7).combined(X, sigma, BOTH, GUIDED, CFG)
    for i in range(2):
        guided = v(NEGATIVE)[i] + CFG * (v(POSITIVE)[i] - v(NEGATIVE)[i])
        wanted = 0.7 * guided * v(POSITIVE)[i].std() / guided.std() + 0.3 * guided
        assert torch.allclose(out[i], alpha * X[i] * alpha - noise * wanted, atol=1e-5)
    assert Rescaled(0.7).combined(X, sigma, {"positive": POSITIVE}, POSITIVE, 1.0) is POSITIVE


def test_reinhards_curve_keeps_directions() -> None:
    latent = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(2)) * 3
    out = latent_operation_tonemap_reinhard(2.0)(latent)
    for i in range(2):
        length = latent[i].norm(dim=0)
        top = 2 * (length.mean() + 5 * length.std())
        assert torch.allclose(out[i].norm(dim=0), length / (1 + length / top), atol=1e-4)
    assert torch.allclose(torch.nn.functional.cosine_similarity(out, latent), torch.ones(2, 6, 6), atol=1e-5)
    changed = latent_apply_operation({"samples": latent, "batch_index": [3, 4]}, lambda x: 2 * x)
    assert torch.equal(changed["samples"], 2 * latent) and changed["batch_index"] == [3, 4]
    with pytest.raises(ValueError, match="multiplier of 0"):
        latent_operation_tonemap_reinhard(0.0)


def test_an_operation_acts_on_what_guidance_adds() -> None:
    change = Operated(lambda way: way * 2)
    predictions = change.before(BOTH)
    assert torch.allclose(predictions["positive"], NEGATIVE + 2 * (POSITIVE - NEGATIVE), atol=1e-6)
    assert predictions["negative"] is NEGATIVE
    assert torch.equal(change.before({"positive": POSITIVE})["positive"], 2 * POSITIVE)


def test_another_scale_for_a_part_of_the_way(toy: Any, says: Says) -> None:
    """The toy predicts 0.1 x + what a conditioning says; with cfg c that is 0.1 x + n + c (p - n)."""
    part = SamplingRange(0.5, 1.0)
    edge = toy.sampling.percent_to_sigma(0.5)
    sigmas = [0.9, edge - 0.01, 0.0]
    model = replace(toy, guidance=(Rescheduled(1.0, part),))
    out = run(Guider(model, says(1.0), says(0.2), 3.0), sigmas)
    x = 0.9 * initial_noise(1, (1, 4, 2, 2)) + 0.1 * torch.zeros(1)
    x = x + (sigmas[1] - 0.9) * (x - (0.1 * x + 0.2 + 3 * 0.8)) / 0.9
    x = 0.1 * x + 1.0  # the last step is not guided
    assert torch.allclose(out, x / 0.5 + 0.25, atol=1e-4)
    assert [rows for _, rows in model.calls] == [2, 1], "the negative is not asked where the scale is 1"
    stronger = replace(toy, guidance=(Rescheduled(5.0, SamplingRange(0.0, 1.0)),))
    assert torch.allclose(
        run(Guider(stronger, says(1.0), says(0.2), 3.0), sigmas), run(Guider(toy, says(1.0), says(0.2), 5.0), sigmas)
    )
    assert "CFGOverride changes nothing at cfg 1" in Guider(stronger, says(1.0)).warnings()[0]


@pytest.mark.parametrize("nested", [False, True])
def test_three_conditionings(toy: Any, says: Says, nested: bool) -> None:
    sigmas, one, two, nothing = [0.8, 0.0], 1.0, 0.5, 0.2
    first, second = 3.0, 2.0
    if nested:
        guider = Guider(toy, says(one), says(two), first, Third(says(nothing), second, nested=True))
        wanted = nothing + second * (two + first * (one - two) - nothing)
    else:
        guider = Guider(toy, says(two), says(nothing), second, Third(says(one), first))
        wanted = nothing + second * (two - nothing) + first * (one - two)
    x = 0.8 * initial_noise(1, (1, 4, 2, 2))
    # 0.1 x is in all three predictions: it is left once, but the first way of "regular" ends at its own.
    assert torch.allclose(run(guider, sigmas), (0.1 * x + wanted) / 0.5 + 0.25, atol=1e-5)
    assert toy.calls[-1][1] == 3
    told = guider.with_extras(latent_shapes=1)
    assert told.third and told.third.conditioning[0][1] == {"latent_shapes": 1}
    with pytest.raises(ValueError, match="conditioning is empty"):
        run(Guider(toy, says(1.0), None, 1.0, Third([], 2.0)), sigmas)


def test_a_gray_mask_says_how_early_a_place_is_painted() -> None:
    sampling, levels = Flow(1.0), torch.tensor([1.0, 0.5, 0.25, 0.0])
    mask = torch.tensor([[[[0.0, 0.3, 0.6, 1.0]]]])
    at = Differential().begin(sampling, levels, mask)
    assert at(1.0).flatten().tolist() == [0, 0, 0, 1]
    assert at(0.5).flatten().tolist() == [0, 0, 1, 1]  # half of the way is left: 0.6 is painted
    assert at(0.25).flatten().tolist() == [0, 1, 1, 1]
    half = Differential(0.5).begin(sampling, levels, mask)(0.5)
    assert torch.allclose(half.flatten(), torch.tensor([0, 0.15, 0.8, 1.0]))
    discrete = Discrete()
    table = discrete.table
    at = Differential().begin(discrete, torch.stack([table[999], table[499], torch.tensor(0.0)]), mask)
    assert at(float(table[499])).flatten().tolist() == [0, 0, 1, 1]  # timestep 499 of 999


def test_differential_diffusion_in_a_run(toy: Any, says: Says) -> None:
    latent = {"samples": torch.ones(1, 4, 2, 2), "noise_mask": torch.tensor([[[0.0, 1.0], [0.4, 0.4]]])}
    sigmas = [0.9, 0.6, 0.2, 0.0]
    plain = run(Guider(toy, says(1.0)), sigmas, latent)
    changed = run(Guider(replace(toy, differential=Differential()), says(1.0)), sigmas, latent)
    assert torch.allclose(changed[..., 0, :], plain[..., 0, :]), "black and white are as they were"
    assert not torch.allclose(changed[..., 1, :], plain[..., 1, :])


def test_what_is_not_read_is_said(toy: Any, says: Says) -> None:
    entries = {"reference_latents": (torch.zeros(1),), "concat_latent_image": torch.zeros(1)}
    told = Guider(toy, says(1.0, **entries)).warnings()
    assert len(told) == 2 and "InpaintModelConditioning" in told[0] and "ReferenceLatent" in told[1]
    toy.family = replace(toy.family, reads=frozenset({"reference_latents", "concat_latent_image"}))
    assert not Guider(toy, says(1.0, **entries)).warnings()


def test_nodes_add_their_change(toy: Any) -> None:
    model = cfg_norm(rescale_cfg(cfg_override(toy, 2.0, 0.25, 0.75), 0.5), 0.8, True)
    assert model.guidance == (Rescheduled(2.0, SamplingRange(0.25, 0.75)), Rescaled(0.5), NormBefore(0.8))
    assert cfg_norm(toy, 0.8).guidance == (NormAfter(0.8),)
    assert isinstance(latent_apply_operation_cfg(toy, torch.abs).guidance[0], Operated)
    assert toy.guidance == ()
