"""Inputs and outputs of samplers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .model_sampling import ModelSampling


class Denoiser(Protocol):
    """Model, conditioning and guidance as one function."""

    @property
    def sampling(self) -> ModelSampling: ...

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        """The denoised prediction x0 of the state ``x`` [B, ...] at ``sigma``."""
        ...


class SamplerStep(NamedTuple):
    """Yielded by a sampler when a step is done."""

    done: int
    total: int
    sigma: float
    """The noise level the step started at."""
    denoised: Tensor
    """The prediction x0 at the start of the step, like x."""


StepNoise = Callable[[Tensor], Tensor]
"""Fresh normal noise like the given tensor."""
Steps = Generator[SamplerStep, None, Tensor]
"""A run: one ``SamplerStep`` after each step; returns the last state."""
SamplerFunction = Callable[[Denoiser, Tensor, Tensor, StepNoise], Steps]
"""(denoise, x, sigmas, noise): x is the state at sigmas[0]; sigmas are strictly descending; only the last may be 0."""


def each_step(levels: Sequence[float]) -> Iterator[tuple[int, int, float, float]]:
    """(index from 1, number of steps, sigma, next sigma) of each step."""
    return ((i, len(levels) - 1, levels[i - 1], levels[i]) for i in range(1, len(levels)))


def euler_step(x: Tensor, denoised: Tensor, sigma: float, to: float) -> Tensor:
    """Linear step from x through the prediction; exactly the prediction if ``to`` is 0."""
    return torch.lerp(denoised, x, to / sigma)
