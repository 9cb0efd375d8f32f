"""Noise levels and parametrisation of a model: everything a sampler needs to know, without weights.

Samplers work in sigma space on the denoised prediction x0. A ``ModelSampling`` turns sigma into the network's input,
scaling and timestep, and its output into x0. Two kinds: ``Flow`` (rectified flow, x = sigma n + (1 - sigma) z:
Lipman et al. 2022, arXiv 2210.02747; shift: Esser et al. 2024, arXiv 2403.03206) and ``Discrete`` (DDPM's betas,
x = z + sigma n, predicting the noise or v: Karras et al. 2022, arXiv 2206.00364; Salimans, Ho 2022, arXiv 2202.00512).
Torch-free to import.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class ModelSampling(Protocol):
    """Noise levels and parametrisation of a model. Sigmas are floats, or one per batch item as a tensor [B]."""

    @property
    def flow(self) -> bool:
        """True where the state is sigma n + (1 - sigma) z, False where it is z + sigma n."""
        ...

    @property
    def table(self) -> Tensor:
        """The model's own noise levels, float64, ascending."""
        ...

    @property
    def entries(self) -> int:
        """Number of noise levels in the table."""
        ...

    @property
    def sigma_min(self) -> float: ...

    @property
    def sigma_max(self) -> float: ...

    def timestep(self, sigma: Tensor) -> Tensor:
        """Timestep(s) for sigma(s), of the same type and shape."""
        ...

    def sigma(self, timestep: Tensor) -> Tensor:
        """Noise levels of timesteps, interpolated in the table; float64."""
        ...

    def percent_to_sigma(self, percent: float) -> float:
        """Noise level after a fraction 0..1 of sampling; 0 from 1 on."""
        ...

    def alpha(self, sigma: float) -> float:
        """Scale of the image in the state at ``sigma``."""
        ...

    def network_input(self, sigma: Tensor, x: Tensor) -> Tensor:
        """The network's input for the state [B, ...]."""
        ...

    def denoised(self, sigma: Tensor, output: Tensor, x: Tensor) -> Tensor:
        """x0 [B, ...] from the network's output."""
        ...

    def noise_scaling(self, sigma: float, noise: Tensor, latent: Tensor, *, max_denoise: bool = False) -> Tensor:
        """Noise an image to ``sigma``; ``max_denoise``: the run starts from pure noise."""
        ...

    def inverse_noise_scaling(self, sigma: float, x: Tensor) -> Tensor:
        """The latent to return for a run that ends at ``sigma``: undoes the scaling of the image in the state."""
        ...


def per_item(sigma: Tensor, x: Tensor) -> Tensor:
    """Sigma [B] reshaped to broadcast with x [B, ...]; a sigma per place is unchanged."""
    return sigma if sigma.ndim == x.ndim else sigma.reshape(-1, *[1] * (x.ndim - 1))


@dataclass(frozen=True)
class Flow:
    """Rectified flow: the network predicts n - z from the state itself."""

    shift: float = 1.0
    """a in sigma(t) = a t / (1 + (a - 1) t); above 1, more steps lie at high noise."""
    multiplier: float = 1.0
    """timestep = sigma * multiplier: 1000 for SD3 and Wan, 1 for FLUX, which scales it itself."""
    entries: int = 1000
    flow = True

    @classmethod
    def from_mu(cls, mu: float) -> Flow:
        """FLUX's table: sigma(t) = e^mu / (e^mu + 1/t - 1) at 10,000 times, which is a shift of e^mu."""
        return cls(shift=math.exp(mu), entries=10_000)

    @cached_property
    def table(self) -> Tensor:
        import torch

        return self._shifted(torch.arange(1, self.entries + 1, dtype=torch.float64) / self.entries)

    @property
    def sigma_min(self) -> float:
        return float(self.table[0])

    @property
    def sigma_max(self) -> float:
        return float(self.table[-1])

    def timestep(self, sigma: Tensor) -> Tensor:
        return sigma * self.multiplier

    def sigma(self, timestep: Tensor) -> Tensor:
        return self._shifted(timestep.double() / self.multiplier)

    def percent_to_sigma(self, percent: float) -> float:
        import torch

        return float(self._shifted(torch.tensor(1 - min(max(percent, 0.0), 1.0), dtype=torch.float64)))

    def alpha(self, sigma: float) -> float:
        return 1 - sigma

    def network_input(self, sigma: Tensor, x: Tensor) -> Tensor:
        return x

    def denoised(self, sigma: Tensor, output: Tensor, x: Tensor) -> Tensor:
        return x - per_item(sigma, x) * output.to(x.dtype)

    def noise_scaling(self, sigma: float, noise: Tensor, latent: Tensor, *, max_denoise: bool = False) -> Tensor:
        return sigma * noise + (1 - sigma) * latent

    def inverse_noise_scaling(self, sigma: float, x: Tensor) -> Tensor:
        # A run that ends at 1 has done nothing: there is no picture in the state to scale back.
        return x / (1 - sigma) if 0 < sigma < 1 else x

    def _shifted(self, t: Tensor) -> Tensor:
        return self.shift * t / (1 + (self.shift - 1) * t)


