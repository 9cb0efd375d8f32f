"""Texts of MP4 and Matroska files whose bytes are put together by hand."""

from __future__ import annotations

import io
import struct

from pipegraph.graphs.load import loads
from pipegraph.graphs.video import texts

GRAPH = b'{"1": {"class_type": "X", "inputs": {"n": 3}}}'
TAGS, TAG, SIMPLE, NAME, STRING = b"\x12\x54\xc3\x67", b"\x73\x73", b"\x67\xc8", b"\x45\xa3", b"\x44\x87"


def box(kind: bytes, *parts: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def entry(number: int, text: bytes) -> bytes:
    """A text for the key of this number, from 1."""
    return box(struct.pack(">I", number), box(b"data", bytes(8), text))


def mp4(names: list[bytes] | None, *entries: bytes, version: bytes = bytes(4)) -> bytes:
    keys = [] if names is None else [box(b"keys", bytes(4), struct.pack(">I", len(names)), *names)]
    values = [box(b"ilst", *entries)] if entries else []
    meta = box(b"meta", version, box(b"hdlr", bytes(24)), *keys, *values)
    return box(b"ftyp", b"isom", bytes(4)) + box(b"moov", box(b"udta", meta))


def element(kind: bytes, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return kind + (len(data) | 1 << 56).to_bytes(8, "big") + data


def matroska(*simple: bytes) -> bytes:
    return element(b"\x1aE\xdf\xa3") + element(b"\x18\x53\x80\x67", element(TAGS, element(TAG, *simple)))


def simple_tag(name: bytes, text: bytes) -> bytes:
    return element(SIMPLE, element(NAME, name), element(STRING, text))


def read(data: bytes) -> dict[str, str]:
    return texts(io.BytesIO(data))


def test_entries_of_an_mp4_are_named_by_number() -> None:
    names = [box(b"mdta", b"Prompt"), box(b"mdta", b"workflow")]
    for version in (bytes(4), b""):  # QuickTime's has none
        found = read(mp4(names, entry(2, b"{}"), entry(1, GRAPH), version=version))
        assert found == {"prompt": GRAPH.decode(), "workflow": "{}"}


def test_numbers_without_a_name_are_left_out() -> None:
    names = [box(b"mdta", b"prompt")]
    assert read(mp4(names, entry(0, b"a"), entry(2, b"b"))) == {}
    assert read(mp4(names)) == read(mp4(None, entry(1, GRAPH))) == read(mp4(None)) == {}


def test_tags_of_a_matroska_file() -> None:
    found = read(matroska(simple_tag(b"PROMPT\0", GRAPH), simple_tag(b"workflow", b"{}"), simple_tag(b"prompt", b"no")))
    assert found == {"prompt": GRAPH.decode(), "workflow": "{}"}
    assert read(matroska(element(NAME, b"a"), element(STRING, b"outside a simple tag"))) == {}


def test_a_clip_is_read_as_its_graph() -> None:
    for clip in (mp4([box(b"mdta", b"prompt")], entry(1, GRAPH)), matroska(simple_tag(b"prompt", GRAPH))):
        assert loads(clip).nodes["1"].inputs == {"n": 3}
