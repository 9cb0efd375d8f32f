"""LTX-Video's clips: empty latents, frame rate, noise levels, clips that begin with given pictures.

A clip has 8n + 1 frames, a latent frame for the first and one for each eight after it; sides are multiples of 32
pixels. For an empty latent other numbers are cut, as in ComfyUI; elsewhere they are refused before anything runs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from pipegraph.models.families.ltx.vae_networks import CELL, CHANNELS, FRAMES
from pipegraph.runtime.node import Auto, OneMoreThan, RunContext, Step, node, outputs

from ..image.latent import cut_sizes
from ..ports import FRAME_SIDE, ModelVae, NegativeConditioning, PositiveConditioning, VideoCount
from ..sampling.shared import Steps
from ..utils.amounts import latents
from ..wire import Conditioning, Image, Latent, Model, Sigmas

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Ge(64), Le(16384), MultipleOf(CELL), Step(CELL), Auto("width"), FRAME_SIDE]
Height = Annotated[int, Ge(64), Le(16384), MultipleOf(CELL), Step(CELL), Auto("height"), FRAME_SIDE]
Length = Annotated[int, Ge(1), Le(16384), OneMoreThan(FRAMES), Step(FRAMES), Auto("length")]
Side = Annotated[int, Ge(64), Le(16384), Step(CELL)]
Frames = Annotated[int, Ge(1), Le(16384), Step(FRAMES)]
FrameRate = Annotated[float, Ge(0.01), Le(1000), Step(0.01), Auto("fps")]
Shift = Annotated[float, Ge(0), Le(100), Step(0.01)]
Strength = Annotated[float, Ge(0), Le(1), Step(0.01)]


@outputs
class Sides:
    """Both conditionings."""

    positive: Conditioning
    negative: Conditioning


@outputs
class Led:
    """Conditionings and the latent that belongs to them."""

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
    """Make an empty latent of a clip, for LTX-Video: nothing to start from but a size.

    Args:
        width: Of the frames, in pixels; cut to a multiple of 32, with a warning.
        height: Of the frames, in pixels, likewise.
        length: How many frames: 1, 9, 17, ...; other numbers are cut, with a warning.
    """
    sides = {"width": (width, CELL, CELL), "height": (height, CELL, CELL)}
    width, height, length = cut_sizes(ctx, **sides, length=(length, FRAMES, 1))
    return {"samples": _empty(width, height, length, batch_size)}


@node("LTXVConditioning", category="conditioning/video_models", title="LTXVConditioning")
def ltxv_conditioning(
    positive: PositiveConditioning, negative: NegativeConditioning, frame_rate: FrameRate = 25.0
) -> Sides:
    """Tell LTX-Video how many frames a second its clip is to have.

    Args:
        frame_rate: Frames a second.
    """
    return Sides(*(told(side, frame_rate=frame_rate) for side in (positive, negative)))


@node("LTXVScheduler", category="sampling/custom_sampling/schedulers", title="LTXVScheduler")
def ltxv_scheduler(
    steps: Steps = 20,
    max_shift: Annotated[Shift, Auto("max_shift")] = 2.05,
    base_shift: Annotated[Shift, Auto("base_shift")] = 0.95,
    stretch: bool = True,
    terminal: Annotated[float, Ge(0), Le(0.99), Step(0.01)] = 0.1,
    latent: Latent | None = None,
) -> Sigmas:
    """Spread LTX-Video's noise levels over steps: the larger the clip, the more of them lie at high noise.

    Args:
        steps: How many steps.
        max_shift: Shift of a clip of 4096 tokens.
        base_shift: Shift of a clip of 1024 tokens.
        stretch: Whether the levels are stretched so that the last one before 0 is terminal.
        terminal: That level.
        latent: The clip; without it, one of 4096 tokens.
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
    """Set the noise levels of LTX-Video for a size of clip.

    Args:
        model: The model to set.
        max_shift: Shift of a clip of 4096 tokens.
        base_shift: Shift of a clip of 1024 tokens.
        latent: The clip; without it, one of 4096 tokens.
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
) -> Led:
    """Let a clip begin with given pictures, for LTX-Video.

    Args:
        image: The first frames; scaled to cover the size and cut at the centre.
        length: How many frames: 1, 9, 17, ...
        strength: How far the given frames are kept: 1 as they are, 0 not at all.
    """
    latent = begun({"samples": _empty(width, height, length, batch_size)}, vae, image, strength, ctx)
    return Led(positive, negative, latent)


@node("LTXVImgToVideoInplace", category="conditioning/video_models", title="LTXVImgToVideoInplace")
def ltxv_img_to_video_inplace(
    vae: ModelVae, image: Image, latent: Latent, ctx: RunContext, strength: Strength = 1.0, bypass: bool = False
) -> Latent:
    """Let the clip of a latent begin with given pictures.

    Args:
        image: The first frames; scaled to cover the size and cut at the centre.
        latent: The clip.
        strength: How far the given frames are kept: 1 as they are, 0 not at all.
        bypass: Leave the latent as it is.
    """
    return latent if bypass else begun(latent, vae, image, strength, ctx)


def begun(latent: dict[str, Any], vae: Any, image: Tensor, strength: float, ctx: RunContext) -> dict[str, Any]:
    """The latent with its first frames those of ``image``, and a noise mask that keeps them."""
    import torch

    samples = latent["samples"]
    given = encoded(vae, image, samples, ctx)
    if given.shape[2] > samples.shape[2]:
        raise ValueError(f"the pictures are {given.shape[2]} latent frames, the clip has {samples.shape[2]}")
    samples, mask = samples.clone(), noise_mask(latent).clone()
    samples[:, :, : given.shape[2]] = given
    mask[:, :, : given.shape[2]] = torch.tensor(1 - strength)
    return {**latent, "samples": samples, "noise_mask": mask}


def encoded(vae: Any, image: Tensor, samples: Tensor, ctx: RunContext) -> Tensor:
    """The latent [1, C, t, h, w] of pictures at the size of ``samples`` [B, C, T, h, w]."""
    from pipegraph.models.media.image_ops import resize

    check_latent(samples, vae)
    cell = vae.latent.downscale
    height, width = (side * cell for side in samples.shape[-2:])
    z: Tensor = vae.encode(resize(image[..., :3], width, height, "bilinear", "center"), ctx.warn)
    return z


def check_latent(samples: Tensor, vae: Any) -> None:
    """ValueError if they are no latents of a clip that this VAE makes."""
    if not vae.latent.frames:
        raise ValueError("this VAE is of a model for pictures, LTX-Video's own is needed")
    if samples.ndim != 5 or samples.shape[1] != vae.latent.channels:
        raise ValueError(
            f"the latent is {list(samples.shape)}, this VAE's are [batch, {vae.latent.channels}, time, height, width]: "
            "make it with EmptyLTXVLatentVideo"
        )


def noise_mask(latent: dict[str, Any]) -> Tensor:
    """The noise mask of a clip's latent, [B, 1, T, 1, 1] or [B, 1, T, h, w]; all is to be made where it has none."""
    import torch

    mask: Tensor | None = latent.get("noise_mask")
    samples = latent["samples"]
    if mask is None:
        return torch.ones(len(samples), 1, samples.shape[2], 1, 1)
    if mask.ndim == 5:
        return mask.expand(len(samples), -1, samples.shape[2], -1, -1)
    from pipegraph.models.sampling.guiders import fit_mask

    return fit_mask(mask, samples).expand(len(samples), -1, samples.shape[2], -1, -1)


def told(conditioning: Any, **entries: Any) -> list[Any]:
    """The conditioning with further entries."""
    return [[states, {**extras, **entries}] for states, extras in conditioning]


def _empty(width: int, height: int, length: int, batch_size: int) -> Tensor:
    import torch

    return torch.zeros(batch_size, CHANNELS, (length - 1) // FRAMES + 1, height // CELL, width // CELL)


def _mu(latent: dict[str, Any] | None, base_shift: float, max_shift: float) -> float:
    """The shift on the line through 1024 and 4096 tokens."""
    tokens = 4096
    if latent:  # of a clip with sound, the clip's
        tokens = math.prod(latent["shapes"][0][1:] if "shapes" in latent else latent["samples"].shape[2:])
    return base_shift + (max_shift - base_shift) * (tokens - 1024) / (4096 - 1024)
