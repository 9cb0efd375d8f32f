"""Walk through media files part by part: boxes of MP4, elements of Matroska, chunks of RIFF and PNG.

Contents are skipped, so long files cost nothing. A file has a budget of ``MEDIA_PARTS`` parts; then every walk through
the file ends. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final, NamedTuple

from pipegraph.limits import MEDIA_PARTS, TEXT_BYTES

_BLOCK: Final = 1 << 20
EBML: Final = b"\x1aE\xdf\xa3"
"""The first bytes of Matroska and WebM."""
EXR: Final = b"v/1\x01"
"""First bytes of an OpenEXR file."""
PNG: Final = b"\x89PNG\r\n\x1a\n"
SEGMENT: Final = b"\x18\x53\x80\x67"
"""The element of Matroska that holds all others (RFC 9559)."""


class Part(NamedTuple):
    """A part of a file: start and end of its contents. In a truncated file, the end may be beyond the file."""

    kind: bytes
    start: int
    stop: int


Walk = Callable[["Source", int, int], Iterator[Part]]


class Source:
    """An open file with random access, and the number of parts that may still be read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        self.parts_left = MEDIA_PARTS

    def read(self, at: int, size: int) -> bytes:
        """``size`` bytes at an offset; empty beyond the file or above ``TEXT_BYTES``."""
        if not 0 <= size <= min(TEXT_BYTES, self.size - at):
            return b""
        self._file.seek(at)
        return self._file.read(size)

    def number(self, at: int, size: int) -> int:
        """A big-endian number of ``size`` bytes; 0 beyond the file."""
        return int.from_bytes(self.read(at, size), "big")

    def find(self, mark: bytes, at: int) -> int:
        """The first offset of ``mark`` from an offset on; -1 if absent."""
        while at < self.size:
            block = self.read(at, min(_BLOCK, self.size - at))
            if (place := block.find(mark)) >= 0:
                return at + place
            at += max(1, len(block) - len(mark) + 1)
        return -1

    def take_part(self) -> bool:
        """Whether one more part may be read."""
        self.parts_left -= 1
        return self.parts_left >= 0


def boxes(source: Source, at: int, end: int) -> Iterator[Part]:
    """The boxes of MP4 and QuickTime in a range (ISO 14496-12)."""
    while at + 8 <= end and source.take_part():
        head = source.read(at, 16) or source.read(at, 8)
        if len(head) < 8:
            return
        size, start = int.from_bytes(head[:4], "big"), at + 8
        if size == 1:
            size, start = int.from_bytes(head[8:], "big"), at + 16
        stop = end if size == 0 else at + size
        if stop < start:
            return
        yield Part(head[4:8], start, stop)
        at = stop


def elements(source: Source, at: int, end: int) -> Iterator[Part]:
    """The elements of Matroska in a range (RFC 8794); one of unknown size extends to the end."""
    while at < end and source.take_part():
        head = source.read(at, min(12, source.size - at))
        id_length = _ebml_length(head[:1])
        size_length = _ebml_length(head[id_length : id_length + 1])
        if not 1 <= id_length <= 4 or not size_length or len(head) < id_length + size_length:
            return
        size = int.from_bytes(head[id_length : id_length + size_length], "big") & (1 << 7 * size_length) - 1
        start = at + id_length + size_length
        at = end if size == (1 << 7 * size_length) - 1 else start + size
        yield Part(head[:id_length], start, at)


def _ebml_length(first: bytes) -> int:
    """Length in bytes of an EBML number, from its first byte: 1 to 8; 0 if invalid."""
    return 9 - first[0].bit_length() if first and first[0] else 0


def riff_chunks(source: Source, at: int, end: int) -> Iterator[Part]:
    """The chunks of WebP, WAV and AVI in a range."""
    while at + 8 <= end and source.take_part():
        head = source.read(at, 8)
        if not head:
            return
        stop = at + 8 + int.from_bytes(head[4:], "little")
        yield Part(head[:4], at + 8, stop)
        at = stop + stop % 2


def png_chunks(source: Source, at: int, end: int) -> Iterator[Part]:
    """The chunks of PNG in a range (PNG specification, 5.3), each followed by a checksum of 4 bytes."""
    while at + 12 <= end and source.take_part():
        head = source.read(at, 8)
        if not head:
            return
        stop = at + 8 + int.from_bytes(head[:4], "big")
        yield Part(head[4:], at + 8, stop)
        at = stop + 4


def jpeg_segments(source: Source) -> Iterator[Part]:
    """The segments of JPEG up to the pixel data (ITU-T T.81, B.1.1)."""
    at = 2
    while source.take_part() and len(head := source.read(at, 4)) == 4 and head[0] == 0xFF:
        stop = at + 2 + int.from_bytes(head[2:], "big")
        yield Part(head[1:2], at + 4, stop)
        if head[1] in (0xDA, 0xD9):
            return
        at = stop


def gif_parts(source: Source) -> Iterator[Part]:
    """Extensions (``!`` and their label) and frames (``,``) of a GIF (GIF89a).

    An extension's part is its blocks; a frame's starts with position and size, before a colour table and blocks.
    """
    at = 13 + _gif_colours(source.read(10, 1))
    while source.take_part() and (mark := source.read(at, 1)):
        if mark == b"!":
            start, kind = at + 2, mark + source.read(at + 1, 1)
            at = start
        elif mark == b",":
            start, kind = at + 1, mark
            at = start + 10 + _gif_colours(source.read(start + 8, 1))
        else:
            return
        while source.take_part() and (size := source.number(at, 1)):
            at += 1 + size
        yield Part(kind, start, at)
        at += 1


def gif_data(blocks: bytes) -> bytes:
    """Concatenate data blocks of up to 255 bytes, each after its length."""
    pieces, at = [], 0
    while at < len(blocks):
        pieces.append(blocks[at + 1 : at + 1 + blocks[at]])
        at += 1 + blocks[at]
    return b"".join(pieces)


def _gif_colours(flags: bytes) -> int:
    """Bytes of a colour table."""
    return 3 << (flags[0] & 7) + 1 if flags and flags[0] & 0x80 else 0


def inside(walk: Walk, source: Source, part: Part, *kinds: bytes) -> Iterator[Part]:
    """Nested parts of ``part``, by their kinds from outer to inner."""
    for inner in walk(source, part.start, min(part.stop, source.size)):
        if inner.kind == kinds[0]:
            if len(kinds) == 1:
                yield inner
            else:
                yield from inside(walk, source, inner, *kinds[1:])


def exr_attributes(source: Source) -> Iterator[tuple[bytes, Part]]:
    """The attributes of an EXR file: type and name with a blank between, and where the value is."""
    at = 8
    while source.take_part():
        head = source.read(at, min(2 * 256, max(0, source.size - at)))
        name, _, rest = head.partition(b"\0")
        kind, end, _ = rest.partition(b"\0")
        start = at + len(name) + len(kind) + 6
        if not name or not end or start > source.size:
            return
        stop = start + int.from_bytes(source.read(start - 4, 4), "little")
        yield kind + b" " + name, Part(b"", start, stop)
        at = stop
