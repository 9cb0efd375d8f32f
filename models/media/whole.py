"""Whether a video or audio file is complete, from its structure without decoding. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipegraph.containers import EBML, SEGMENT, Part, Source, boxes, elements

_CLUSTER = b"\x1f\x43\xb6\x75"
"""Matroska's cluster element, which holds some seconds of frames and audio (RFC 9559)."""


def is_cut(path: Path) -> bool:
    """Whether a file is truncated; False if unknown."""
    with path.open("rb") as file:
        source = Source(file)
        head = source.read(0, min(12, source.size)).ljust(12, b"\0")
        if head.startswith(b"RIFF"):
            return head[4:8] != b"\xff" * 4 and 8 + int.from_bytes(head[4:8], "little") > source.size
        if head.startswith(EBML):
            return any(part.stop > source.size for part in _segment_parts(source))
        if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
            return any(box.stop > source.size for box in boxes(source, 0, source.size))
        return False


def _segment_parts(source: Source) -> Iterator[Part]:
    """The segment of a Matroska file, and its clusters (in a live recording only clusters have a size)."""
    for part in elements(source, 0, source.size):
        yield part
        if part.kind == SEGMENT:
            yield from (p for p in elements(source, part.start, part.stop) if p.kind == _CLUSTER)
