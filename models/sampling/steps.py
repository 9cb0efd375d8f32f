"""What a sampler is given and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .model_sampling import ModelSampling


class Denoiser(Protocol):
    """The model, its conditioning and its guidance as one function."""

    @property
    def sampling(self) -> ModelSampling: ...

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        """The denoised prediction x0 of the state ``x`` [B, ...] at ``sigma``."""
        ...


class Step(NamedTuple):
    """Yielded by a sampler when a step is done."""

    done: int
    total: int
    sigma: float
    """The noise level the step started at."""
    denoised: Tensor
    """The prediction x0 that the step began with, like x."""


StepNoise = Callable[[Tensor], Tensor]
"""Fresh normal noise, like the tensor it is given."""
Steps = Generator[Step, None, Tensor]
"""A run: one ``Step`` after each step; returns the last state."""
SamplerFunction = Callable[[Denoiser, Tensor, Tensor, StepNoise], Steps]
"""(denoise, x, sigmas, noise): x is the state at sigmas[0]; sigmas fall strictly, only the last may be 0."""


def each_step(levels: Sequence[float]) -> Iterator[tuple[int, int, float, float]]:
    """(number from 1, number of steps, sigma, next sigma) of each step."""
    return ((i, len(levels) - 1, levels[i - 1], levels[i]) for i in range(1, len(levels)))


def euler_step(x: Tensor, denoised: Tensor, sigma: float, to: float) -> Tensor:
    """Along the straight line from x through the prediction; exactly the prediction where ``to`` is 0."""
    return torch.lerp(denoised, x, to / sigma)
