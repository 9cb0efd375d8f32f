"""A model small enough to know its answers: the picture its conditioning asks for, whatever the state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.families.flux import FLUX
from pipegraph.models.family import Family, Inputs, LatentFormat
from pipegraph.models.loaded import Loaded
from pipegraph.models.model import Prepared
from pipegraph.models.sampling.model_sampling import Flow, ModelSampling


@dataclass
class ToyModel:
    """Predicts 0.1 x + the conditioning's value. It does what `Model` promises and counts."""

    family: Family = FLUX
    sampling: ModelSampling = field(default_factory=lambda: Flow(3.0))
    latent: LatentFormat = field(default_factory=lambda: LatentFormat(4, 8, scale=0.5, shift=0.25))
    recommended: Mapping[str, Any] = field(default_factory=dict)
    loaded: Loaded = field(default_factory=lambda: Loaded(None, torch.device("cpu"), torch.float32))
    patches: tuple[Any, ...] = ()
    guidance: tuple[Any, ...] = ()
    differential: Any = None
    step_cache: None = None
    begins_with: None = None
    calls: list[tuple[float, int]] = field(default_factory=list)
    """(sigma, rows) of each call."""

    def with_sampling(self, sampling: ModelSampling) -> ToyModel:
        return replace(self, sampling=sampling)

    def process_in(self, latent: Tensor) -> Tensor:
        return self.latent.process_in(latent)

    def process_out(self, state: Tensor) -> Tensor:
        return self.latent.process_out(state)

    def prepare(self, conditioning: Sequence[Any], x: Tensor) -> list[Prepared]:
        return [
            Prepared(
                Inputs({"value": text.reshape(-1)[:1]}),
                extras.get("strength", 1.0),
                extras.get("area"),
                extras.get("mask"),
                extras.get("start", math.inf),
                extras.get("end", 0.0),
            )
            for text, extras in conditioning
        ]

    def predict(self, x: Tensor, sigma: Tensor, prepared: Sequence[Prepared], cached: None = None) -> list[Tensor]:
        assert sigma.shape == (len(x),)
        self.calls.append((float(sigma[0]), len(x) * len(prepared)))
        return [0.1 * p.crop(x) + p.inputs.batched["value"] for p in prepared]


@pytest.fixture
def toy() -> ToyModel:
    return ToyModel()


@pytest.fixture
def says() -> Callable[..., list[Any]]:
    """says(value, **extras): a CONDITIONING of one entry that asks for ``value`` everywhere."""
    return lambda value, **extras: [[torch.full((1, 1, 1), float(value)), extras]]
