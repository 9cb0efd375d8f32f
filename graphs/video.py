"""The graph inside a video: metadata of MP4, QuickTime, Matroska, WebM and GIF. Standard library only.

The keys are those of pictures (``picture.py``): ``prompt``, ``workflow``, ``pipegraph``. Frames are skipped, so long
files cost nothing.
"""

from __future__ import annotations

from typing import BinaryIO, Final

from pipegraph.containers import EBML, SEGMENT, Part, Source, boxes, elements, gif_data, gif_parts, inside

from .texts import Texts

_TAGS, _TAG, _SIMPLE, _NAME, _STRING = b"\x12\x54\xc3\x67", b"\x73\x73", b"\x67\xc8", b"\x45\xa3", b"\x44\x87"
"""Ids of Matroska's elements (RFC 9559)."""
_DEPTH: Final = 8
"""Deepest nesting of Matroska tags."""


def is_video(data: bytes) -> bool:
    """Whether a file that begins with these bytes is an MP4, MOV, Matroska, WebM or GIF file."""
    return data[4:8] == b"ftyp" or data.startswith((EBML, b"GIF8"))


def texts(file: BinaryIO) -> dict[str, str]:
    """Metadata texts of a video by lower-case key. Damaged, truncated or oversized texts are left out."""
    source, collected = Source(file), Texts()
    head = source.read(0, min(12, source.size))
    if head.startswith(b"GIF8"):
        for part in gif_parts(source):
            if part.kind == b"!\xfe":  # a comment
                for line in gif_data(collected.read(source, part.start, part.stop)).split(b"\n"):
                    collected.add_pair(line)
    elif head.startswith(EBML):
        for tag in inside(elements, source, Part(b"", 0, source.size), SEGMENT, _TAGS, _TAG):
            _simple_tags(source, tag, collected, _DEPTH)
    else:
        _mp4_texts(source, collected)
    return collected.by_key


def _mp4_texts(source: Source, collected: Texts) -> None:
    """Entries of ``meta`` boxes in ``moov``, ``moov/udta``: ``keys`` names what ``ilst`` holds."""
    for movie in inside(boxes, source, Part(b"", 0, source.size), b"moov"):
        inner = [*boxes(source, movie.start, movie.stop)]
        inner += [box for udta in inner if udta.kind == b"udta" for box in boxes(source, udta.start, udta.stop)]
        for meta in (box for box in inner if box.kind == b"meta"):
            # QuickTime's has no version number before its boxes.
            start = meta.start if source.read(meta.start + 4, 4) == b"hdlr" else meta.start + 4
            _mp4_entries(source, start, meta.stop, collected)


def _mp4_entries(source: Source, start: int, stop: int, collected: Texts) -> None:
    parts = {box.kind: box for box in boxes(source, start, stop)}
    if b"keys" not in parts or b"ilst" not in parts:
        return
    keys, values = parts[b"keys"], parts[b"ilst"]
    names = [collected.read(source, key.start, key.stop) for key in boxes(source, keys.start + 8, keys.stop)]
    for entry in boxes(source, values.start, values.stop):
        index = int.from_bytes(entry.kind, "big") - 1
        for data in inside(boxes, source, entry, b"data"):
            if 0 <= index < len(names):
                key = names[index].decode("utf-8", "replace").lower()
                collected.add(key, collected.read(source, data.start + 8, data.stop))


def _simple_tags(source: Source, tag: Part, collected: Texts, depth: int) -> None:
    """Name and text of every SimpleTag in a tag."""
    name = ""
    for part in elements(source, tag.start, min(tag.stop, source.size)):
        if part.kind == _SIMPLE and depth:
            _simple_tags(source, part, collected, depth - 1)
        elif part.kind == _NAME and tag.kind == _SIMPLE:
            name = collected.read(source, part.start, part.stop).rstrip(b"\0").decode("utf-8", "replace").lower()
        elif part.kind == _STRING and name:
            collected.add(name, collected.read(source, part.start, part.stop))
