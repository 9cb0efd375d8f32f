"""Empty latents of certain models."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Auto, Doc, RunContext, Step, node

from ..utils.amounts import latents
from ..wire import Latent
from .latent import cut_sizes

Width = Annotated[int, Ge(16), Le(16384), Step(16), Auto("width"), Doc("Image width in pixels.")]
Height = Annotated[int, Ge(16), Le(16384), Step(16), Auto("height"), Doc("Image height in pixels.")]
BatchSize = Annotated[int, Ge(1), Le(4096), Doc("Number of latents.")]
Seconds = Annotated[float, Ge(1), Le(1000), Doc("Length of the audio in seconds.")]


def _empty(ctx: RunContext, shape: tuple[int, ...], cell: int, width: int, height: int) -> dict[str, Any]:
    """A latent of zeros for an image size, rounded down to whole cells with a warning."""
    import torch

    width, height = cut_sizes(ctx, width=(width, cell, cell), height=(height, cell, cell))
    return {"samples": torch.zeros(*shape, height // cell, width // cell), "downscale_ratio_spatial": cell}


@node("EmptyFlux2LatentImage", category="latent", title="Empty Flux 2 Latent", size=latents(128, 16))
def empty_flux2_latent_image(
    ctx: RunContext, width: Width = 1024, height: Height = 1024, batch_size: BatchSize = 1
) -> Latent:
    """Make an empty latent of FLUX.2: 128 channels, cells of 16 pixels."""
    return _empty(ctx, (batch_size, 128), 16, width, height)


@node("EmptyChromaRadianceLatentImage", category="latent/chroma_radiance", size=latents(3, 1))
def empty_chroma_radiance_latent_image(
    ctx: RunContext, width: Width = 1024, height: Height = 1024, batch_size: BatchSize = 1
) -> Latent:
    """Make an empty latent of a pixel-space model: 3 channels, cells of one pixel."""
    return _empty(ctx, (batch_size, 3), 1, width, height)


@node("EmptyQwenImageLayeredLatentImage", category="latent/qwen", title="Empty Qwen Image Layered Latent")
def empty_qwen_image_layered_latent_image(
    ctx: RunContext,
    width: Width = 640,
    height: Height = 640,
    layers: Annotated[int, Ge(0), Le(16384)] = 3,
    batch_size: BatchSize = 1,
) -> Latent:
    """Make an empty latent of Qwen-Image-Layered: an image and its layers, as frames.

    Args:
        layers: Number of layers.
    """
    return _empty(ctx, (batch_size, 16, layers + 1), 8, width, height)


@node("EmptyLatentAudio", category="latent/audio")
def empty_latent_audio(seconds: Annotated[Seconds, Step(0.1)] = 47.6, batch_size: BatchSize = 1) -> Latent:
    """Make an empty latent of Stable Audio: 64 channels, 2048 of 44,100 samples a second each, an even number."""
    return _sound(batch_size, 64, length=2 * round(seconds * 44100 / 2048 / 2))


@node("EmptyAceStepLatentAudio", category="latent/audio")
def empty_ace_step_latent_audio(seconds: Annotated[Seconds, Step(0.1)] = 120.0, batch_size: BatchSize = 1) -> Latent:
    """Make an empty latent of ACE-Step 1: 8 channels of 16 bands, 4096 of 44,100 samples a second each."""
    return _sound(batch_size, 8, 16, length=int(seconds * 44100 / 512 / 8))


@node("EmptyAceStep1.5LatentAudio", category="latent/audio", title="Empty Ace Step 1.5 Latent Audio")
def empty_ace_step_15_latent_audio(
    seconds: Annotated[Seconds, Step(0.01)] = 120.0, batch_size: BatchSize = 1
) -> Latent:
    """Make an empty latent of ACE-Step 1.5: 64 channels, 25 cells a second."""
    return _sound(batch_size, 64, length=round(seconds * 25))


def _sound(*shape: int, length: int) -> dict[str, Any]:
    import torch

    return {"samples": torch.zeros(*shape, length), "type": "audio"}
