"""Frames as integers for encoders: 8 or 16 bits per channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pipegraph.models.media.image_read import finite, to_levels

from .video import Frames
from .video_read import FileFrames

if TYPE_CHECKING:
    from numpy.typing import NDArray


def levels(frames: Frames, broken: list[int], *, deep: bool = False) -> Iterator[NDArray[Any]]:
    """Quantize each frame [H, W, 3 or 4] to uint8, or uint16 if ``deep``; clipped and rounded to nearest.

    Frames of a file that has as many bits come as they are stored: the detour over float32 would give the same.

    Args:
        frames: Where they come from.
        broken: Gets the numbers of those that hold NaN or infinite values, which become black there.
        deep: 16 bits in place of 8.
    """
    if isinstance(frames, FileFrames) and frames.deep == deep:
        yield from frames.stored()
        return
    done = 0
    for part in frames.chunks():
        for picture in part:
            if not finite(picture):
                broken.append(done)
                picture = picture.nan_to_num(0, 0, 0)
            yield to_levels(picture, np.uint16 if deep else np.uint8)
            done += 1
