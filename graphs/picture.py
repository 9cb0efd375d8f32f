"""The graph inside a picture: text chunks of PNG, and the EXIF of WebP and JPEG. Standard library only.

ComfyUI keeps its graphs under the keys ``prompt`` (API form) and ``workflow`` (UI form): as text chunks in PNG, and as
``prompt:{...}`` and ``workflow:{...}`` in text fields of EXIF elsewhere. pipegraph adds the key ``pipegraph``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pipegraph.limits import TEXT_BYTES

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_EXIF_IFD: Final = 0x8769


def is_picture(data: bytes) -> bool:
    """Whether a file that begins with these bytes is a PNG, JPEG or WebP picture."""
    return data.startswith((_PNG, b"\xff\xd8\xff")) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")


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
    data = path.read_bytes()
    if not is_picture(data):
        raise ValueError(f"{path} is no PNG, JPEG or WebP picture")
    return texts(data)


def texts(data: bytes) -> dict[str, str]:
    """Texts of a picture by key. What is damaged, cut off or longer than ``TEXT_BYTES`` is left out."""
    if data.startswith(_PNG):
        return _png_texts(data)
    try:
        return _exif_texts(_webp_exif(data) if data.startswith(b"RIFF") else _jpeg_exif(data))
    except struct.error:
        return {}


def _png_texts(data: bytes) -> dict[str, str]:
    """tEXt, zTXt and iTXt chunks (PNG specification, 11.3.3). Of a repeated key the first one counts."""
    found: dict[str, str] = {}
    for kind, body in _png_chunks(data):
        key, _, rest = body.partition(b"\0")
        try:
            if kind == b"tEXt":
                text = _latin_or_utf8(rest)
            elif kind == b"zTXt":
                text = _latin_or_utf8(_unpack(rest[1:]))
            elif kind == b"iTXt":
                packed, (_, _, raw) = rest[:1] == b"\1", rest[2:].split(b"\0", 2)
                text = (_unpack(raw) if packed else raw).decode()
            else:
                continue
        except (ValueError, zlib.error):
            continue
        found.setdefault(key.decode("latin-1"), text)
    return found


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and body of every chunk that is whole; of pixels only the length is looked at."""
    at = len(_PNG)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            body, check = data[at + 8 : at + 8 + size], data[at + 8 + size : at + 12 + size]
            if check == struct.pack(">I", zlib.crc32(kind + body)):
                yield kind, body
        at += size + 12


def _unpack(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, TEXT_BYTES)
    if not unpacker.eof:
        raise ValueError("cut off or too long")
    return text


def _latin_or_utf8(raw: bytes) -> str:
    """The specification says Latin-1; several writers put UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _webp_exif(data: bytes) -> bytes:
    """The EXIF chunk of a RIFF container, or nothing."""
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<4sI", data, at)
        if kind == b"EXIF":
            return data[at + 8 : at + 8 + size].removeprefix(b"Exif\0\0")
        at += 8 + size + size % 2
    return b""


def _jpeg_exif(data: bytes) -> bytes:
    """The EXIF segment (APP1) of a JPEG, or nothing."""
    at = 2
    while at + 4 <= len(data):
        marker, kind, size = struct.unpack_from(">BBH", data, at)
        if marker != 0xFF or kind in (0xDA, 0xD9):  # damaged, pixels begin, or the end
            break
        if kind == 0xE1 and data.startswith(b"Exif\0\0", at + 4):
            return data[at + 10 : at + 2 + size]
        at += 2 + size
    return b""


def _exif_texts(exif: bytes) -> dict[str, str]:
    """``key:text`` fields of an EXIF block (a TIFF directory and its EXIF sub-directory)."""
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None:
        return {}
    found: dict[str, str] = {}
    todo, seen = [struct.unpack_from(order + "I", exif, 4)[0]], set[int]()
    while todo:
        start = todo.pop()
        seen.add(start)
        for i in range(struct.unpack_from(order + "H", exif, start)[0]):
            field = start + 2 + 12 * i
            tag, kind, count, value = struct.unpack_from(order + "HHII", exif, field)
            if tag == _EXIF_IFD and value not in seen:
                todo.append(value)
            if kind == 2 and count > 4:  # text, at an offset
                raw = exif[value : value + count].rstrip(b"\0")
                key, colon, text = raw.decode("utf-8", "replace").partition(":")
                if colon and key.isidentifier():
                    found.setdefault(key.lower(), text)
    return found
