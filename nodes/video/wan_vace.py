"""Wan VACE: control video, inpainting and reference images; trimming of video latents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, VideoCount
from ..utils.amounts import latents
from ..wire import Conditioning, Image, Latent, Mask
from .latent import Height, Length, Width
from .wan import conditioned, fit_frames, grey

if TYPE_CHECKING:
    from torch import Tensor

CELL = 8
"""Mask pixels per latent cell and side, packed as channels."""


@outputs
class Followed:
    """Conditionings with the control video, an empty latent, and how many of its first frames to trim."""

    positive: Conditioning
    negative: Conditioning
    latent: Latent
    trim_latent: int


@node("WanVaceToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_vace_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    ctx: RunContext,
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    batch_size: VideoCount = 1,
    strength: Annotated[float, Ge(0), Le(1000), Step(0.01)] = 1.0,
    control_video: Image | None = None,
    control_masks: Mask | None = None,
    reference_image: Image | None = None,
) -> Followed:
    """Follow a control video, inpaint it by a mask, or use reference images, for Wan VACE.

    Chained nodes apply together, each with its strength. They need the same size, length and number of reference
    images.

    Args:
        strength: Weight of the control; 0 turns it off.
        control_video: Frames, or their edges, depths or poses; missing frames at the end are free.
        control_masks: One mask per frame, 1 where to inpaint; without masks, everything.
        reference_image: Reference images. Each takes a latent frame before the video: trim as many with
            TrimVideoLatent.
    """
    import torch

    frames = grey(width, height, length)
    if control_video is not None:
        control = fit_frames(control_video, width, height, length, ctx)
        frames[: len(control)] = control
    mask = torch.ones(length, height, width)
    if control_masks is not None:
        masks = fit_frames(control_masks[..., None].expand(*control_masks.shape, 3), width, height, length, ctx)
        mask[: len(masks)] = masks[..., 0]
    # Middle grey is 0 to the VAE.
    masked = mask[..., None]
    inactive = vae.encode((frames - 0.5) * (1 - masked) + 0.5, ctx.warn)
    reactive = vae.encode((frames - 0.5) * masked + 0.5, ctx.warn)
    places = _by_cell(mask, inactive.shape[2])
    count = 0
    if reference_image is not None:
        images = fit_frames(reference_image, width, height, len(reference_image), ctx)
        references = torch.cat([vae.encode(image[None], ctx.warn) for image in images], 2)
        count = references.shape[2]
        inactive = torch.cat([references, inactive], 2)
        reactive = torch.cat([vae.latent.process_out(torch.zeros_like(references)), reactive], 2)
        places = torch.cat([torch.zeros_like(places[:, :, :1]).expand(-1, -1, count, -1, -1), places], 2)
    conditioning = conditioned(positive, negative, {}, vae, width, height, length + 4 * count, batch_size)
    extras = {"vace_inactive": inactive, "vace_reactive": reactive, "vace_mask": places, "vace_strength": strength}
    return Followed(
        _following(conditioning.positive, extras), _following(conditioning.negative, extras), conditioning.latent, count
    )


def _following(conditioning: list[Any], extras: dict[str, Any]) -> list[Any]:
    """Add a control video to a conditioning: entries are tuples with an item per video."""
    return [
        [states, {**entries, **{k: (*entries.get(k, ()), v) for k, v in extras.items()}}]
        for states, entries in conditioning
    ]


def _by_cell(mask: Tensor, cells: int) -> Tensor:
    """Pack a mask [frames, H, W] into channels of latent cells [1, 64, cells, H / 8, W / 8]; one of four frames."""
    import torch.nn.functional as F

    split = mask.unflatten(1, (-1, CELL)).unflatten(3, (-1, CELL)).permute(2, 4, 0, 1, 3).flatten(0, 1)
    return F.interpolate(split[None], (cells, *split.shape[2:]), mode="nearest-exact")


@node("TrimVideoLatent", category="latent/video", title="Trim Video Latent")
def trim_video_latent(samples: Latent, trim_amount: Annotated[int, Ge(0), Le(99999)] = 0) -> Latent:
    """Trim latent frames from the start of a video latent.

    Args:
        samples: The latent.
        trim_amount: Number of latent frames: the first holds one video frame, each other four.
    """
    latent: dict[str, Any] = dict(samples)
    for name in ("samples", "noise_mask"):
        if (value := latent.get(name)) is not None and value.ndim == 5:
            if trim_amount >= value.shape[2]:
                raise ValueError(f"the latent has {value.shape[2]} latent frames: {trim_amount} cannot be trimmed")
            latent[name] = value[:, :, trim_amount:]
    return latent
