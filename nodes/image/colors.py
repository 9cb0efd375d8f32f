"""Blend images, and match their colors."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc, Step, Under, node, outputs

from ..wire import Image

Color = Annotated[str, Doc("Color as #rrggbb or #rrggbbaa.")]


@outputs
class PickedColor:
    """A color as a number, as text, and its opacity."""

    rgb_int: int
    hex: str
    alpha: float


@node("ImageBlend", category="image/postprocessing")
def image_blend(
    image1: Image,
    image2: Image,
    blend_factor: Annotated[float, Ge(0), Le(1), Step(0.01)] = 0.5,
    blend_mode: Literal["normal", "multiply", "screen", "overlay", "soft_light", "difference"] = "normal",
) -> Image:
    """Blend two images. The second one is scaled (bicubic) and cut at the center to the size of the first.

    Args:
        image1: Image below.
        image2: Image above.
        blend_factor: Opacity of the result on the image below.
        blend_mode: How both are combined, as in W3C's compositing; difference is the image below less the one above.
    """
    import torch

    from pipegraph.models.media.image_ops import match_channels, resize

    image2 = resize(match_channels(image2, image1), image1.shape[2], image1.shape[1], "bicubic", "center")
    image1 = match_channels(image1, image2)
    a, b = torch.broadcast_tensors(image1, image2) if 1 in (len(image1), len(image2)) else (image1, image2)
    if blend_mode == "normal":
        blended = b
    elif blend_mode == "multiply":
        blended = a * b
    elif blend_mode == "screen":
        blended = a + b - a * b
    elif blend_mode == "overlay":
        blended = torch.where(a <= 0.5, 2 * a * b, 1 - 2 * (1 - a) * (1 - b))
    elif blend_mode == "soft_light":
        curve = torch.where(a <= 0.25, ((16 * a - 12) * a + 4) * a, a.clamp_min(0).sqrt())
        blended = torch.where(b <= 0.5, a - (1 - 2 * b) * a * (1 - a), a + (2 * b - 1) * (curve - a))
    else:
        blended = a - b
    return torch.lerp(a, blended, blend_factor).clamp(0, 1)


@node("ColorTransfer", category="image/postprocessing", output="image")
def color_transfer(
    image_target: Image,
    image_ref: Image | None = None,
    method: Literal["reinhard_lab", "mkl_lab", "histogram"] = "reinhard_lab",
    source_stats: Literal["per_frame", "uniform", "target_frame"] = "per_frame",
    target_index: Annotated[int, Ge(0), Le(10000), Under("source_stats", "target_frame")] = 0,
    strength: Annotated[float, Ge(0), Le(10), Step(0.01)] = 1.0,
) -> Image:
    """Give images the colors of reference images; transparency stays.

    Args:
        image_target: Images to change.
        image_ref: Images with the wanted colors; if missing, nothing changes.
        method: reinhard_lab: mean and deviation in L*a*b*; mkl_lab: mean and covariance; histogram: levels of R, G, B.
        source_stats: per_frame matches each image alone, to its own reference image; uniform changes all alike, by the
            statistics of all; target_frame changes all alike, by those of one.
        target_index: Which one.
        strength: 0 changes nothing, 1 takes all of the colors.
    """
    import torch

    from pipegraph.models.media.color_match import matched

    if image_ref is None or not strength:
        return image_target
    if min(image_target.shape[-1], image_ref.shape[-1]) < 3:
        raise ValueError("gray images have no colors to transfer: images of 3 or 4 channels are wanted")
    colors, reference = image_target[..., :3], image_ref[..., :3]
    source = None
    if source_stats != "per_frame":
        at = min(target_index, len(colors) - 1)
        source = colors if source_stats == "uniform" else colors[at : at + 1]
    return torch.cat([matched(colors, reference, method, source, strength), image_target[..., 3:]], -1)


@node("ColorToRGBInt", category="utils", title="Color Picker")
def color_to_rgb_int(color: Color) -> PickedColor:
    """Give a color as the number 0xRRGGBB, as EmptyImage takes it."""
    if not re.fullmatch(r"#[0-9a-fA-F]{6}([0-9a-fA-F]{2})?", color):
        raise ValueError(f"a color is written as #rrggbb or #rrggbbaa, got {color!r}")
    return PickedColor(int(color[1:7], 16), color[:7], int(color[7:] or "ff", 16) / 255)
