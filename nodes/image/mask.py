"""Make, convert and combine masks. MASK is [B, H, W] in 0..1."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import NodeEvent, RunContext, Step, node

from ..utils.amounts import pictures
from ..wire import Image, Mask
from .edit import ImageAndMask, Pixels, Position
from .files import write_pictures


@node("SolidMask", category="mask", size=pictures(channels=1))
def solid_mask(
    value: Annotated[float, Ge(0), Le(1), Step(0.01)] = 1.0, width: Pixels = 512, height: Pixels = 512
) -> Mask:
    """Make a mask of one value.

    Args:
        value: The value.
        width: Width in pixels.
        height: Height in pixels.
    """
    import torch

    return torch.full((1, height, width), value)


@node("InvertMask", category="mask")
def invert_mask(mask: Mask) -> Mask:
    """Invert a mask.

    Args:
        mask: Mask to invert.
    """
    return 1 - mask


@node("MaskToImage", category="mask")
def mask_to_image(mask: Mask) -> Image:
    """Show a mask as a gray RGB image.

    Args:
        mask: White where it is 1.
    """
    return mask.unsqueeze(-1).repeat(1, 1, 1, 3)


@node("ImageToMask", category="mask")
def image_to_mask(image: Image, channel: Literal["red", "green", "blue", "alpha"] = "red") -> Mask:
    """Take one channel of images as a mask, as it is.

    Args:
        image: The images.
        channel: The channel; alpha needs an RGBA image (LoadImage outputs alpha as MASK).
    """
    index = ("red", "green", "blue", "alpha").index(channel)
    if index >= image.shape[-1]:
        raise ValueError(
            f"the image has no {channel} channel, it has {image.shape[-1]}; LoadImage gives transparency as MASK"
        )
    return image[..., index].contiguous()


@node("JoinImageWithAlpha", category="mask/compositing")
def join_image_with_alpha(image: Image, alpha: Mask) -> Image:
    """Make images transparent where a mask is 1.

    The shorter batch is repeated to the length of the longer one.

    Args:
        image: Colours.
        alpha: 1 where transparent, as LoadImage's MASK; scaled to the image's size.
    """
    import torch

    from pipegraph.models.media.image_ops import repeat_to, resize_mask

    count = max(len(image), len(alpha))
    opacity = 1 - repeat_to(resize_mask(alpha, image.shape[2], image.shape[1]), count)
    return torch.cat([repeat_to(image, count)[..., :3], opacity.to(image).unsqueeze(-1)], -1)


@node("SplitImageWithAlpha", category="mask/compositing")
def split_image_with_alpha(image: Image) -> ImageAndMask:
    """Split images into colours and a mask that is 1 where they are transparent.

    Args:
        image: RGBA images; RGB ones give a mask of 0.
    """
    import torch

    clear = 1 - image[..., 3] if image.shape[-1] > 3 else torch.zeros(image.shape[:3])
    return ImageAndMask(image[..., :3].contiguous(), clear)


@node("GrowMask", category="mask")
def grow_mask(mask: Mask, expand: Annotated[int, Ge(-16384), Le(16384)] = 0, tapered_corners: bool = True) -> Mask:
    """Make a mask larger or smaller by whole pixels.

    Args:
        mask: Mask to grow.
        expand: Pixels to grow by; a negative number shrinks.
        tapered_corners: Grow to a diamond instead of a square.
    """
    from pipegraph.models.media.image_ops import grow_mask as grow

    return grow(mask, expand, tapered_corners)


@node("MaskComposite", category="mask")
def mask_composite(
    destination: Mask,
    source: Mask,
    x: Position = 0,
    y: Position = 0,
    operation: Literal["multiply", "add", "subtract", "and", "or", "xor"] = "multiply",
) -> Mask:
    """Combine two masks.

    Args:
        destination: First mask; sets the size.
        source: Second mask, cut at the border.
        x: Column of the source's left edge.
        y: Row of the source's top edge.
        operation: Operation per pixel; and, or, xor round to 0 or 1 first.
    """
    from pipegraph.models.media.image_ops import combine_masks

    return combine_masks(destination, source, x, y, operation)


@node("MaskPreview", category="mask", effect="writes", output_node=True, output="mask")
def mask_preview(mask: Mask, ctx: RunContext) -> Generator[NodeEvent, None, Mask]:
    """Preview a mask: it is saved in the folder of temporary files.

    Args:
        mask: Mask to show.
    """
    yield from write_pictures(mask.unsqueeze(-1), ctx, "mask", temporary=True)
    return mask
