"""Batch images, and stitch two images together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Grows, Step, Wire, node

from ..wire import Image

if TYPE_CHECKING:
    from torch import Tensor

Images = Annotated[Mapping[str, Any], Wire("IMAGE"), Grows(tuple(f"image{i}" for i in range(50)))]
Direction = Literal["right", "down", "left", "up"]
_COLOURS: Final = {"white": (1, 1, 1), "black": (0, 0, 0), "red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}


@node("BatchImagesNode", category="image", title="Batch Images")
def batch_images(*, images: Images) -> Image:
    """Put batches of images into one, in the order of their numbers.

    All are scaled (bilinear) and cropped at the centre to the size of the first. If any has alpha, the others become
    opaque.

    Args:
        images: The batches: `images.image0`, `images.image1`, ...
    """
    import torch

    from pipegraph.models.media.image_ops import match_channels, resize

    if not images:
        raise ValueError("no images: connect images.image0, images.image1, ...")
    batches = [images[name] for name in sorted(images, key=lambda name: int(name.removeprefix("image")))]
    widest = max(batches, key=lambda batch: batch.shape[-1])
    height, width = batches[0].shape[1:3]
    return torch.cat([resize(match_channels(b, widest), width, height, "bilinear", "center") for b in batches])


@node("ImageStitch", category="image/transform", title="Image Stitch")
def image_stitch(
    image1: Image,
    direction: Direction = "right",
    match_image_size: bool = True,
    spacing_width: Annotated[int, Ge(0), Le(1024), Step(2)] = 0,
    spacing_color: Literal["white", "black", "red", "green", "blue"] = "white",
    image2: Image | None = None,
) -> Image:
    """Put two images side by side, or one above the other.

    The shorter batch repeats its last image. If only one has alpha, the other becomes opaque.

    Args:
        image1: First image.
        direction: Side of the first image at which the second one is put.
        match_image_size: Scale the second image (Lanczos) to the same height, or for up and down to the same width;
            else the smaller image is centred on the colour of the gap.
        spacing_width: Width of the gap in pixels; odd widths are rounded up.
        spacing_color: Colour of the gap.
        image2: Second image; without it the first is returned.
    """
    import torch

    from pipegraph.models.media.image_ops import match_channels, resize

    if image2 is None:
        return image1
    # along: the axis of concatenation, 1 (rows) or 2 (columns).
    along = 2 if direction in ("left", "right") else 1
    across = 3 - along
    wider = image1 if image1.shape[-1] >= image2.shape[-1] else image2
    first, second = match_channels(image1, wider), match_channels(image2, wider)
    if match_image_size:
        size = {across: first.shape[across]}
        size[along] = max(1, second.shape[along] * first.shape[across] // second.shape[across])
        second = resize(second, size[2], size[1], "lanczos")
    count = max(len(first), len(second))
    first, second = (torch.cat([i, i[-1:].expand(count - len(i), -1, -1, -1)]) for i in (first, second))
    colour = first.new_tensor((*_COLOURS[spacing_color], 1))[: first.shape[-1]]
    longest = max(first.shape[across], second.shape[across])
    first, second = (_in_the_middle(i, across, longest, colour) for i in (first, second))
    shape = [*first.shape]
    shape[along] = spacing_width + spacing_width % 2
    row = (first, colour.expand(shape), second)
    return torch.cat(row if direction in ("right", "down") else row[::-1], along)


def _in_the_middle(image: Tensor, axis: int, length: int, colour: Tensor) -> Tensor:
    """Pad images [B, H, W, C] to ``length`` along an axis, with a colour on both sides."""
    import torch

    shape, lacks = [*image.shape], length - image.shape[axis]
    sides = []
    for size in (lacks // 2, lacks - lacks // 2):
        shape[axis] = size
        sides.append(colour.expand(shape))
    return torch.cat([sides[0], image, sides[1]], axis)
