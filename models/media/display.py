"""Display metadata of video files: rotation, mirroring, cropping, and what is not applied."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pipegraph.containers import EBML, SEGMENT, Part, Source, boxes, elements, inside

_TRACKS, _TRACK, _VIDEO = b"\x16\x54\xae\x6b", b"\xae", b"\xe0"
_CROPS: Final = {b"\x54\xcc": 0, b"\x54\xbb": 1, b"\x54\xdd": 2, b"\x54\xaa": 3}
"""Elements of Matroska (RFC 9559): PixelCropLeft, -Top, -Right, -Bottom."""
_SAMPLE_ENTRY: Final = 78
"""Bytes of a video sample entry before its boxes (ISO 14496-12, 12.1.3)."""
_HDR: Final = {16: "PQ", 18: "HLG"}
"""HDR transfer characteristics (ITU-T H.273)."""
_SLANT: Final = 0.01
"""Sine of the smallest rotation that counts as one."""


class Margins(NamedTuple):
    """Pixels to crop at the edges."""

    left: int = 0
    top: int = 0
    right: int = 0
    bottom: int = 0


def margins(path: Path, width: int, height: int) -> Margins:
    """The crop by MP4's clean aperture or Matroska's PixelCrop for frames of a size."""
    with path.open("rb") as file:
        source = Source(file)
        whole = Part(b"", 0, source.size)
        cut = _pixel_crop(source, whole) if source.read(0, 4) == EBML else _clean_aperture(source, whole, width, height)
    fits = min(cut) >= 0 and cut.left + cut.right < width and cut.top + cut.bottom < height
    return cut if fits else Margins()


def _pixel_crop(source: Source, whole: Part) -> Margins:
    for video in inside(elements, source, whole, SEGMENT, _TRACKS, _TRACK, _VIDEO):
        cut = [0, 0, 0, 0]
        for part in elements(source, video.start, video.stop):
            if part.kind in _CROPS:
                cut[_CROPS[part.kind]] = source.number(part.start, part.stop - part.start)
        return Margins(*cut)
    return Margins()


def _clean_aperture(source: Source, whole: Part, width: int, height: int) -> Margins:
    """The clap box of the first video track: width, height and centre offset, as fractions."""
    for entries in inside(boxes, source, whole, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd"):
        for entry in boxes(source, entries.start + 8, entries.stop):
            for box in boxes(source, entry.start + _SAMPLE_ENTRY, entry.stop):
                if box.kind == b"clap" and len(data := source.read(box.start, 32)) == 32:
                    return _margins_of_clap(struct.unpack(">8i", data), width, height)
    return Margins()


def _margins_of_clap(clap: tuple[int, ...], width: int, height: int) -> Margins:
    if not all(clap[1::2]):
        return Margins()
    wide, high, right, down = (a / b for a, b in zip(clap[::2], clap[1::2], strict=True))
    left, top = round((width - wide) / 2 + right), round((height - high) / 2 + down)
    return Margins(left, top, width - left - round(wide), height - top - round(high))


def orientation(frame: Any) -> tuple[int, str]:
    """EXIF orientation (1 to 8) for a decoded frame, and a warning if the file's rotation cannot be applied.

    The display matrix maps a stored pixel (p, q) to (a p + c q + x, b p + d q + y), q and y counted downwards.
    """
    data = _side_data(frame, "DISPLAYMATRIX")
    if data is None or len(data) < 36:
        return 1, ""
    a, b, _, c, d, _, *_ = struct.unpack("=9i", data[:36])
    straight, across = max(abs(a), abs(d)), max(abs(b), abs(c))
    slanted = min(straight, across) > _SLANT * max(straight, across, 1)
    warning = (
        "its pictures are turned by an angle that is not a quarter turn: the nearest one is taken" if slanted else ""
    )
    if straight >= across:
        return {(False, False): 1, (True, False): 2, (True, True): 3, (False, True): 4}[a < 0, d < 0], warning
    return {(False, False): 5, (True, False): 6, (True, True): 7, (False, True): 8}[c < 0, b < 0], warning


def not_applied(stream: Any, frame: Any, sounds: int) -> Iterator[str]:
    """Sentences on display and sound metadata that is not applied."""
    ratio = stream.sample_aspect_ratio
    if ratio and ratio > 0 and ratio != 1:
        yield (
            f"its pixels are not square: frames of {frame.width}x{frame.height} are meant to be shown at "
            f"{round(frame.width * ratio)}x{frame.height}; they are not scaled"
        )
    if frame.interlaced_frame:
        yield "its frames are interlaced: the lines of both fields stay in one picture"
    if frame.color_trc in _HDR:
        yield f"its brightness is HDR ({_HDR[frame.color_trc]}): values are taken as they are, without tone mapping"
    if _side_data(frame, "STEREO3D") is not None:
        yield "its frames hold views for two eyes: they stay as they are stored"
    if sounds > 1:
        yield f"the first of its {sounds} sound tracks is used"


def _side_data(frame: Any, name: str) -> bytes | None:
    """Side data of a kind on a decoded frame; None for kinds unknown to PyAV."""
    for side in frame.side_data:
        try:
            if side.type.name == name:
                return bytes(side)
        except ValueError:
            continue
    return None
