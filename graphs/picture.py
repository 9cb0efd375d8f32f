"""The graph inside a picture: text chunks of PNG, EXIF of WebP, JPEG and AVIF, and the headers of TIFF and EXR.

ComfyUI keeps its graphs under the keys ``prompt`` (API form) and ``workflow`` (UI form): as text chunks in PNG, and as
``prompt:{...}`` and ``workflow:{...}`` in text fields of EXIF elsewhere. pipegraph adds the key ``pipegraph``. Pixels
are skipped. TIFF has all texts as a JSON object in its description, EXR one attribute each. Standard library only.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from pipegraph.containers import (
    EXR,
    PNG,
    Part,
    Source,
    boxes,
    exr_attributes,
    inside,
    jpeg_segments,
    png_chunks,
    riff_chunks,
)

from .texts import Texts

_EXIF_IFD: Final = 0x8769
"""TIFF tag with the offset of the EXIF directory."""
_TIFF: Final = (b"II*\0", b"MM\0*")
_AVIF: Final = (b"ftypavif", b"ftypavis")
_DESCRIPTION: Final = 0x010E
"""TIFF tag of a text on the image."""
_TEXT: Final = 2
"""TIFF field type of text."""


def is_picture(data: bytes) -> bool:
    """Whether a file that begins with these bytes is a picture that may hold a graph."""
    return (
        data.startswith((PNG, EXR, b"\xff\xd8\xff", *_TIFF))
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[4:12] in _AVIF
    )


def is_other_media(data: bytes) -> bool:
    """Whether a file begins as a picture or sound file that carries no graph: BMP, RIFF, Ogg, FLAC, MP3."""
    return data.startswith((b"RIFF", b"OggS", b"fLaC", b"ID3")) or (
        data[:2] == b"BM" and len(data) > 14 and data[6:10] == bytes(4)
    )


def read_metadata(path: Path) -> dict[str, str]:
    """Texts of a picture file by key, e.g. ``prompt``, ``workflow``, ``pipegraph``; see :func:`texts`.

    Raises:
        ValueError: the file is no PNG, JPEG, WebP, AVIF, TIFF or EXR picture.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if not is_picture(file.read(12)):
            raise ValueError(f"{path} is no PNG, JPEG, WebP, AVIF, TIFF or EXR picture")
        return texts(file)


def texts(file: BinaryIO | bytes) -> dict[str, str]:
    """Metadata texts of a picture by key. Damaged, truncated or oversized texts are left out."""
    source = Source(io.BytesIO(file) if isinstance(file, bytes) else file)
    collected, head = Texts(), source.read(0, min(12, source.size))
    if head.startswith(PNG):
        _png_texts(source, collected)
    elif head.startswith(EXR):
        for kind, value in exr_attributes(source):
            if kind.startswith(b"string "):
                collected.add(kind[7:].decode("latin-1"), collected.read(source, value.start, value.stop))
    elif head.startswith(_TIFF):
        _tiff_texts(source, collected)
    elif head[4:12] in _AVIF:
        _avif_texts(source, collected)
    elif head.startswith(b"RIFF"):
        for chunk in riff_chunks(source, 12, source.size):
            if chunk.kind == b"EXIF":
                _exif_texts(
                    collected.read(source, chunk.start, chunk.stop).removeprefix(b"Exif\0\0"), source, collected
                )
    else:
        for segment in jpeg_segments(source):
            if segment.kind == b"\xe1" and source.read(segment.start, 6) == b"Exif\0\0":
                _exif_texts(collected.read(source, segment.start + 6, segment.stop), source, collected)
    return collected.by_key


def _png_texts(source: Source, collected: Texts) -> None:
    """Collect tEXt, zTXt and iTXt chunks (PNG specification, 11.3.3) with valid checksums."""
    for chunk in png_chunks(source, len(PNG), source.size):
        if chunk.kind not in (b"tEXt", b"zTXt", b"iTXt"):
            continue
        body = collected.read(source, chunk.start, chunk.stop)
        if source.read(chunk.stop, 4) != struct.pack(">I", zlib.crc32(chunk.kind + body)):
            continue
        key, _, rest = body.partition(b"\0")
        try:
            if chunk.kind == b"iTXt":
                packed, (_, _, raw) = rest[:1] == b"\1", rest[2:].split(b"\0", 2)
            else:
                packed, raw = chunk.kind == b"zTXt", rest[1:] if chunk.kind == b"zTXt" else rest
            # Latin-1 by the specification, except iTXt; several writers use UTF-8.
            text = collected.unpack(raw) if packed else raw
        except (ValueError, zlib.error):
            continue
        collected.add(key.decode("latin-1"), text, latin=chunk.kind != b"iTXt")


