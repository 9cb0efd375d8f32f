"""Reads image headers: format, size, frame count. Nothing is decoded. Standard library only."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from pipegraph.containers import (
    EXR,
    PNG,
    Part,
    Source,
    boxes,
    exr_attributes,
    gif_parts,
    inside,
    jpeg_segments,
    png_chunks,
    riff_chunks,
)

_WIDTH, _HEIGHT, _BITS, _OFFSETS, _COUNTS = 256, 257, 258, 273, 279
"""TIFF tags: size, bits per channel, offsets and byte counts of strips."""
_Order = Literal["little", "big"]
_PACKED: Final = 1040
"""Maximum zlib compression ratio (1032), with some margin."""
_EXR_LINES: Final = (1, 1, 1, 16, 32, 16, 32, 32, 32, 256)
"""Lines per EXR block, by compression type."""
_EXR_OTHERS: Final = 0x1A00
"""Flags of tiled, deep and multi-part EXR files, whose blocks are listed differently."""
_SHORT, _LONG = 3, 4
"""TIFF types: unsigned numbers of 2 and 4 bytes."""


class Header(NamedTuple):
    """An image header; size 0 means that it is damaged."""

    kind: str
    width: int = 0
    height: int = 0
    frames: int = 1
    bits: int = 8
    """Bits per channel."""
    cut: bool = False
    """The file ends before its pixels do."""


def read_header(source: Source) -> Header | None:
    """The header of a PNG, JPEG, WebP, GIF, TIFF, BMP, AVIF or EXR file; None for other files."""
    head = source.read(0, min(16, source.size)).ljust(16, b"\0")
    readers: dict[bool, Callable[[Source], Header]] = {
        head.startswith(PNG): _png,
        head.startswith(b"\xff\xd8\xff"): _jpeg,
        head.startswith(b"RIFF") and head[8:12] == b"WEBP": _webp,
        head.startswith((b"GIF87a", b"GIF89a")): _gif,
        head.startswith((b"II*\0", b"MM\0*")): _tiff,
        head.startswith(b"BM"): _bmp,
        head[4:12] in (b"ftypavif", b"ftypavis"): _avif,
        head.startswith(EXR): _exr,
    }
    return readers[True](source) if True in readers else None


def _png(source: Source) -> Header:
    """PNG specification, 11.2.1 and 11.3.6.1."""
    frames, there, packed, cut = 1, 0, 0, False
    for chunk in png_chunks(source, len(PNG), source.size):
        if chunk.kind == b"acTL":
            frames = source.number(chunk.start, 4)
        there += chunk.kind == b"fcTL"
        packed += (chunk.stop - chunk.start) * (chunk.kind == b"IDAT")
        cut = cut or (chunk.kind in (b"IDAT", b"fdAT") and chunk.stop > source.size)
    width, height, bits = (source.number(at, size) for at, size in ((16, 4), (20, 4), (24, 1)))
    if source.parts_left > 0:
        cut = cut or there < frames > 1 or width * height * bits // 8 > (packed + 1) * _PACKED
    return Header("PNG", width, height, max(1, frames), bits, cut)


def _jpeg(source: Source) -> Header:
    """ITU-T T.81, B.2.2: a frame header is any of C0 to CF but for C4, C8 and CC."""
    header, scan = Header("JPEG"), None
    for segment in jpeg_segments(source):
        if 0xC0 <= segment.kind[0] <= 0xCF and segment.kind not in (b"\xc4", b"\xc8", b"\xcc"):
            height, width = source.number(segment.start + 1, 2), source.number(segment.start + 3, 2)
            header = Header("JPEG", width, height, bits=source.number(segment.start, 1))
        if segment.kind == b"\xda":
            scan = segment
    # The mark of the end; cameras put things of their own behind it.
    return header._replace(cut=scan is None or source.find(b"\xff\xd9", scan.stop) < 0)


def _webp(source: Source) -> Header:
    """WebP container specification; RFC 9649."""
    width = height = frames = 0
    cut = 8 + int.from_bytes(source.read(4, 4), "little") > source.size
    for chunk in riff_chunks(source, 12, source.size):
        data = source.read(chunk.start, min(10, max(0, source.size - chunk.start))).ljust(10, b"\0")
        if chunk.kind == b"VP8X":
            width, height = 1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little")
        elif chunk.kind == b"VP8 " and not width:
            width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (6, 8))
        elif chunk.kind == b"VP8L" and not width:
            packed = int.from_bytes(data[1:5], "little")
            width, height = 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
        frames += chunk.kind == b"ANMF"
    return Header("WebP", width, height, max(1, frames), cut=cut)


def _gif(source: Source) -> Header:
    width, height = (int.from_bytes(source.read(at, 2), "little") for at in (6, 8))
    frames, cut = 0, False
    for part in gif_parts(source):
        if part.kind == b",":
            frames, cut = frames + 1, part.stop > source.size
            left, top, wide, high = struct.unpack("<4H", source.read(part.start, 8).ljust(8, b"\0"))
            width, height = max(width, left + wide), max(height, top + high)  # as Pillow takes it
    return Header("GIF", width, height, max(1, frames), cut=cut)


def _bmp(source: Source) -> Header:
    """The header has 12 bytes (OS/2), or 40 and more."""
    size = 2 if source.read(14, 1) == b"\x0c" else 4
    width, height = (int.from_bytes(source.read(at, size), "little", signed=size == 4) for at in (18, 18 + size))
    whole = int.from_bytes(source.read(2, 4), "little")
    return Header("BMP", abs(width), abs(height), cut=whole > source.size)


def _tiff(source: Source) -> Header:
    """TIFF 6.0, 2: a chain of directories, one for each page."""
    order: _Order = "little" if source.read(0, 2) == b"II" else "big"
    header, frames = Header("TIFF"), 0
    at, visited = int.from_bytes(source.read(4, 4), order), set[int]()
    while at and at not in visited and source.take_part():
        visited.add(at)
        count = int.from_bytes(source.read(at, 2), order)
        if not count:
            return header._replace(frames=max(1, frames), cut=header.cut or at + 2 > source.size)
        frames += 1
        if frames == 1:
            header = _tiff_page(source, at + 2, count, order)
        at = int.from_bytes(source.read(at + 2 + 12 * count, 4), order)
    return header._replace(frames=max(1, frames))


def _tiff_page(source: Source, at: int, count: int, order: _Order) -> Header:
    values = dict(_tiff_fields(source, at, count, order))
    width, height, bits = (next(iter(values.get(tag, [])), default) for tag, default in ((256, 0), (257, 0), (258, 1)))
    strips = zip(values.get(_OFFSETS, []), values.get(_COUNTS, []), strict=False)
    return Header("TIFF", width, height, 1, bits, any(start + size > source.size for start, size in strips))


def _tiff_fields(source: Source, at: int, count: int, order: _Order) -> Iterator[tuple[int, list[int]]]:
    """Tag and values of the fields that are needed."""

    def number(data: bytes) -> int:
        return int.from_bytes(data, order)

    for field in range(at, at + 12 * count, 12):
        if not source.take_part() or len(entry := source.read(field, 12)) < 12:
            return
        tag, kind, length = number(entry[:2]), number(entry[2:4]), number(entry[4:8])
        if tag in (_WIDTH, _HEIGHT, _BITS, _OFFSETS, _COUNTS) and kind in (_SHORT, _LONG) and length <= 1 << 16:
            size = 2 if kind == _SHORT else 4
            data = entry[8:] if size * length <= 4 else source.read(number(entry[8:]), size * length)
            yield tag, [number(data[i : i + size]) for i in range(0, size * length, size)]


def _avif(source: Source) -> Header:
    """The largest of the sizes of its items (ISO 23008-12, 6.5.3)."""
    sizes = [(0, 0)]
    for meta in inside(boxes, source, Part(b"", 0, source.size), b"meta"):
        items = Part(b"meta", meta.start + 4, meta.stop)  # behind its version
        for size in inside(boxes, source, items, b"iprp", b"ipco", b"ispe"):
            sizes.append((source.number(size.start + 4, 4), source.number(size.start + 8, 4)))
    cut = any(box.stop > source.size for box in boxes(source, 0, source.size))
    return Header("AVIF", *max(sizes, key=lambda size: size[0] * size[1]), cut=cut)


def _exr(source: Source) -> Header:
    """OpenEXR File Layout: the larger of data window and display window, of the first part."""
    header, packing, lines, end = Header("EXR", bits=32), 0, 0, 8
    for kind, value in exr_attributes(source):
        end = value.stop
        if kind in (b"box2i dataWindow", b"box2i displayWindow") and value.stop - value.start == 16:
            left, top, right, bottom = struct.unpack("<4i", source.read(value.start, 16).ljust(16, b"\0"))
            width, height = max(0, right - left + 1), max(0, bottom - top + 1)
            lines = height if b"data" in kind else lines
            header = header._replace(width=max(header.width, width), height=max(header.height, height))
        elif kind == b"compression compression":
            packing = source.number(value.start, 1)
    plain = not int.from_bytes(source.read(4, 4), "little") & _EXR_OTHERS
    if not plain or packing >= len(_EXR_LINES) or not lines:
        return header
    table, blocks = end + 1, -(-lines // _EXR_LINES[packing])
    last = int.from_bytes(source.read(table + 8 * (blocks - 1), 8), "little")
    size = int.from_bytes(source.read(last + 4, 4).ljust(4, b"\xff"), "little")
    return header._replace(cut=last < table or last + 8 + size > source.size)
