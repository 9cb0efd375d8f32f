"""LTX-Video: empty latents, frame rate, noise levels, image to video.

A video has 8n + 1 frames, a latent frame for the first and one for each eight after it; sides are multiples of 32
pixels. For an empty latent other sizes are rounded down, as in ComfyUI; elsewhere they are an error before the run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from pipegraph.models.families.ltx.vae_networks import CELL, CHANNELS, FRAMES
from pipegraph.runtime.node import Auto, OneMoreThan, RunContext, Step, node, outputs

from ..image.latent import cut_sizes
from ..ports import FRAME_HEIGHT, FRAME_WIDTH, ModelVae, NegativeConditioning, PositiveConditioning, VideoCount
from ..sampling.shared import Steps
from ..utils.amounts import latents
from ..wire import Conditioning, Image, Latent, Model, Sigmas

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Ge(64), Le(16384), MultipleOf(CELL), Step(CELL), Auto("width"), FRAME_WIDTH]
Height = Annotated[int, Ge(64), Le(16384), MultipleOf(CELL), Step(CELL), Auto("height"), FRAME_HEIGHT]
Length = Annotated[int, Ge(1), Le(16384), OneMoreThan(FRAMES), Step(FRAMES), Auto("length")]
Side = Annotated[int, Ge(64), Le(16384), Step(CELL)]
Frames = Annotated[int, Ge(1), Le(16384), Step(FRAMES)]
FrameRate = Annotated[float, Ge(0.01), Le(1000), Step(0.01), Auto("fps")]
Shift = Annotated[float, Ge(0), Le(100), Step(0.01)]
Strength = Annotated[float, Ge(0), Le(1), Step(0.01)]


@outputs
class Sides:
    """Positive and negative conditioning."""

    positive: Conditioning
    negative: Conditioning


@outputs
class Guided:
    """Conditionings and their latent."""

    positive: Conditioning
    negative: Conditioning
    latent: Latent


@node(
    "EmptyLTXVLatentVideo",
    category="latent/video/ltxv",
    title="EmptyLTXVLatentVideo",
    size=latents(CHANNELS, CELL, FRAMES),
)
def empty_ltxv_latent_video(
    ctx: RunContext,
    width: Annotated[Side, Auto("width")] = 768,
    height: Annotated[Side, Auto("height")] = 512,
    length: Annotated[Frames, Auto("length")] = 97,
    batch_size: VideoCount = 1,
) -> Latent:
    """Make an empty video latent, for LTX-Video.

    Args:
        width: Frame width in pixels; rounded down to a multiple of 32, with a warning.
        height: Frame height in pixels, likewise.
        length: Number of frames: 1, 9, 17, ...; other numbers are rounded down, with a warning.
    """
    sides = {"width": (width, CELL, CELL), "height": (height, CELL, CELL)}
    width, height, length = cut_sizes(ctx, **sides, length=(length, FRAMES, 1))
    return {"samples": _empty(width, height, length, batch_size)}


@node("LTXVConditioning", category="conditioning/video_models", title="LTXVConditioning")
def ltxv_conditioning(
    positive: PositiveConditioning, negative: NegativeConditioning, frame_rate: FrameRate = 25.0
) -> Sides:
    """Set the frame rate of LTX-Video's conditioning.

    Args:
        frame_rate: Frames a second.
    """
    return Sides(*(with_entries(side, frame_rate=frame_rate) for side in (positive, negative)))


@node("LTXVScheduler", category="sampling/custom_sampling/schedulers", title="LTXVScheduler")
def ltxv_scheduler(
    steps: Steps = 20,
    max_shift: Annotated[Shift, Auto("max_shift")] = 2.05,
    base_shift: Annotated[Shift, Auto("base_shift")] = 0.95,
    stretch: bool = True,
    terminal: Annotated[float, Ge(0), Le(0.99), Step(0.01)] = 0.1,
    latent: Latent | None = None,
) -> Sigmas:
    """Compute LTX-Video's sigmas: larger videos get more steps at high noise.

    Args:
        steps: Number of steps.
        max_shift: Shift of a video of 4096 tokens.
        base_shift: Shift of a video of 1024 tokens.
        stretch: Stretch the sigmas so that the last one before 0 is `terminal`.
        terminal: Last sigma before 0.
        latent: Video latent; without it, 4096 tokens.
    """
    import torch

    # The shift of FLUX, sigma = e^mu / (e^mu + 1 / t - 1), at t even from 1 to 0.
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    sigmas = 1 / (1 + (1 / times - 1) * math.exp(-_mu(latent, base_shift, max_shift)))
    if stretch and 1 - float(sigmas[-2]) > 0:
        sigmas[:-1] = 1 - (1 - sigmas[:-1]) * (1 - terminal) / (1 - sigmas[-2])
    return sigmas.float()


@node("ModelSamplingLTXV", category="advanced/model", title="ModelSamplingLTXV", changes={"levels": 10_000})
def model_sampling_ltxv(
    model: Model,
    max_shift: Annotated[Shift, Auto("max_shift")] = 2.05,
    base_shift: Annotated[Shift, Auto("base_shift")] = 0.95,
    latent: Latent | None = None,
) -> Model:
    """Set the shift of LTX-Video for a video size.

    Args:
        model: Model to patch.
        max_shift: Shift of a video of 4096 tokens.
        base_shift: Shift of a video of 1024 tokens.
        latent: Video latent; without it, 4096 tokens.
    """
    from pipegraph.models.sampling.model_sampling import Flow, reshifted

    return model.with_sampling(reshifted(model.sampling, Flow.from_mu(_mu(latent, base_shift, max_shift))))


@node(
    "LTXVImgToVideo", category="conditioning/video_models", title="LTXVImgToVideo", size=latents(CHANNELS, CELL, FRAMES)
)
def ltxv_img_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    image: Image,
    ctx: RunContext,
    width: Width = 768,
    height: Height = 512,
    length: Length = 97,
    batch_size: VideoCount = 1,
    strength: Strength = 1.0,
) -> Guided:
    """Start a video with images, for LTX-Video.

    Args:
        image: First frames; scaled to cover the size and cropped at the centre.
        length: Number of frames: 1, 9, 17, ...
        strength: How much of the given frames is kept: 1 all, 0 nothing.
    """
    latent = with_first_frames({"samples": _empty(width, height, length, batch_size)}, vae, image, strength, ctx)
    return Guided(positive, negative, latent)


@node("LTXVImgToVideoInplace", category="conditioning/video_models", title="LTXVImgToVideoInplace")
def ltxv_img_to_video_inplace(
    vae: ModelVae, image: Image, latent: Latent, ctx: RunContext, strength: Strength = 1.0, bypass: bool = False
) -> Latent:
    """Start the video of a latent with images.

    Args:
        image: First frames; scaled to cover the size and cropped at the centre.
        latent: Video latent.
        strength: How much of the given frames is kept: 1 all, 0 nothing.
        bypass: Return the latent unchanged.
    """
    return latent if bypass else with_first_frames(latent, vae, image, strength, ctx)


def with_first_frames(
    latent: dict[str, Any], vae: Any, image: Tensor, strength: float, ctx: RunContext
) -> dict[str, Any]:
    """Set the first frames of a latent to ``image``, with a noise mask that keeps them."""
    import torch

    samples = latent["samples"]
    start = encoded(vae, image, samples, ctx)
    if start.shape[2] > samples.shape[2]:
        raise ValueError(f"the images are {start.shape[2]} latent frames, the video has {samples.shape[2]}")
    samples, mask = samples.clone(), noise_mask(latent).clone()
    samples[:, :, : start.shape[2]] = start
    mask[:, :, : start.shape[2]] = torch.tensor(1 - strength)
    return {**latent, "samples": samples, "noise_mask": mask}


def encoded(vae: Any, image: Tensor, samples: Tensor, ctx: RunContext) -> Tensor:
    """Encode images at the size of ``samples`` [B, C, T, h, w] to a latent [1, C, t, h, w]."""
    from pipegraph.models.media.image_ops import resize

    check_latent(samples, vae)
    cell = vae.latent.downscale
    height, width = (side * cell for side in samples.shape[-2:])
    z: Tensor = vae.encode(resize(image[..., :3], width, height, "bilinear", "center"), ctx.warn)
    return z


def check_latent(samples: Tensor, vae: Any) -> None:
    """Raise ValueError if these are no video latents of this VAE."""
    if not vae.latent.frames:
        raise ValueError("this is an image VAE: connect LTX-Video's VAE")
    if samples.ndim != 5 or samples.shape[1] != vae.latent.channels:
        raise ValueError(
            f"the latent is {list(samples.shape)}, this VAE's are [batch, {vae.latent.channels}, time, height, width]: "
            "make it with EmptyLTXVLatentVideo"
        )


def noise_mask(latent: dict[str, Any]) -> Tensor:
    """Noise mask of a video latent, [B, 1, T, 1, 1] or [B, 1, T, h, w]; all 1 without a mask."""
    import torch

    mask: Tensor | None = latent.get("noise_mask")
    samples = latent["samples"]
    if mask is None:
        return torch.ones(len(samples), 1, samples.shape[2], 1, 1)
    if mask.ndim == 5:
        return mask.expand(len(samples), -1, samples.shape[2], -1, -1)
    from pipegraph.models.sampling.guiders import fit_mask

    return fit_mask(mask, samples).expand(len(samples), -1, samples.shape[2], -1, -1)


def with_entries(conditioning: Any, **entries: Any) -> list[Any]:
    """Add entries to a conditioning."""
    return [[states, {**extras, **entries}] for states, extras in conditioning]


def _empty(width: int, height: int, length: int, batch_size: int) -> Tensor:
    import torch

    return torch.zeros(batch_size, CHANNELS, (length - 1) // FRAMES + 1, height // CELL, width // CELL)


def _mu(latent: dict[str, Any] | None, base_shift: float, max_shift: float) -> float:
    """Shift mu for the latent's token count, linear between 1024 and 4096 tokens."""
    tokens = 4096
    if latent:  # video tokens only, if there is audio
        tokens = math.prod(latent["shapes"][0][1:] if "shapes" in latent else latent["samples"].shape[2:])
    return base_shift + (max_shift - base_shift) * (tokens - 1024) / (4096 - 1024)
