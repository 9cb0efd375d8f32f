"""CFG-Zero* and guidance by skipped layers on numbers, without a network: by their formulas, item by item."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from pipegraph.models.sampling.guidance import SamplingRange, SkippedInNegative, SkippedLayers, ZeroStar
from pipegraph.models.sampling.model_sampling import Discrete, Flow

X, POSITIVE, NEGATIVE, WEAK = torch.randn(4, 2, 3, 4, 5, generator=torch.Generator().manual_seed(3))
CFG = 3.0
GUIDED = NEGATIVE + CFG * (POSITIVE - NEGATIVE)


class Named:
    """Stands for a branch of guidance: its name, and its patch after it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def patched(self, patch: str) -> Named:
        return Named(f"{self.name} {patch}")


def branches(*names: str) -> Any:
    return {name: Named(name) for name in names}


def asked(acting: Any, given: Any, sigma: float) -> list[str]:
    return sorted(branch.name for branch in acting.asked(given, sigma).values())


def test_cfg_zero_star_scales_the_negative_velocity_of_each_item() -> None:
    sigma = 0.6
    acting = ZeroStar().begin(Flow(3.0), branches("positive", "negative"))
    guided = acting.after(X, {"positive": POSITIVE, "negative": NEGATIVE}, GUIDED, CFG)
    for i in range(2):
        p, n = (X[i] - POSITIVE[i]) / sigma, (X[i] - NEGATIVE[i]) / sigma
        factor = (p * n).sum() / (n * n).sum()
        velocity = factor * n + CFG * (p - factor * n)
        assert torch.allclose(guided[i], X[i] - sigma * velocity, atol=1e-5)
    assert acting.after(X, {"positive": POSITIVE}, GUIDED, 1.0) is GUIDED
    given = branches("positive", "negative")
    assert acting.asked(given, sigma) is given
    still = acting.after(X, {"positive": X + 1, "negative": X}, X, CFG)  # a negative velocity of 0 divides by no 0
    assert torch.equal(still, X)
    tiny = X.clone()
    tiny[:, 0, 0, 0] -= 1e-4  # of squared length 1e-8, which 1e-8 is added to
    factor = 1e-4 * (X - POSITIVE)[:, 0, 0, 0] / 2e-8
    moved = acting.after(X, {"positive": POSITIVE, "negative": tiny}, X, CFG) - X
    assert torch.allclose(moved[:, 0, 0, 0], (1 - CFG) * (1 - factor) * 1e-4, rtol=1e-2)


def test_where_a_part_of_the_way_lies_in_sigma() -> None:
    sampling = Flow(3.0)
    assert SamplingRange(0.0, 1.0).levels(sampling) == (0.0, math.inf)
    assert SamplingRange(0.2, 0.5).levels(sampling) == (sampling.percent_to_sigma(0.5), sampling.percent_to_sigma(0.2))
    assert SamplingRange(0.0, 1.0).levels(Discrete()) == (0.0, math.inf)


@pytest.mark.parametrize("rescale", [0.0, 0.7, 1.0])
def test_guidance_goes_away_from_skipped_layers_and_gives_deviation_back(rescale: float) -> None:
    sampling = Flow(3.0)
    low, high = SamplingRange(0.2, 0.5).levels(sampling)
    skipped: Any = SkippedLayers("skip", SamplingRange(0.2, 0.5), 2.5, rescale)  # type: ignore[arg-type]
    acting = skipped.begin(sampling, branches("positive", "negative"))
    both = branches("positive", "negative")
    for sigma in (low, (low + high) / 2, high):
        assert asked(acting, both, sigma) == ["negative", "positive", "positive skip"]
    assert acting.asked(both, low - 1e-3) is both and acting.asked(both, high + 1e-3) is both
    wanted = GUIDED + 2.5 * (POSITIVE - WEAK)
    for i in range(2):
        wanted[i] *= rescale * POSITIVE[i].std() / wanted[i].std() + 1 - rescale
    key = next(key for key in acting.asked(both, low) if key not in both)
    found = {"positive": POSITIVE, key: WEAK}
    assert torch.allclose(acting.after(X, found, GUIDED, CFG), wanted, atol=1e-5)
    assert acting.after(X, {"positive": POSITIVE}, GUIDED, CFG) is GUIDED
    assert skipped.idle(guided=False) == "" and SkippedLayers("skip", SamplingRange(0, 1), 1.0).rescale == 0  # type: ignore[arg-type]


def test_the_negative_of_skipped_layers_takes_the_place_of_the_negative() -> None:
    sampling = Flow(3.0)
    low, high = SamplingRange(0.2, 0.5).levels(sampling)
    skipped: Any = SkippedInNegative("skip", SamplingRange(0.2, 0.5))  # type: ignore[arg-type]
    both, one = branches("positive", "negative"), branches("positive")
    acting = skipped.begin(sampling, both)
    for sigma in (low, high):
        assert asked(acting, both, sigma) == ["negative skip", "positive"]
    assert acting.asked(both, low - 1e-3) is both and acting.asked(both, high + 1e-3) is both
    assert skipped.begin(sampling, one).asked(one, low) is one
    assert acting.after(X, {}, GUIDED, CFG) is GUIDED


def test_which_guidance_changes_nothing_without_a_negative_is_said() -> None:
    simple: Any = SkippedInNegative("skip", SamplingRange(0.0, 1.0))  # type: ignore[arg-type]
    for guidance in (ZeroStar(), simple):
        assert "changes nothing at cfg 1" in guidance.idle(guided=False) and guidance.idle(guided=True) == ""
