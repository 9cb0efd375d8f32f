"""Noise schedules: n steps -> n + 1 falling sigmas that end in 0, float32 on the CPU, by ComfyUI's names.

karras, exponential: Karras et al. 2022 (arXiv 2206.00364, eq. 5) and its limit of large rho. beta: Lee et al. 2024
(arXiv 2407.12173). linear_quadratic: Polyak et al. 2024 (Movie Gen, arXiv 2410.13720). kl_optimal: Sabour et al. 2024
(arXiv 2404.14507, eq. 3.6). sgm_uniform, ddim_uniform, normal, simple: even in the model's own timesteps, and differ in
which ends they keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .model_sampling import ModelSampling

Schedule = Callable[[ModelSampling, int], Tensor]
"""Sigmas for a model and number of steps, float64, before the checks of ``sigmas_for``."""


def _ended(sigmas: Tensor) -> Tensor:
    return torch.cat([sigmas, sigmas.new_zeros(1)])


def _linspace(start: float, end: float, n: int) -> Tensor:
    return torch.linspace(start, end, n, dtype=torch.float64)


def _ends(sampling: ModelSampling) -> tuple[float, float]:
    """Timesteps of sigma_max and sigma_min, the ends of the uniform schedules."""
    first, last = sampling.timestep(torch.tensor([sampling.sigma_max, sampling.sigma_min], dtype=torch.float64))
    return float(first), float(last)


def simple(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform steps through the table from its top."""
    size = len(sampling.table)
    return _ended(sampling.table[[size - 1 - int(i * size / n) for i in range(n)]])


