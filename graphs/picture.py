"""The graph inside a picture: text chunks of a PNG. Standard library only."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

PNG: Final = b"\x89PNG\r\n\x1a\n"
MAX_TEXT: Final = 64 << 20
"""Bytes of one unpacked text."""


def is_picture(data: bytes) -> bool:
    """Whether the bytes are a PNG."""
    return data.startswith(PNG)


def texts(data: bytes) -> dict[str, str]:
    """Keyword -> text of a PNG's tEXt, zTXt and iTXt chunks (PNG specification, 11.3.3). What is cut off is left out."""
    found: dict[str, str] = {}
    for kind, body in _chunks(data):
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
        found[key.decode("latin-1")] = text
    return found


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(PNG)
    while at + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, data[at + 8 : at + 8 + size]
        at += size + 12


def _unpack(data: bytes) -> bytes:
    return zlib.decompressobj().decompress(data, MAX_TEXT)


def _latin_or_utf8(raw: bytes) -> str:
    """The specification says Latin-1; several writers put UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
