"""Writes videos as animated GIF or WebP through Pillow, with the graph as metadata.

Each frame is handed to Pillow when it is asked for. GIF keeps 256 colours a frame and times in hundredths of a second,
WebP times in thousandths: where the rate does not fit, frame k begins at the nearest such time to k / fps, so
the length is right and nothing drifts.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import ExifTags, Image

from .levels import levels
from .video import Video

UNITS: Final = {"gif": 10, "webp": 1}
"""Time resolution in milliseconds."""


def times(count: int, fps: Fraction, unit: int) -> list[int]:
    """Duration of each frame in milliseconds, a multiple of ``unit``, at least one."""
    places = [round(i / fps * 1000 / unit) for i in range(count + 1)]
    return [max(1, b - a) * unit for a, b in pairwise(places)]


def write_animation(path: Path, video: Video, kind: str, texts: Mapping[str, str], **options: Any) -> list[int]:
    """Write a video as ``gif`` or ``webp``; returns the numbers of frames with NaN, which are black in the file.

    Args:
        path: The file to write.
        video: The video.
        kind: Which of the two.
        texts: The graph, by key.
        options: More for Pillow: ``quality``, ``lossless``, ...
    """
    broken: list[int] = []
    pictures = (Image.fromarray(np.ascontiguousarray(values)) for values in levels(video.frames, broken))
    first = next(pictures)
    lasting = times(video.frames.count, video.fps, UNITS[kind])
    shared = {"save_all": True, "append_images": pictures, "duration": lasting, "loop": 0}
    if kind == "webp":
        exif = Image.Exif()
        # ComfyUI puts the graph and the workflow into fields of this kind.
        for i, (key, value) in enumerate(texts.items()):
            exif[(ExifTags.Base.Model, ExifTags.Base.Make, ExifTags.Base.ImageDescription)[i]] = f"{key}:{value}"
        first.save(path, "WEBP", exif=exif.tobytes(), **shared, **options)
        if video.frames.count == 1:
            path.write_bytes(_animation_of_one(path.read_bytes(), first.size, lasting[0]))
    else:
        comment = "\n".join(f"{key}:{value}" for key, value in texts.items())
        first.save(path, "GIF", comment=comment.encode(), disposal=2, **shared, **options)
    return broken


def _animation_of_one(still: bytes, size: tuple[int, int], milliseconds: int) -> bytes:
    """A single-image WebP as an animation with a frame duration (WebP container specification)."""
    parts: dict[bytes, bytes] = {}
    at = 12
    while at < len(still):
        length = int.from_bytes(still[at + 4 : at + 8], "little")
        parts[still[at : at + 4]] = still[at + 8 : at + 8 + length]
        at += 8 + length + length % 2
    extended = parts.pop(b"VP8X", bytes(4) + _three(size[0] - 1) + _three(size[1] - 1))
    flags = extended[0] | 0x02
    inner = b"".join(_chunk(kind, parts.pop(kind)) for kind in (b"ALPH", b"VP8 ", b"VP8L") if kind in parts)
    place = _three(0) + _three(0) + _three(size[0] - 1) + _three(size[1] - 1) + _three(milliseconds) + b"\x02"
    body = _chunk(b"VP8X", bytes([flags]) + extended[1:]) + _chunk(b"ANIM", bytes(4) + bytes(2))
    body += _chunk(b"ANMF", place + inner) + b"".join(_chunk(*part) for part in parts.items())
    return b"RIFF" + (4 + len(body)).to_bytes(4, "little") + b"WEBP" + body


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return kind + len(data).to_bytes(4, "little") + data + bytes(len(data) % 2)
