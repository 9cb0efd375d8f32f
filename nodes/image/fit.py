"""Resize images to sizes that a model wants."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import node

from ..utils.amounts import pictures
from ..wire import Image

Side = Annotated[int, Ge(1), Le(16384)]
KONTEXT_SIZES: Final = (
    *((672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104)),
    *((1024, 1024), (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688)),
    (1568, 672),
)
"""Widths and heights that FLUX.1 Kontext was trained on."""


@node("FluxKontextImageScale", category="conditioning/flux")
def flux_kontext_image_scale(image: Image) -> Image:
    """Scale images (Lanczos) to the size of about one megapixel that FLUX.1 Kontext knows and whose shape is nearest.

    Args:
        image: Images to scale; cut at the center to the new shape.
    """
    from pipegraph.models.media.image_ops import resize

    shape = image.shape[2] / image.shape[1]
    width, height = min(KONTEXT_SIZES, key=lambda size: abs(shape - size[0] / size[1]))
    return resize(image, width, height, "lanczos", "center")


@node("ResizeAndPadImage", category="image/transform", size=pictures())
def resize_and_pad_image(
    image: Image,
    target_width: Side = 512,
    target_height: Side = 512,
    padding_color: Literal["white", "black"] = "white",
    interpolation: Literal["area", "bicubic", "nearest-exact", "bilinear", "lanczos"] = "area",
) -> Image:
    """Scale images to fit into a size, and fill the rest with a color on both sides.

    Args:
        image: Images to scale; their aspect ratio is kept.
        target_width: Width of the result in pixels.
        target_height: Height of the result in pixels.
        padding_color: Color of the rest; transparency becomes opaque there with white, transparent with black.
        interpolation: How new pixels are made of old ones.
    """
    from pipegraph.models.media.image_ops import resize

    height, width = image.shape[1:3]
    factor = min(target_width / width, target_height / height)
    wide, high = max(1, int(width * factor)), max(1, int(height * factor))
    padded = image.new_full((len(image), target_height, target_width, image.shape[-1]), float(padding_color == "white"))
    x, y = (target_width - wide) // 2, (target_height - high) // 2
    padded[:, y : y + high, x : x + wide] = resize(image, wide, high, interpolation)
    return padded
