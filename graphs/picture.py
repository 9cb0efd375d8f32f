"""The graph inside a picture: text chunks of PNG, and the EXIF of WebP and JPEG. Standard library only.

ComfyUI keeps its graphs under the keys ``prompt`` (API form) and ``workflow`` (UI form): as text chunks in PNG, and as
``prompt:{...}`` and ``workflow:{...}`` in text fields of EXIF elsewhere. pipegraph adds the key ``pipegraph``. Pixels
are skipped.
"""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final

from pipegraph.containers import PNG, Source, jpeg_segments, png_chunks, riff_chunks

from .texts import Texts

_EXIF_IFD: Final = 0x8769
"""TIFF tag with the offset of the EXIF directory."""
_TEXT: Final = 2
"""TIFF field type of text."""


def is_picture(data: bytes) -> bool:
    """Whether a file that begins with these bytes is a PNG, JPEG or WebP picture."""
    return data.startswith((PNG, b"\xff\xd8\xff")) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


def is_other_media(data: bytes) -> bool:
    """Whether a file begins as a picture or sound file that carries no graph: TIFF, BMP, RIFF, Ogg, FLAC, MP3."""
    return data.startswith((b"II*\0", b"MM\0*", b"RIFF", b"OggS", b"fLaC", b"ID3")) or (
        data[:2] == b"BM" and len(data) > 14 and data[6:10] == bytes(4)
    )


def read_metadata(path: Path) -> dict[str, str]:
    """Texts of a picture file by key, e.g. ``prompt``, ``workflow``, ``pipegraph``; see :func:`texts`.

    Raises:
        ValueError: the file is no PNG, JPEG or WebP picture.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        if not is_picture(file.read(12)):
            raise ValueError(f"{path} is no PNG, JPEG or WebP picture")
        return texts(file)


def texts(file: BinaryIO | bytes) -> dict[str, str]:
    """Metadata texts of a picture by key. Damaged, truncated or oversized texts are left out."""
    source = Source(io.BytesIO(file) if isinstance(file, bytes) else file)
    collected, head = Texts(), source.read(0, min(8, source.size))
    if head == PNG:
        _png_texts(source, collected)
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
