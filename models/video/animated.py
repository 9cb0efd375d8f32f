"""Clips to animated pictures: GIF and WebP, through Pillow, with the graph in their texts.

Each frame is handed to Pillow when it is asked for. GIF keeps 256 colours a frame and times in hundredths of a second,
WebP times in thousandths: where the rate does not fit, frame k begins at the nearest such time to k / fps, so
the length is right and nothing drifts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from PIL import ExifTags, Image

from pipegraph.models.pictures import to_8_bit

from .clip import Video

UNITS: Final = {"gif": 10, "webp": 1}
"""Milliseconds in which times are kept."""


def times(count: int, fps: Fraction, unit: int) -> list[int]:
    """How long each frame is shown, in milliseconds, in multiples of ``unit``, at least one."""
    places = [round(i / fps * 1000 / unit) for i in range(count + 1)]
    return [max(1, b - a) * unit for a, b in pairwise(places)]


def write_animation(path: Path, video: Video, kind: str, texts: Mapping[str, str], **options: Any) -> list[int]:
    """Write a clip as ``gif`` or ``webp``; gives the frames that held NaN, which are black in the file.

    Args:
        path: The file to write.
        video: The clip.
        kind: Which of the two.
        texts: The graph, by key.
        options: More for Pillow: ``quality``, ``lossless``, ...
    """
    broken: list[int] = []
    pictures = _pictures(video, broken)
    first = next(pictures)
    lasting = times(video.frames.count, video.fps, UNITS[kind])
    shared = {"save_all": True, "append_images": pictures, "duration": lasting, "loop": 0}
    if kind == "webp":
        exif = Image.Exif()
        # ComfyUI puts the graph and the workflow into fields of this kind.
        for i, (key, value) in enumerate(texts.items()):
            exif[(ExifTags.Base.Model, ExifTags.Base.Make, ExifTags.Base.ImageDescription)[i]] = f"{key}:{value}"
        first.save(path, "WEBP", exif=exif.tobytes(), **shared, **options)
    else:
        comment = "\n".join(f"{key}:{value}" for key, value in texts.items())
        first.save(path, "GIF", comment=comment.encode(), disposal=2, **shared, **options)
    return broken


def _pictures(video: Video, broken: list[int]) -> Iterator[Image.Image]:
    done = 0
    for part in video.frames.chunks():
        for picture in part:
            if not picture.isfinite().all():
                broken.append(done)
                picture = picture.nan_to_num(0, 0, 0)
            done += 1
            yield Image.fromarray(to_8_bit(picture))