def sgm_uniform(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform in timesteps, without the last step."""
    return _ended(sampling.sigma(_linspace(*_ends(sampling), n + 1)[:-1]))


def normal(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform in timesteps from sigma_max to sigma_min, both included; no 0 is appended if the table reaches it."""
    first, last = _ends(sampling)
    if float(sampling.sigma(torch.tensor(last))) <= 1e-5:
        return _ended(sampling.sigma(_linspace(first, last, n + 1)[:-1]))
    return _ended(sampling.sigma(_linspace(first, last, n)))


def karras(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform in sigma^(1/7)."""
    return karras_between(sampling.sigma_min, sampling.sigma_max, n)


def karras_between(sigma_min: float, sigma_max: float, n: int, rho: float = 7.0) -> Tensor:
    """Uniform in sigma^(1/rho) from sigma_max to sigma_min, then 0."""
    return _ended(_linspace(sigma_max ** (1 / rho), sigma_min ** (1 / rho), n) ** rho)


def exponential(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform in log sigma."""
    return exponential_between(sampling.sigma_min, sampling.sigma_max, n)


def exponential_between(sigma_min: float, sigma_max: float, n: int) -> Tensor:
    """Uniform in log sigma from sigma_max to sigma_min, then 0."""
    return _ended(_linspace(math.log(sigma_max), math.log(sigma_min), n).exp())


def ddim_uniform(sampling: ModelSampling, n: int) -> Tensor:
    """Every (size // n)-th of the table from its second entry up.

    Where n does not divide the size, ComfyUI's loop takes more than n of them; here the n lowest are kept, which is
    also diffusers' "leading" spacing.
    """
    stride = max(len(sampling.table) // n, 1)
    return _ended(sampling.table[1::stride][:n].flip(0))


def beta(sampling: ModelSampling, n: int, a: float = 0.6, b: float = 0.6) -> Tensor:
    """Timesteps at the quantiles of Beta(a, b): dense at both ends. Repeats are dropped, so it may be shorter."""
    from scipy.stats import beta as distribution

    quantiles = torch.from_numpy(distribution.ppf(1 - torch.arange(n, dtype=torch.float64).numpy() / n, a, b))
    rows = torch.unique_consecutive((quantiles * (len(sampling.table) - 1)).round().long())
    return _ended(sampling.table[rows])


def flux2(n: int, tokens: int) -> Tensor:
    """FLUX.2's uniform timesteps, shifted by a mu that depends on steps and image tokens.

    mu is a line in the tokens for 10 steps and another for 200, and a line in the steps between the two; beyond 4300
    tokens it is that for 200 steps. The numbers are Black Forest Labs' fit.
    """
    at_200 = 0.00016927 * tokens + 0.45666666
    at_10 = 8.73809524e-05 * tokens + 1.89833333
    mu = at_200 if tokens > 4300 else at_200 + (at_10 - at_200) * (200 - n) / 190
    t = _linspace(1, 0, n + 1)
    return math.exp(mu) * t / (math.exp(mu) * t + 1 - t)


def linear_quadratic(sampling: ModelSampling, n: int) -> Tensor:
    """The first 2.5 % of the range linear in half of the steps; the rest quadratic with the same slope."""
    covered, half = 0.025, n // 2
    i = torch.arange(n + 1, dtype=torch.float64)
    if half == 0:
        return (1 - i / n) * sampling.sigma_max
    slope, rest = covered / half, n - half
    curve = (1 - covered - slope * rest) / rest**2
    way = torch.where(i < half, slope * i, covered + slope * (i - half) + curve * (i - half) ** 2)
    way[-1] = 1.0
    return (1 - way) * sampling.sigma_max


def kl_optimal(sampling: ModelSampling, n: int) -> Tensor:
    """Uniform in atan sigma."""
    return _ended(_linspace(math.atan(sampling.sigma_max), math.atan(sampling.sigma_min), n).tan())


SCHEDULES: dict[str, Schedule] = {
    "simple": simple,
    "sgm_uniform": sgm_uniform,
    "karras": karras,
    "exponential": exponential,
    "ddim_uniform": ddim_uniform,
    "beta": beta,
    "normal": normal,
    "linear_quadratic": linear_quadratic,
    "kl_optimal": kl_optimal,
}
_FROM_TABLE = {"simple", "ddim_uniform", "beta"}


def sigmas_for(
    sampling: ModelSampling, name: str, steps: int, denoise: float = 1.0, *, drop_penultimate: bool = False
) -> Tensor:
    """The sigmas of a run, float32 [steps + 1]; strictly falling, the last 0.

    Fewer than ``steps + 1`` only for "beta", whose repeats are dropped.

    Args:
        sampling: The model's noise levels.
        name: A key of ``SCHEDULES``.
        steps: How many steps will run, whatever ``denoise`` is; at least 1.
        denoise: Part of the way that is run: the last ``steps`` steps of a schedule of ``int(steps / denoise)``. 1 (or
            0.9999 and more) is the whole schedule; 0 or less gives an empty tensor: there is nothing to do. Where
            the model's table has too few levels below the start, the run starts at the ``steps``-th lowest of them.
        drop_penultimate: Make one step more and leave out the last sigma before 0, as dpm_2 and uni_pc want it.
    """
    if denoise <= 0:
        return torch.empty(0)
    total = steps if denoise > 0.9999 else int(steps / denoise)
    extra = int(drop_penultimate)
    if name in _FROM_TABLE:
        limit = len(sampling.table) - 1 - extra
        if steps > limit:
            raise ValueError(f"schedule {name!r} has {limit} noise levels for this model, too few for {steps} steps")
        total = min(total, limit)
    sigmas = SCHEDULES[name](sampling, total + extra).float()
    if drop_penultimate:
        sigmas = torch.cat([sigmas[:-2], sigmas[-1:]])
    return sigmas[-(steps + 1) :]


def part_of(sigmas: Tensor, start: int, end: int, *, leave_noise: bool) -> Tensor:
    """Steps ``start`` up to ``end`` of a run; empty without any.

    Args:
        sigmas: Sigmas of the whole run.
        start: First step to run, from 0.
        end: The step to stop before; beyond the last is the last.
        leave_noise: Stop at the noise level of ``end``. False: the last step that is run goes to 0 instead.
    """
    part = sigmas[: end + 1]
    if len(part) < len(sigmas) and not leave_noise:
        part = torch.cat([part[:-1], part.new_zeros(1)])
    return part[start:] if start < len(part) - 1 else part.new_empty(0)
