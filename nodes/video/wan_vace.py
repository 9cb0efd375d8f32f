"""Wan VACE: clips that follow another one, repaint parts of it, or show what is in pictures; cut latents of clips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, VideoCount
from ..utils.amounts import latents
from ..wire import Conditioning, Image, Latent, Mask
from .latent import Height, Length, Width
from .wan import begun, fitted, grey

if TYPE_CHECKING:
    from torch import Tensor

CELL = 8
"""Pixels of the mask that a latent cell holds as channels, across and down."""


@outputs
class Followed:
    """Conditionings that know what to follow, an empty latent, and how many of its first frames to cut off."""

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
    """Let a clip follow another one, repaint it where a mask says so, or show what is in pictures, for Wan VACE.

    Several in a row: all are followed at once, each by its strength. They want the same size and length, and the same
    number of pictures.

    Args:
        strength: How closely what is given is followed; 0 is not at all.
        control_video: The clip: its frames, or their edges, depths or poses; what lacks to the length is made freely.
        control_masks: 1 where the clip's frames are painted anew, one for each frame; all of it if there is none.
        reference_image: What is to be seen, a picture each. Each takes a latent frame before the clip: cut as many off
            by TrimVideoLatent.
    """
    import torch

    frames = grey(width, height, length)
    if control_video is not None:
        given = fitted(control_video, width, height, length, ctx)
        frames[: len(given)] = given
    mask = torch.ones(length, height, width)
    if control_masks is not None:
        masks = fitted(control_masks[..., None].expand(*control_masks.shape, 3), width, height, length, ctx)
        mask[: len(masks)] = masks[..., 0]
    # Middle grey is 0 to the VAE.
    shown = mask[..., None]
    kept = vae.encode((frames - 0.5) * (1 - shown) + 0.5, ctx.warn)
    painted = vae.encode((frames - 0.5) * shown + 0.5, ctx.warn)
    places = _by_cell(mask, kept.shape[2])
    count = 0
    if reference_image is not None:
        pictures = fitted(reference_image, width, height, len(reference_image), ctx)
        seen = torch.cat([vae.encode(picture[None], ctx.warn) for picture in pictures], 2)
        count = seen.shape[2]
        kept = torch.cat([seen, kept], 2)
        painted = torch.cat([vae.latent.process_out(torch.zeros_like(seen)), painted], 2)
        places = torch.cat([torch.zeros_like(places[:, :, :1]).expand(-1, -1, count, -1, -1), places], 2)
    made = begun(positive, negative, {}, vae, width, height, length + 4 * count, batch_size)
    extras = {"vace_inactive": kept, "vace_reactive": painted, "vace_mask": places, "vace_strength": strength}
    return Followed(_following(made.positive, extras), _following(made.negative, extras), made.latent, count)


def _following(conditioning: list[Any], extras: dict[str, Any]) -> list[Any]:
    """A conditioning that follows one clip more: its entries are tuples, an item for each."""
    return [
        [states, {**entries, **{k: (*entries.get(k, ()), v) for k, v in extras.items()}}]
        for states, entries in conditioning
    ]


def _by_cell(mask: Tensor, cells: int) -> Tensor:
    """A mask [frames, H, W] as channels of latent cells, [1, 64, cells, H / 8, W / 8]; of each four frames one."""
    import torch.nn.functional as F

    split = mask.unflatten(1, (-1, CELL)).unflatten(3, (-1, CELL)).permute(2, 4, 0, 1, 3).flatten(0, 1)
    return F.interpolate(split[None], (cells, *split.shape[2:]), mode="nearest-exact")


@node("TrimVideoLatent", category="latent/video", title="Trim Video Latent")
def trim_video_latent(samples: Latent, trim_amount: Annotated[int, Ge(0), Le(99999)] = 0) -> Latent:
    """Cut latent frames off the beginning of a clip's latent.

    Args:
        samples: The latent.
        trim_amount: How many latent frames: the first holds one frame, each other one four.
    """
    found: dict[str, Any] = dict(samples)
    for name in ("samples", "noise_mask"):
        if (value := found.get(name)) is not None and value.ndim == 5:
            if trim_amount >= value.shape[2]:
                raise ValueError(f"the latent has {value.shape[2]} latent frames: {trim_amount} cannot be cut off")
            found[name] = value[:, :, trim_amount:]
    return found
