"""Clips of Wan 2.2's 5B model: its latents, which begin with given pictures."""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, RunContext, Step, node

from ..ports import FRAME_SIDE, VideoCount
from ..utils.amounts import latents
from ..wire import Image, Latent, Vae
from .latent import Length
from .wan import fitted

Width = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("width"), FRAME_SIDE]
Height = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("height"), FRAME_SIDE]


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
    """Make the latent of a clip for Wan 2.2 5B and the shipped model: empty, or with first frames that it keeps.

    Args:
        vae: The model's VAE (wan2.2_vae).
        start_image: The first frames; scaled to cover the size and cut at the centre. Of more than one, 4n + 1 count.
    """
    import torch

    facts = vae.latent
    if facts.frames != 4:
        raise ValueError("this VAE is of no Wan model, whose latent frames stand for 4 of the clip: load wan2.2_vae")
    cells = height // facts.downscale, width // facts.downscale
    empty = torch.zeros(batch_size, facts.channels, (length - 1) // 4 + 1, *cells)
    if start_image is None:
        return {"samples": empty}
    start = vae.encode(fitted(start_image, width, height, length, ctx), ctx.warn)
    samples = facts.process_out(empty)  # what is not given is 0 to the network
    samples[:, :, : start.shape[2]] = start
    mask = torch.ones(1, 1, *empty.shape[2:])
    mask[:, :, : start.shape[2]] = 0
    latent: dict[str, Any] = {"samples": samples, "noise_mask": mask}
    return latent
