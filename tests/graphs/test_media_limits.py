"""Files made to cost time or memory: their texts are read within the limits."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

import pytest
from tests.support.cost import within

from pipegraph.graphs import picture, video
from pipegraph.limits import TEXT_BYTES

GRAPH = b'{"1": {}}'


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def exif_bomb() -> bytes:
    """A JPEG of 58 KB: 2,500 fields name one directory, whose 2,500 fields are one text."""
    text = b"prompt:" + b"x" * 200
    inner = 8 + 2 + 12 * 2400 + 4
    place = inner + 2 + 12 * 2400 + 4
    fields = struct.pack(">HHII", 0x8769, 4, 1, inner) * 2400
    texts = struct.pack(">HHII", 0x0110, 2, len(text), place) * 2400
    exif = b"MM\0*\0\0\0\x08" + struct.pack(">H", 2400) + fields + bytes(4)
    exif += struct.pack(">H", 2400) + texts + bytes(4) + text
    return b"\xff\xd8\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + b"\xff\xd9"


def packed_texts() -> bytes:
    """A PNG of 1.9 MB: 30 texts of 63 MB each."""
    packed = zlib.compress(bytes([0x78]) * (63 << 20), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(b"zTXt", b"k%d\0\0" % i + packed) for i in range(30))


def too_much_packed() -> bytes:
    """Texts that are each too long: what was unpacked of them counts."""
    packed = zlib.compress(bytes([0x78]) * (65 << 20), 9)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(b"zTXt", b"k%d\0\0" % i + packed) for i in range(30))


def long_text() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", b"prompt\0" + b"x" * 100_000_000)


def many_png_chunks() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", b"") * 1_000_000


def many_riff_chunks() -> bytes:
    return b"RIFF\0\0\0\0WEBP" + b"EXIF\0\0\0\0" * 2_000_000


def many_elements() -> bytes:
    """A Matroska file of 20 MB of empty elements, in tags inside each other."""
    void = b"\xec\x80" * 10_000_000
    tags = void
    for kind in (b"\x67\xc8", b"\x67\xc8", b"\x73\x73", b"\x12\x54\xc3\x67", b"\x18\x53\x80\x67"):
        tags = kind + (len(tags) | 1 << 56).to_bytes(8, "big") + tags
    return b"\x1aE\xdf\xa3\x80" + tags


def many_boxes() -> bytes:
    inner = struct.pack(">I4s", 8, b"meta") * 2_000_000
    return struct.pack(">I4s", 16, b"ftyp") + bytes(8) + struct.pack(">I4s", len(inner) + 8, b"moov") + inner


def many_blocks() -> bytes:
    return b"GIF89a" + bytes(7) + b"!\xfe" + b"\x01x" * 5_000_000


@pytest.mark.parametrize(
    "bomb",
    [
        exif_bomb,
        packed_texts,
        too_much_packed,
        long_text,
        many_png_chunks,
        many_riff_chunks,
        many_elements,
        many_boxes,
        many_blocks,
    ],
)
def test_a_bomb_costs_little(bomb: Callable[[], bytes]) -> None:
    data = bomb()
    read = picture.texts if picture.is_picture(data[:12]) else video.texts
    with within(40):
        texts = read(io.BytesIO(data))
    assert sum(map(len, texts.values())) <= TEXT_BYTES


def test_what_stands_before_a_bomb_is_read() -> None:
    head, text = b"\x89PNG\r\n\x1a\n", chunk(b"tEXt", b"prompt\0" + GRAPH)
    for bomb in (long_text(), too_much_packed(), many_png_chunks()):
        assert picture.texts(head + text + bomb.removeprefix(head))["prompt"] == GRAPH.decode()
