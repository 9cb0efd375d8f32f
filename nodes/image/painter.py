"""Images that were painted in an editor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.models.media.check import picture_fault
from pipegraph.runtime.node import FileInput, RunContext, Step, node

from ..wire import Image
from .colors import Color, color_to_rgb_int
from .edit import ImageAndMask
from .files import _names, input_file

CanvasSide = Annotated[int, Ge(64), Le(4096), Step(64)]


def _find(name: str) -> list[Path]:
    return [input_file(name)] if name.strip() else []


Painting = Annotated[str, FileInput(_find, _names, picture_fault)]


@node("Painter", category="image", ignores="bg_color_again")  # some editors keep the color twice, without names
def painter(
    ctx: RunContext,
    image: Image | None = None,
    mask: Painting = "",
    width: CanvasSide = 512,
    height: CanvasSide = 512,
    bg_color: Color = "#000000",
) -> ImageAndMask:
    """Put what was painted in an editor on an image, with a mask of where it is.

    Args:
        image: Image below; of a batch the first. If missing, a canvas of one color.
        mask: Name of a file among the inputs with the painting, transparent elsewhere; empty is none.
        width: Width of the canvas in pixels.
        height: Height of the canvas in pixels.
        bg_color: Color of the canvas.
    """
    import torch

    from pipegraph.models.media.image_ops import match_channels, resize
    from pipegraph.models.media.image_read import read_picture

    if image is None:
        rgb = color_to_rgb_int(bg_color).rgb_int
        color = torch.tensor([rgb >> 16 & 255, rgb >> 8 & 255, rgb & 255]) / 255
        base = color.expand(1, height, width, 3).contiguous()
    else:
        base = match_channels(image[:1], image.new_zeros(1, 1, 1, 3))[..., :3]
    if not mask.strip():
        return ImageAndMask(base, base.new_zeros(base.shape[:3]))
    colors, clear = read_picture(input_file(mask), ctx.warn)
    painting = torch.cat([colors[:1], 1 - clear[:1, ..., None]], -1)
    painting = resize(painting, base.shape[2], base.shape[1], "lanczos")
    colors, alpha = painting[..., :3], painting[..., 3:]
    return ImageAndMask(torch.lerp(base, colors, alpha), alpha[..., 0].contiguous())
