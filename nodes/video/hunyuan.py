"""HunyuanVideo 1.5: latents of 16 pixels a cell, and clips that begin with a given picture."""

from __future__ import annotations

from typing import Any

from pipegraph.runtime.node import RunContext, node

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, StartImage, VideoCount
from ..utils.amounts import latents
from ..wire import ClipVisionOutput, Latent
from .latent import AnyHeight, AnyLength, AnyWidth, Height, Length, Width, cut_clip
from .wan import Begun, fitted, told_both


@node(
    "EmptyHunyuanVideo15Latent",
    category="latent/video",
    title="Empty HunyuanVideo 1.5 Latent",
    size=latents(32, 16, frames=4),
)
def empty_hunyuan_video_15_latent(
    ctx: RunContext,
    width: AnyWidth = 848,
    height: AnyHeight = 480,
    length: AnyLength = 25,
    batch_size: VideoCount = 1,
) -> Latent:
    """Make an empty latent of a clip for HunyuanVideo 1.5: nothing to start from but a size.

    Args:
        width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
        height: Of the frames, in pixels, likewise.
        length: How many frames: 1, 5, 9, ...; other numbers are cut, with a warning.
    """
    width, height, length = cut_clip(ctx, width, height, length)
    return {"samples": _empty(width, height, length, batch_size)}


@node("HunyuanVideo15ImageToVideo", category="conditioning/video_models", size=latents(32, 16, 4))
def hunyuan_video_15_image_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    ctx: RunContext,
    width: Width = 848,
    height: Height = 480,
    length: Length = 33,
    batch_size: VideoCount = 1,
    start_image: StartImage | None = None,
    clip_vision_output: ClipVisionOutput | None = None,
) -> Begun:
    """Let a clip begin with given pictures, for HunyuanVideo 1.5.

    Args:
        clip_vision_output: What SigLIP sees in the first picture; the image-to-video models were trained with it.
    """
    latent = _empty(width, height, length, batch_size)
    told: dict[str, Any] = {"clip_vision_output": clip_vision_output}
    if start_image is not None:
        given = vae.encode(fitted(start_image, width, height, length, ctx), ctx.warn)
        beside, mask = latent[:1].clone(), latent.new_ones(1, 1, *latent.shape[2:])
        beside[:, :, : given.shape[2]], mask[:, :, : given.shape[2]] = given, 0
        told |= {"concat_latent_image": beside, "concat_mask": mask}
    return Begun(*told_both(positive, negative, told), {"samples": latent})


def _empty(width: int, height: int, length: int, batch_size: int) -> Any:
    import torch

    return torch.zeros(batch_size, 32, (length - 1) // 4 + 1, height // 16, width // 16)
