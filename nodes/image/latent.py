"""Latents: empty latents, batches, resizing and inpainting masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, RunContext, Step, node

from ..utils.amounts import latents
from ..wire import Latent, Mask

if TYPE_CHECKING:
    from torch import Tensor

BatchSize = Annotated[int, Ge(1), Le(4096)]
_CELL = 8  # pixels per latent cell of SD, SDXL, SD3 and FLUX


def cut_sizes(ctx: RunContext, **sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Round sizes down to those of a latent, as ComfyUI does, with a warning for each change.

    Args:
        ctx: Context of the node.
        sizes: By input name: size, step and least size.
    """
    cut = {name: max(0, number - least) // step * step + least for name, (number, step, least) in sizes.items()}
    for name, (number, step, least) in sizes.items():
        if cut[name] != number:
            rest = f"{least % step} plus " if least % step else ""
            ctx.warn(f"{name} {number} becomes {cut[name]}: it has to be {rest}a multiple of {step}")
    return tuple(cut.values())


@node("EmptyLatentImage", category="latent", size=latents(4, _CELL))
def empty_latent_image(
    ctx: RunContext,
    width: Annotated[int, Ge(16), Le(16384), Step(8), Auto("width")] = 512,
    height: Annotated[int, Ge(16), Le(16384), Step(8), Auto("height")] = 512,
    batch_size: BatchSize = 1,
) -> Latent:
    """Make an empty latent of 4 channels.

    Samplers recognise an empty latent (all zeros) and give it the number of channels of their model.

    Args:
        width: Image width in pixels; rounded down to a multiple of 8, with a warning.
        height: Image height in pixels, likewise.
        batch_size: Number of images.
    """
    return {"samples": _empty(ctx, 4, width, height, batch_size)}


def _empty(ctx: RunContext, channels: int, width: int, height: int, batch_size: int) -> Tensor:
    import torch

    width, height = cut_sizes(ctx, width=(width, _CELL, _CELL), height=(height, _CELL, _CELL))
    return torch.zeros(batch_size, channels, height // _CELL, width // _CELL)


@node("EmptySD3LatentImage", category="latent/sd3", title="EmptySD3LatentImage", size=latents(16, _CELL))
def empty_sd3_latent_image(
    ctx: RunContext,
    width: Annotated[int, Ge(16), Le(16384), Step(16), Auto("width")] = 1024,
    height: Annotated[int, Ge(16), Le(16384), Step(16), Auto("height")] = 1024,
    batch_size: BatchSize = 1,
) -> Latent:
    """Make an empty latent of 16 channels, as SD3 and FLUX have.

    Args:
        width: Image width in pixels; rounded down to a multiple of 8, with a warning.
        height: Image height in pixels, likewise.
        batch_size: Number of images.
    """
    return {"samples": _empty(ctx, 16, width, height, batch_size)}


@node("SetLatentNoiseMask", category="latent/inpaint")
def set_latent_noise_mask(samples: Latent, mask: Mask) -> Latent:
    """Set the inpainting mask of a latent; samplers keep the rest.

    Args:
        samples: The latent.
        mask: 1 where to inpaint, at any size.
    """
    return {**samples, "noise_mask": mask.reshape(-1, 1, *mask.shape[-2:])}


@node("LatentUpscale", category="latent", title="Upscale Latent", size=latents(4, _CELL))
def latent_upscale(
    samples: Latent,
    upscale_method: Literal["nearest-exact", "bilinear", "area", "bicubic", "bislerp"] = "nearest-exact",
    width: Annotated[int, Ge(0), Le(16384), MultipleOf(8)] = 512,
    height: Annotated[int, Ge(0), Le(16384), MultipleOf(8)] = 512,
    crop: Literal["disabled", "center"] = "disabled",
) -> Latent:
    """Resize a latent.

    Args:
        samples: The latent.
        upscale_method: Interpolation; bislerp interpolates direction (slerp) and length.
        width: Image width in pixels; 0 keeps the aspect ratio.
        height: Image height in pixels; 0 keeps the aspect ratio.
        crop: center crops to the new aspect ratio instead of stretching.
    """
    from pipegraph.models.sampling.latents import resize

    if width == 0 and height == 0:
        return samples
    h, w = samples["samples"].shape[-2:]
    # A side is at least 64 pixels, as in ComfyUI.
    columns = max(64, width or round(w * height / h)) // _CELL
    rows = max(64, height or round(h * width / w)) // _CELL
    return {**samples, "samples": resize(samples["samples"], rows, columns, upscale_method, crop == "center")}


@node("RepeatLatentBatch", category="latent/batch", title="Repeat Latent Batch")
def repeat_latent_batch(samples: Latent, amount: Annotated[int, Ge(1), Le(64)] = 1) -> Latent:
    """Repeat a batch; each copy gets its own noise.

    Args:
        samples: The latent.
        amount: Number of repetitions.
    """
    from pipegraph.models.sampling.latents import repeat

    return repeat(samples, amount)


@node("LatentFromBatch", category="latent/batch", title="Latent From Batch")
def latent_from_batch(
    samples: Latent,
    batch_index: Annotated[int, Ge(0), Le(4095)] = 0,
    length: Annotated[int, Ge(1), Le(4096)] = 1,
) -> Latent:
    """Take items out of a batch; they keep their noise, so each can be sampled again alone.

    Args:
        samples: The latent.
        batch_index: First item, from 0; clamped to the last.
        length: Largest number of items.
    """
    from pipegraph.models.sampling.latents import take

    return take(samples, batch_index, length)