def _tiff_texts(source: Source, collected: Texts) -> None:
    """Collect the texts of the description of a TIFF file (TIFF 6.0, 2 and 8): a JSON object of texts."""
    order = "<" if source.read(0, 2) == b"II" else ">"
    try:
        (start,) = struct.unpack(order + "I", source.read(4, 4))
        (count,) = struct.unpack(order + "H", source.read(start, 2))
        for i in range(count):
            tag, kind, length, place = struct.unpack(order + "HHII", source.read(start + 2 + 12 * i, 12))
            if not source.take_part() or tag > _DESCRIPTION:
                return
            if tag == _DESCRIPTION and kind == _TEXT and length > 4:
                texts = json.loads(collected.read(source, place, place + length).rstrip(b"\0"))
                for key, text in texts.items() if isinstance(texts, dict) else ():
                    if isinstance(text, str):
                        collected.add(key, text.encode("utf-8", "replace"))
    except (struct.error, ValueError, RecursionError):  # cut off, or another description
        return


def _avif_texts(source: Source, collected: Texts) -> None:
    """Collect the EXIF of an AVIF file (ISO 23008-12, A.2.1): the item of type Exif, and where its bytes are."""
    for meta in inside(boxes, source, Part(b"", 0, source.size), b"meta"):
        parts = {box.kind: box for box in boxes(source, meta.start + 4, min(meta.stop, source.size))}
        if b"iinf" not in parts or b"iloc" not in parts:
            continue
        items = parts[b"iinf"]
        skipped = 6 if source.read(items.start, 1) == b"\0" else 8  # version, flags and how many there are
        exif = {
            source.number(item.start + 4, 2)
            for item in boxes(source, items.start + skipped, min(items.stop, source.size))
            if item.kind == b"infe" and source.read(item.start + 8, 4) == b"Exif"
        }
        for start, stop in _avif_places(source, parts[b"iloc"], exif):
            offset = source.number(start, 4)
            _exif_texts(collected.read(source, start + 4 + offset, stop), source, collected)


def _avif_places(source: Source, table: Part, wanted: set[int]) -> Iterator[tuple[int, int]]:
    """Where items are (ISO 14496-12, 8.11.3), for versions 0 and 1 with offsets in the file, items of one piece."""
    version, sizes = source.number(table.start, 1), source.number(table.start + 4, 2)
    offset_size, length_size, base_size = sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15
    index_size = sizes & 15 if version == 1 else 0
    at = table.start + 8
    if version > 1:
        return
    for _ in range(source.number(table.start + 6, 2)):
        if at + 6 > min(table.stop, source.size) or not source.take_part():
            return
        item = source.number(at, 2)
        at += 2 + 2 * (version == 1) + 2
        base = source.number(at, base_size) if base_size else 0
        pieces = source.number(at + base_size, 2)
        at += base_size + 2
        if item in wanted and pieces == 1:
            start = base + (source.number(at + index_size, offset_size) if offset_size else 0)
            yield start, start + source.number(at + index_size + offset_size, length_size)
        at += pieces * (index_size + offset_size + length_size)


def _exif_texts(exif: bytes, source: Source, collected: Texts) -> None:
    """Collect fields ``key:text`` of an EXIF block: its TIFF and EXIF directories (EXIF 2.32, 4.6)."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    try:
        if order is not None:
            (start,) = struct.unpack_from(order + "I", exif, 4)
            for inner in _directory_texts(exif, start, order, source, collected)[:1]:
                _directory_texts(exif, inner, order, source, collected)
    except struct.error:  # cut off
        return


def _directory_texts(exif: bytes, start: int, order: str, source: Source, collected: Texts) -> list[int]:
    """Collect the texts of one directory; return the offsets of its EXIF directories."""
    inner = []
    for i in range(struct.unpack_from(order + "H", exif, start)[0]):
        if not source.take_part():
            break
        tag, kind, count, value = struct.unpack_from(order + "HHII", exif, start + 2 + 12 * i)
        if tag == _EXIF_IFD and value != start:
            inner.append(value)
        if kind == _TEXT and count > 4:  # shorter ones stand in the field itself
            collected.add_pair(exif[value : value + count].rstrip(b"\0"))
    return inner
