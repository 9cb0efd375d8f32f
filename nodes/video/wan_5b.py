"""Wan 2.2 5B: video latents, empty or with first frames."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, RunContext, Step, node

from ..ports import FRAME_HEIGHT, FRAME_WIDTH, VideoCount
from ..utils.amounts import latents
from ..wire import Image, Latent, Vae
from .latent import Length
from .wan import fit_frames

Width = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("width"), FRAME_WIDTH]
Height = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("height"), FRAME_HEIGHT]


@node("Wan22ImageToVideoLatent", category="conditioning/inpaint", size=latents(48, 16, 4))
def wan22_image_to_video_latent(
    vae: Vae,
    ctx: RunContext,
    width: Width = 1280,
    height: Height = 704,
    length: Length = 49,
    batch_size: VideoCount = 1,
    start_image: Image | None = None,
) -> Latent:
    """Make a video latent for Wan 2.2 5B and the shipped model: empty, or with fixed first frames.

    Args:
        vae: The model's VAE (wan2.2_vae).
        start_image: First frames; scaled to cover the size and cropped at the centre. 4n + 1 images are used.
    """
    import torch

    facts = vae.latent
    if facts.frames != 4:
        raise ValueError("this is no VAE of Wan (4 frames per latent frame): load wan2.2_vae")
    cells = height // facts.downscale, width // facts.downscale
    empty = torch.zeros(batch_size, facts.channels, (length - 1) // 4 + 1, *cells)
    if start_image is None:
        return {"samples": empty}
    start = vae.encode(fit_frames(start_image, width, height, length, ctx), ctx.warn)
    samples = facts.process_out(empty)  # frames without an image are 0 to the network
    samples[:, :, : start.shape[2]] = start
    mask = torch.ones(1, 1, *empty.shape[2:])
    mask[:, :, : start.shape[2]] = 0
    latent: dict[str, Any] = {"samples": samples, "noise_mask": mask}
    return latent
