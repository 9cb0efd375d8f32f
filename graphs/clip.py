"""The graph inside a clip: the texts of MP4 and QuickTime, of Matroska and WebM, and of GIF. Standard library only.

The keys are those of pictures (``picture.py``): ``prompt``, ``workflow``, ``pipegraph``. Only what holds texts is read;
the pictures are skipped, so long files cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from pipegraph.limits import TEXT_BYTES

_EBML: Final = b"\x1aE\xdf\xa3"
_SEGMENT, _TAGS, _TAG, _SIMPLE, _NAME, _STRING = 0x18538067, 0x1254C367, 0x7373, 0x67C8, 0x45A3, 0x4487
"""Ids of Matroska's elements (RFC 9559)."""


def is_clip(data: bytes) -> bool:
    """Whether a file that begins with these bytes is an MP4, MOV, Matroska, WebM or GIF file."""
    return data[4:8] == b"ftyp" or data.startswith((_EBML, b"GIF8"))


def texts(file: BinaryIO) -> dict[str, str]:
    """Texts of a clip by key, in small letters. What is damaged, cut off or longer than ``TEXT_BYTES`` is left out."""
    file.seek(0)
    head = file.read(12)
    end = file.seek(0, 2)
    found: dict[str, str] = {}
    if head.startswith(b"GIF8"):
        pairs = _gif(file)
    else:
        pairs = _matroska(file, 0, end, ()) if head.startswith(_EBML) else _mp4(file, end)
    for key, raw in pairs:
        try:
            found.setdefault(key.lower(), raw.decode())
        except UnicodeDecodeError:
            continue
    return found


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    """So many bytes from a place on; none if there are too many or too few."""
    if not 0 <= size <= TEXT_BYTES:
        return b""
    file.seek(at)
    data = file.read(size)
    return data if len(data) == size else b""


def _boxes(file: BinaryIO, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Kind, first byte and end of the contents of each box (ISO 14496-12)."""
    while at + 8 <= end:
        head = _read(file, at, 8)
        size, kind, start = int.from_bytes(head[:4], "big"), head[4:], at + 8
        if size == 1:
            size, start = int.from_bytes(_read(file, at + 8, 8), "big"), at + 16
        stop = end if size == 0 else at + size
        if stop < start or stop > end:
            return
        yield kind, start, stop
        at = stop


def _mp4(file: BinaryIO, end: int) -> Iterator[tuple[str, bytes]]:
    """Entries of ``meta`` boxes in ``moov``, ``moov/udta``: ``keys`` names what ``ilst`` holds."""
    for kind, start, stop in _boxes(file, 0, end):
        if kind == b"moov":
            inner = [*_boxes(file, start, stop)]
            inner += [box for k, a, b in inner if k == b"udta" for box in _boxes(file, a, b)]
            for _, a, b in (box for box in inner if box[0] == b"meta"):
                # QuickTime's has no version number before its boxes.
                yield from _entries(file, a if _read(file, a + 4, 4) == b"hdlr" else a + 4, b)


def _entries(file: BinaryIO, start: int, stop: int) -> Iterator[tuple[str, bytes]]:
    parts = {kind: (a, b) for kind, a, b in _boxes(file, start, stop)}
    if b"keys" not in parts or b"ilst" not in parts:
        return
    a, b = parts[b"keys"]
    names = [_read(file, x, y - x).decode("utf-8", "replace") for _, x, y in _boxes(file, a + 8, b)]
    for number, x, y in _boxes(file, *parts[b"ilst"]):
        index = int.from_bytes(number, "big") - 1
        for kind, p, q in _boxes(file, x, y):
            if kind == b"data" and 0 <= index < len(names):
                yield names[index], _read(file, p + 8, q - p - 8)


def _number(file: BinaryIO, at: int, *, keep: bool) -> tuple[int, int]:
    """An EBML number of 1 to 8 bytes and the place after it; ``keep`` leaves its length mark in, as ids have it."""
    first = _read(file, at, 1)
    if not first or not first[0]:
        return -1, at
    length = 9 - first[0].bit_length()
    value = int.from_bytes(_read(file, at, length) or b"\0", "big")
    return value if keep else value & ((1 << 7 * length) - 1), at + length


def _matroska(file: BinaryIO, at: int, end: int, inside: tuple[int, ...]) -> Iterator[tuple[str, bytes]]:
    """Name and text of every SimpleTag."""
    name = ""
    while at < end:
        kind, place = _number(file, at, keep=True)
        size, place = _number(file, place, keep=False)
        if kind < 0 or size < 0:
            return
        stop = min(end, place + size)
        if kind in (_SEGMENT, _TAGS, _TAG, _SIMPLE) and len(inside) < 8:
            yield from _matroska(file, place, stop, (*inside, kind))
        elif kind == _NAME and inside and inside[-1] == _SIMPLE:
            name = _read(file, place, size).rstrip(b"\0").decode("utf-8", "replace")
        elif kind == _STRING and name:
            yield name, _read(file, place, size)
        at = place + size


def _gif(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Lines ``key:text`` of comments (GIF89a, 24)."""
    head = _read(file, 0, 13)
    if not head:
        return
    file.seek(13 + (3 << (head[10] & 7) + 1 if head[10] & 0x80 else 0))
    while True:
        mark = file.read(1)
        if mark == b"!":
            comment, data = file.read(1) == b"\xfe", bytearray()
            while size := file.read(1):
                if not size[0]:
                    break
                block = file.read(size[0])
                if comment and len(data) < TEXT_BYTES:
                    data += block
            for line in bytes(data).split(b"\n"):
                key, colon, text = line.partition(b":")
                if colon and key.decode("latin-1").isidentifier():
                    yield key.decode("latin-1"), text
        elif mark == b",":
            place = file.read(9)
            if len(place) < 9:
                return
            file.seek(3 << (place[8] & 7) + 1 if place[8] & 0x80 else 0, 1)
            file.read(1)
            while (size := file.read(1)) and size[0]:
                file.seek(size[0], 1)
        else:
            return
