"""PNG files that Pillow does not write."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def chunk(kind: bytes, data: bytes) -> bytes:
    """One chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, bits: int, colour_type: int, rows: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG of filtered rows, with chunks before them."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0))
    extra = b"".join(chunk(*c) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + head + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def deep_png(pixels: np.ndarray[Any, Any], colour_type: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG with 16 bits a channel."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    return png(pixels.shape[1], pixels.shape[0], 16, colour_type, rows, *chunks)
