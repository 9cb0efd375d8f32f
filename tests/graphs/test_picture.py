"""Reading the texts inside picture files, whoever wrote them."""

from __future__ import annotations

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from pipegraph.graphs import texts as limited
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.picture import is_picture, read_metadata, texts

GRAPH = '{"1": {"text": "猫🐈 \\"x\\" 0"}}'


def png(info: PngImagePlugin.PngInfo | None = None) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (2, 2)).save(file, "PNG", pnginfo=info)
    return file.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunk(kind: bytes, data: bytes) -> bytes:
    whole = png()
    return whole[:33] + chunk(kind, data) + whole[33:]


def test_all_kinds_of_text_chunks() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("plain", "é")
    info.add_text("packed", "y" * 5000, zip=True)
    info.add_itxt("wide", GRAPH)
    info.add_itxt("wide packed", GRAPH, zip=True)
    assert texts(png(info)) == {"plain": "é", "packed": "y" * 5000, "wide": GRAPH, "wide packed": GRAPH}


def test_utf_8_where_latin_1_belongs() -> None:
    assert texts(with_chunk(b"tEXt", b"prompt\0" + GRAPH.encode())) == {"prompt": GRAPH}


def test_the_first_of_a_repeated_key_counts() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("k", "1")
    info.add_text("k", "2")
    assert texts(png(info)) == {"k": "1"}


def test_a_text_that_unpacks_to_more_than_the_limit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "TEXT_BYTES", 1100)
    assert len(texts(with_chunk(b"zTXt", b"k\0\0" + zlib.compress(b"x" * 1000)))["k"]) == 1000
    bomb = zlib.compress(b"x" * 1101)
    assert texts(with_chunk(b"zTXt", b"k\0\0" + bomb)) == {}
    assert texts(with_chunk(b"iTXt", b"k\0\1\0\0\0" + bomb)) == {}


def test_damaged_chunks_are_left_out() -> None:
    whole = with_chunk(b"tEXt", b"k\0v")
    at = whole.index(b"k\0v")
    assert texts(whole) == {"k": "v"}
    assert texts(whole[:at] + b"k\0w" + whole[at + 3 :]) == {}
    for end in range(len(whole)):
        assert texts(whole[:end]) in ({}, {"k": "v"})


@pytest.mark.parametrize("form", ["WEBP", "JPEG"])
def test_exif_as_comfyui_writes_it(tmp_path: Path, form: str) -> None:
    exif = Image.Exif()
    exif[0x0110] = "prompt:" + json.dumps(json.loads(GRAPH))  # Model
    exif[0x010F] = 'workflow:{"nodes": []}'  # Make
    exif[0x0131] = "some program 1:2"
    exif[0x0112] = 1
    path = tmp_path / "a"
    Image.new("RGB", (4, 4)).save(path, form, exif=exif)
    found = read_metadata(path)
    assert json.loads(found.pop("prompt")) == json.loads(GRAPH)
    assert found == {"workflow": '{"nodes": []}'}
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        assert set(texts(whole[:end])) <= {"prompt", "workflow"}


@pytest.mark.parametrize("form", ["WEBP", "JPEG", "PNG"])
def test_pictures_without_text(tmp_path: Path, form: str) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "a", form)
    assert is_picture((tmp_path / "a").read_bytes()[:12]) and read_metadata(tmp_path / "a") == {}


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"{}")
    with pytest.raises(ValueError, match=r"a\.png is no PNG, JPEG, WebP, AVIF, TIFF or EXR picture"):
        read_metadata(tmp_path / "a.png")


def test_an_exif_directory_that_names_itself_ends() -> None:
    ring = b"MM\0*" + struct.pack(">I", 8) + struct.pack(">H", 1) + struct.pack(">HHII", 0x8769, 4, 1, 8)
    jpeg = b"\xff\xd8\xff\xe1" + struct.pack(">H", len(ring) + 8) + b"Exif\0\0" + ring + b"\xff\xd9"
    assert texts(jpeg) == {}


@pytest.mark.parametrize("name", ["a.gif", "a.png", "a.bmp", "a.tif"])
def test_media_without_a_graph_are_told_as_that(tmp_path: Path, name: str) -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("prompt", "a red fox")
    options: dict[str, dict[str, Any]] = {"a.gif": {"comment": b"prompt: a red fox"}, "a.png": {"pnginfo": info}}
    Image.new("RGB", (8, 8), (1, 200, 3)).save(tmp_path / name, **options.get(name, {}))
    for source in (tmp_path / name, (tmp_path / name).read_bytes()):
        with pytest.raises(GraphError) as told:
            load(source) if isinstance(source, Path) else loads(source)
        assert [p.code for p in told.value.problems] == ["no_graph_in_picture"]


def test_the_comments_of_a_gif_hold_its_graph(tmp_path: Path) -> None:
    comment = b'workflow:{"nodes": []}\nprompt:{"1": {"class_type": "X", "inputs": {"n": 3}}}'
    Image.new("RGB", (2, 2)).save(tmp_path / "a.gif", comment=comment)
    graph = load(tmp_path / "a.gif")
    assert graph.nodes["1"].inputs == {"n": 3} and graph.workflow == {"nodes": []}
