"""HunyuanVideo 1.5: latents of 16 pixels per cell, and image to video."""

from __future__ import annotations

from typing import Any

from pipegraph.runtime.node import RunContext, node

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, StartImage, VideoCount
from ..utils.amounts import latents
from ..wire import ClipVisionOutput, Latent
from .latent import AnyHeight, AnyLength, AnyWidth, Height, Length, Width, cut_video
from .wan import VideoConditioning, fit_frames, with_entries


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
    """Make an empty video latent for HunyuanVideo 1.5.

    Args:
        width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
        height: Frame height in pixels, likewise.
        length: Number of frames: 1, 5, 9, ...; other numbers are rounded down, with a warning.
    """
    width, height, length = cut_video(ctx, width, height, length)
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
) -> VideoConditioning:
    """Start a video with images, for HunyuanVideo 1.5.

    Args:
        clip_vision_output: SigLIP output of the first image; image-to-video models were trained with it.
    """
    latent = _empty(width, height, length, batch_size)
    extras: dict[str, Any] = {"clip_vision_output": clip_vision_output}
    if start_image is not None:
        start = vae.encode(fit_frames(start_image, width, height, length, ctx), ctx.warn)
        concat, mask = latent[:1].clone(), latent.new_ones(1, 1, *latent.shape[2:])
        concat[:, :, : start.shape[2]], mask[:, :, : start.shape[2]] = start, 0
        extras |= {"concat_latent_image": concat, "concat_mask": mask}
    return VideoConditioning(*with_entries(positive, negative, extras), {"samples": latent})


def _empty(width: int, height: int, length: int, batch_size: int) -> Any:
    import torch

    return torch.zeros(batch_size, 32, (length - 1) // 4 + 1, height // 16, width // 16)