@dataclass(frozen=True)
class Discrete:
    """DDPM's 1000 noise levels (SD1.x, SDXL): the network predicts the noise, or v."""

    prediction: Literal["eps", "v"] = "eps"
    beta_start: float = 0.00085
    beta_end: float = 0.012
    entries: int = 1000
    flow = False

    @cached_property
    def table(self) -> Tensor:
        import torch

        betas = torch.linspace(self.beta_start**0.5, self.beta_end**0.5, self.entries, dtype=torch.float64) ** 2
        abar = (1 - betas).cumprod(0)
        return ((1 - abar) / abar).sqrt()

    @property
    def sigma_min(self) -> float:
        return float(self.table[0])

    @property
    def sigma_max(self) -> float:
        return float(self.table[-1])

    def timestep(self, sigma: Tensor) -> Tensor:
        levels = self.table.log().to(sigma.device)
        return (sigma.double().log().reshape(-1, 1) - levels).abs().argmin(1).reshape(sigma.shape)

    def sigma(self, timestep: Tensor) -> Tensor:
        import torch

        t, levels = timestep.double().clamp(0, self.entries - 1), self.table.log()
        low = t.long().clamp(max=self.entries - 2)
        return torch.lerp(levels[low], levels[low + 1], t - low).exp()

    def percent_to_sigma(self, percent: float) -> float:
        if percent <= 0:
            return math.inf
        import torch

        return 0.0 if percent >= 1 else float(self.sigma(torch.tensor((1 - percent) * (self.entries - 1))))

    def alpha(self, sigma: float) -> float:
        return 1.0

    def network_input(self, sigma: Tensor, x: Tensor) -> Tensor:
        return x / (per_item(sigma, x) ** 2 + 1).sqrt()

    def denoised(self, sigma: Tensor, output: Tensor, x: Tensor) -> Tensor:
        s, output = per_item(sigma, x), output.to(x.dtype)
        if self.prediction == "eps":
            return x - s * output
        return x / (s**2 + 1) - output * s / (s**2 + 1).sqrt()

    def noise_scaling(self, sigma: float, noise: Tensor, latent: Tensor, *, max_denoise: bool = False) -> Tensor:
        # From pure noise the state has the variance of a trained one, z + sigma n with z of variance 1.
        return latent + noise * (math.sqrt(1 + sigma**2) if max_denoise else sigma)

    def inverse_noise_scaling(self, sigma: float, x: Tensor) -> Tensor:
        return x


def reshifted(sampling: ModelSampling, to: Flow) -> Flow:
    """The noise levels of ``to`` with the timestep unit of ``sampling``."""
    if not isinstance(sampling, Flow):
        raise ValueError("a shift is for flow models; this model predicts noise or v")
    return replace(sampling, shift=to.shift, entries=to.entries)


def mu_for_tokens(tokens: float, base_shift: float = 0.5, max_shift: float = 1.15) -> float:
    """FLUX's mu for an image of this many tokens: linear between 256 and 4096 tokens."""
    return base_shift + (max_shift - base_shift) * (tokens - 256) / (4096 - 256)
