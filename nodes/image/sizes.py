"""Sizes of images."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Step, node, outputs

Aspect = Literal[
    "1:1 (Square)",
    "3:2 (Photo)",
    "4:3 (Standard)",
    "16:9 (Widescreen)",
    "21:9 (Ultrawide)",
    "2:3 (Portrait Photo)",
    "3:4 (Portrait Standard)",
    "9:16 (Portrait Widescreen)",
]


@outputs
class Size:
    """Width and height in pixels."""

    width: int
    height: int


@node("ResolutionSelector", category="utils", title="Resolution Selector")
def resolution_selector(
    aspect_ratio: Aspect = "1:1 (Square)",
    megapixels: Annotated[float, Ge(0.1), Le(16), Step(0.1)] = 1.0,
    multiple: Annotated[int, Ge(1), Le(512), Step(8)] = 8,
) -> Size:
    """Compute width and height from aspect ratio and pixel count.

    Args:
        aspect_ratio: Width to height.
        megapixels: Pixels in units of 1024 * 1024, approximately.
        multiple: Both sides are rounded to multiples of it.
    """
    wide, high = (int(n) for n in aspect_ratio.split(" ")[0].split(":"))
    scale = math.sqrt(megapixels * 1024**2 / (wide * high))
    width, height = (max(multiple, round(n * scale / multiple) * multiple) for n in (wide, high))
    return Size(width, height)
