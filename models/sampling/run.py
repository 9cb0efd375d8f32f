"""One sampling run: from a LATENT, noise, a guider and sigmas to the finished LATENT."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from pipegraph.generators import converted

from ..family import LatentFormat
from .findings import findings
from .guiders import GuidedDenoiser, Guider, fit_mask
from .joint_flow import JointFlow
from .model_sampling import ModelSampling
from .noise import ItemNoise, Noise, initial_noise
from .original import KEY, original_of, with_samples
from .samplers import Sampler
from .steps import SamplerStep

if TYPE_CHECKING:
    from pipegraph.models.model import Model

NOISY_ORIGINAL: Final = (
    "no noise is added, and the mask keeps the latent as it is: if a sampler has left noise in it, that noise is kept. "
    "Give the mask to the first sampler too, and no node between them that changes the latent"
)


@dataclass(frozen=True, slots=True)
class SamplingReport:
    """Statistics of a run, for the run record."""

    sampler: str
    steps: int
    model_calls: int
    sigma_first: float | None
    sigma_last: float | None
    rows_per_step: int
    """Rows per call of the model: batch size times conditionings."""
    step_cache: dict[str, Any] | None = None
    """SamplingReport of EasyCache, if used."""

    def as_dict(self) -> dict[str, Any]:
        """Run record entry, without unused fields."""
        return {k: v for k, v in asdict(self).items() if v is not None or k != "step_cache"}


@dataclass(frozen=True, eq=False, slots=True)
class Sampled:
    """Result of a run; tensors are VAE latents, float32 on the CPU, of the LATENT's shape."""

    samples: Tensor
    denoised: Tensor
    """The model's last prediction; equals ``samples`` if the run ends at sigma 0."""
    report: SamplingReport
    original: Mapping[str, Tensor] | None = None
    """For samples with noise left: the original, for a later run with a mask."""

    def latent(self, latent: Mapping[str, Any]) -> dict[str, Any]:
        """The output LATENT for the run's input LATENT."""
        return with_samples(latent, self.samples, self.original)

    def denoised_latent(self, latent: Mapping[str, Any]) -> dict[str, Any]:
        """The output LATENT with the prediction as samples."""
        return with_samples(latent, self.denoised, None)


def sample(
    guider: Guider, noise: Noise, sampler: Sampler, sigmas: Tensor, latent: Mapping[str, Any]
) -> Generator[SamplerStep, None, Sampled]:
    """Run a sampler; yields after each step.

    Without steps (fewer than two sigmas) the samples are returned unchanged. A ``noise_mask`` in the LATENT (1 =
    repaint) protects the rest.

    Raises:
        ValueError: the sigmas do not fall to 0 or above, or the latent is not one of this model's.
    """
    levels = sigmas.detach().float().cpu()
    if len(levels) < 2:
        untouched = latent["samples"]
        return Sampled(untouched, untouched, SamplingReport(sampler.name, 0, 0, None, None, 0), latent.get(KEY))
    if not bool(torch.isfinite(levels).all()) or bool((levels.diff() >= 0).any()) or levels[-1] < 0:
        raise ValueError(f"sigmas must fall strictly and end at 0 or above; got {_short(levels)}")
    if guider.model.begins_with is not None and not sampler.blockwise:
        raise ValueError(
            f"the video starts from an image (ARVideoI2V), which {sampler.name} cannot do: use the "
            "sampler of SamplerARVideo"
        )
    if guider.model.step_cache and sampler.blockwise:
        raise ValueError(
            "videos that are made block by block take few steps, of which none is reused: leave out EasyCache"
        )
    if guider.model.patches and sampler.blockwise:
        raise ValueError(
            "videos that are made block by block have an attention of their own: leave out "
            "SlidingTileAttention, ScaleROPE and ModelAttentionBackend"
        )
    run = yield from _run(guider, noise, sampler, levels, latent)
    # Outside of inference mode: what goes on a wire is an ordinary tensor.
    samples, before = run.samples.clone(), run.original
    original = before and {"samples": before["samples"].clone(), "noise": before["noise"].clone(), "noised": samples}
    return Sampled(samples, run.denoised.clone(), run.report, original)


def _short(values: Tensor) -> str:
    shown = ", ".join(f"{v:.4g}" for v in values[:8].tolist())
    return f"[{shown}, ...]" if len(values) > 8 else f"[{shown}]"


@torch.inference_mode()
def _run(
    guider: Guider, noise: Noise, sampler: Sampler, levels: Tensor, latent: Mapping[str, Any]
) -> Generator[SamplerStep, None, Sampled]:
    model, sampling = guider.model, guider.model.sampling
    if shapes := latent.get("shapes"):
        if not model.family.joint:
            raise ValueError(f"{model.family.title} makes no sound: take the latent apart with LTXVSeparateAVLatent")
        samples, guider = latent["samples"], guider.with_extras(latent_shapes=shapes)
        if isinstance(sampling, JointFlow):
            guider = guider.with_extras(sound_ratio=sampling.ratio)
    else:
        samples = fit_shape(fit_cells(latent, model.latent), model.latent.channels, model.latent.axes)
    # Drawn for the fitted shape: what was a latent of 4 channels may be one of 16 now.
    start_noise = noise.generate_noise({**latent, "samples": samples}).to(model.loaded.device)
    clean = _state(model, samples, shapes)
    first, last = float(levels[0]), float(levels[-1])
    max_denoise = first >= sampling.sigma_max or math.isclose(first, sampling.sigma_max, rel_tol=1e-5)
    x = sampling.noise_scaling(first, start_noise, clean, max_denoise=max_denoise)
    denoiser = guider.denoiser(x)
    denoise: GuidedDenoiser | MaskedDenoiser | KeepingDenoiser = denoiser
    original = original_of(latent)
    if original is not None:
        samples, start_noise = original["samples"], original["noise"].to(model.loaded.device)
        clean = _state(model, samples, shapes)
    elif latent.get("noise_mask") is not None and sampler.fresh_mask_noise and not noise.silent:
        start_noise = initial_noise(noise.seed + 1, samples.shape, latent.get("batch_index")).to(model.loaded.device)
    if latent.get("noise_mask") is not None:
        mask = fit_mask(latent["noise_mask"], x)
        at = model.differential.begin(sampling, levels, mask) if model.differential else lambda sigma: mask
        if model.family.token_times:
            denoise = KeepingDenoiser(denoiser, at, clean)
        else:
            denoise = MaskedDenoiser(denoiser, at, clean, start_noise)
        if original is None and not is_filled(start_noise) and (messages := findings()) is not None:
            messages["mask"] = NOISY_ORIGINAL
    steps = sampler.run(denoise, x, levels, ItemNoise(noise.seed, latent.get("batch_index") or range(len(x))))
    prediction = x

    def noted(step: SamplerStep) -> SamplerStep:
        nonlocal prediction
        prediction = step.denoised
        return step

    x = sampling.inverse_noise_scaling(last, (yield from converted(steps, noted)))
    cached = denoiser.cached
    if (
        model.step_cache
        and cached
        and (messages := findings()) is not None
        and (cached.reused or model.step_cache.verbose)
    ):
        messages["step cache"] = cached
    calls, reuse = (denoiser.calls - cached.reused, cached.report()) if cached else (denoiser.calls, None)
    report = SamplingReport(sampler.name, len(levels) - 1, calls, first, last, denoiser.rows, reuse)
    if shapes and isinstance(sampling, JointFlow):
        x, prediction = (sampling.restored(row, shapes) for row in (x, prediction))
    x, prediction = (model.process_out(row).cpu() for row in (x, prediction))
    known = is_filled(samples) or latent.get("noise_mask") is not None
    left = last > 0 and known and is_filled(start_noise)
    return Sampled(x, prediction, report, {"samples": samples, "noise": start_noise.cpu()} if left else None)


def _state(model: Model, samples: Tensor, shapes: Any) -> Tensor:
    """VAE latents as network state, on the model's device."""
    # An empty latent stands for "nothing there", not for the picture that zeros decode to: it is not shifted.
    state = samples.to(model.loaded.device, torch.float32)
    state = model.process_in(state) if is_filled(samples) else state
    return model.sampling.carried(state, shapes) if shapes and isinstance(model.sampling, JointFlow) else state


MaskAt = Callable[[float], Tensor]
"""The noise mask at a noise level."""


class MaskedDenoiser:
    """Inpainting: where the mask is 0, the state is the noised original and the prediction the original."""

    def __init__(self, inner: GuidedDenoiser, mask: MaskAt, clean: Tensor, noise: Tensor) -> None:
        self._inner, self._mask, self._clean, self._noise = inner, mask, clean, noise
        self.sampling: ModelSampling = inner.sampling

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        noised, mask = self.sampling.noise_scaling(sigma, self._noise, self._clean), self._mask(sigma)
        denoised = self._inner(torch.lerp(noised, x, mask), sigma)
        return torch.lerp(self._clean, denoised, mask)


class KeepingDenoiser:
    """Inpainting for networks with a timestep per token.

    Where the mask is 0, the state is the clean original at timestep 0; where it is m, noise and timestep are scaled by
    m, and the prediction is blended by m.
    """

    def __init__(self, inner: GuidedDenoiser, mask: MaskAt, clean: Tensor) -> None:
        self._inner, self._mask, self._clean = inner, mask, clean
        self.sampling: ModelSampling = inner.sampling

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        mask = self._mask(sigma)
        denoised = self._inner(torch.lerp(self._clean, x, mask), sigma, mask)
        return torch.lerp(self._clean, denoised, mask)


def is_filled(samples: Tensor) -> bool:
    """Whether a latent has content: an empty one is all zeros."""
    return bool(samples.any())


def fit_cells(latent: Mapping[str, Any], format: LatentFormat) -> Tensor:
    """Samples of a LATENT; an empty one with another cell size is recreated for as many pixels.

    Raises:
        ValueError: these pixels are no whole tokens.
    """
    samples: Tensor = latent["samples"]
    cell, own = latent.get("downscale_ratio_spatial", format.downscale), format.downscale
    if cell == own or is_filled(samples):
        return samples
    height, width = (side * cell for side in samples.shape[-2:])
    whole = own * format.patch
    if height % whole or width % whole:
        raise ValueError(f"this model's sides are multiples of {whole} pixels, the latent is of {width} x {height}")
    return samples.new_zeros(*samples.shape[:-2], height // own, width // own)


def fit_shape(samples: Tensor, channels: int, axes: int = 2) -> Tensor:
    """A latent with the model's channels and axes: an empty one is recreated, others must match.

    EmptyLatentImage cannot know the model and makes 4 channels. A picture is a video of one frame.
    """
    if samples.ndim == 4 and axes == 3:
        samples = samples[:, :, None]
    if samples.ndim != axes + 2:
        wanted = "[batch, channels, time, height, width]" if axes == 3 else "[batch, channels, height, width]"
        raise ValueError(f"this model's latents are {wanted}, the latent is {list(samples.shape)}")
    if samples.shape[1] == channels:
        return samples
    if is_filled(samples):
        raise ValueError(f"the latent has {samples.shape[1]} channels, this model's latents have {channels}")
    return samples.new_zeros(samples.shape[0], channels, *samples.shape[2:])
