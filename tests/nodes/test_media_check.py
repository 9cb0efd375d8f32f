"""Files that cannot be loaded are told when the graph is checked, from their headers, without torch."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import pipegraph as pg
from pipegraph.containers import Source
from pipegraph.graphs.errors import GraphError
from pipegraph.models.media import check as media_check
from pipegraph.models.media.check import picture_fault, sound_fault, video_fault, video_size
from pipegraph.models.media.image_header import Header, read_header
from pipegraph.models.media.image_read import read_picture
from pipegraph.models.media.video_read import read_video
from pipegraph.nodes.video.files import save_video

from ..context import Context
from ..video.conftest import clip, frames, saved
from .png_files import chunk, deep_png, png

NOISE = np.random.default_rng(0).integers(0, 256, (40, 31, 3), np.uint8)


def written(form: str, count: int = 1, **options: Any) -> bytes:
    file = io.BytesIO()
    pictures = [Image.fromarray(np.roll(NOISE, i, 0)) for i in range(count)]
    if count > 1:
        options |= {"save_all": True, "append_images": pictures[1:]}
    pictures[0].save(file, form, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    ("form", "count", "options"),
    [
        ("PNG", 1, {}),
        ("PNG", 3, {}),
        ("JPEG", 1, {}),
        ("JPEG", 1, {"progressive": True, "comment": b"x" * 70}),
        ("WEBP", 1, {}),
        ("WEBP", 1, {"lossless": True}),
        ("WEBP", 3, {"lossless": True}),
        ("GIF", 1, {}),
        ("GIF", 3, {}),
        ("TIFF", 1, {}),
        ("TIFF", 3, {"compression": "tiff_lzw"}),
        ("BMP", 1, {}),
        ("AVIF", 1, {}),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_headers_are_read_and_cuts_are_seen(tmp_path: Path, form: str, count: int, options: dict[str, Any]) -> None:
    if form not in Image.SAVE and form == "AVIF" and not Image.registered_extensions().get(".avif"):
        pytest.skip("this Pillow has no AVIF")
    data = written(form, count, **options)
    header = read_header(Source(io.BytesIO(data)))
    kind = {"WEBP": "WebP"}.get(form, form)
    assert header == Header(kind, 31, 40, count)
    path = tmp_path / "a"
    path.write_bytes(data)
    assert picture_fault(path) == ""
    path.write_bytes(data[: len(data) // 2])
    assert "a is cut off" in picture_fault(path) or "damaged" in picture_fault(path)
    with pytest.raises(ValueError, match="cannot be read"):
        read_picture(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html>", "it is an HTML page"),
        (b"%PDF-1.7 ...........", "a PDF file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b'{"1": {}}        ', "a JSON text"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "a WAV sound file"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "an HEIF picture"),
        (b"plain words, nothing else", "of unknown kind"),
    ],
)
def test_what_a_file_is_in_place_of_a_picture(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "a.png").write_bytes(data)
    fault = picture_fault(tmp_path / "a.png")
    assert fault.startswith("a.png is no picture: it is ") and said in fault and "PNG, JPEG" in fault
    assert said in video_fault(tmp_path / "a.png")


def test_all_faults_are_told_by_validate_and_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    (tmp_path / "page.png").write_bytes(b"<html>")
    (tmp_path / "cut.jpg").write_bytes(written("JPEG")[:-300])
    (tmp_path / "good.png").write_bytes(written("PNG"))
    (tmp_path / "text.mp4").write_bytes(b"no video at all")
    context = Context(tmp_path / "out", tmp_path / "temp")
    [silent] = saved(save_video(clip(frames(3)), context, "clip"))
    (tmp_path / "silent.mp4").write_bytes(silent.read_bytes())
    nodes = {
        "1": ("LoadImage", {"image": "page.png"}),
        "2": ("LoadImageMask", {"image": "cut.jpg"}),
        "3": ("LoadImage", {"image": "good.png"}),
        "4": ("LoadVideo", {"file": "text.mp4"}),
        "5": ("LoadVideo", {"file": "silent.mp4"}),
        "6": ("LoadAudio", {"audio": "silent.mp4"}),
        "7": ("PreviewImage", {"images": ["3", 0]}),
    }
    uses = {key: {"class_type": kind, "inputs": inputs} for key, (kind, inputs) in nodes.items()}
    graph = {"pipegraph": 1, "nodes": uses}
    with pytest.raises(GraphError) as told:
        pg.load(graph).check()
    found = {p.node: p.message for p in told.value.problems}
    assert set(found) == {"1", "2", "4", "6"} and {p.code for p in told.value.problems} == {"unusable_file"}
    assert "cut.jpg is cut off" in found["2"] and "text.mp4 cannot be read as a video" in found["4"]
    assert found["6"].startswith("silent.mp4 holds no sound")
    code = (
        f"import sys, pipegraph as pg\ntry: pg.load({graph!r}).check()\nexcept pg.GraphError: pass\n"
        "print({'torch', 'numpy', 'PIL'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_sizes_are_refused_from_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(deep_png(np.zeros((1, 1, 3), np.uint16), 2))
    data[16:24] = struct.pack(">II", 60000, 60000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    (tmp_path / "bomb.png").write_bytes(data)
    assert "bomb.png is too large: it has 60000x60000 pixels" in picture_fault(tmp_path / "bomb.png")
    (tmp_path / "a.gif").write_bytes(written("GIF", 3))
    monkeypatch.setattr(media_check, "total_memory", lambda: 40 * 31 * 3 * 20 - 1)
    assert "this machine has" in picture_fault(tmp_path / "a.gif")
    assert video_fault(tmp_path / "a.gif") == ""  # goes through frame by frame
    monkeypatch.setattr(media_check, "total_memory", lambda: 40 * 31 * 3 * 20)
    assert picture_fault(tmp_path / "a.gif") == ""


def test_a_video_too_long_for_memory_is_refused_where_it_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    [path] = saved(save_video(clip(frames(50, 64, 64)), Context(tmp_path, tmp_path), "clip"))
    assert video_size(path) == (50, 64, 64)
    graph = {
        "1": {"class_type": "LoadVideo", "inputs": {"file": path.name}},
        "2": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0]}},
        "3": {"class_type": "GetVideoComponents", "inputs": {"video": ["1", 0]}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["3", 0]}},
    }
    monkeypatch.setattr(media_check, "total_memory", lambda: 50 * 64 * 64 * 12 - 1)
    with pytest.raises(GraphError) as told:
        pg.load(graph).check()
    assert [(p.node, p.input) for p in told.value.problems] == [("3", "video")]
    assert "50 frames of 64x64" in told.value.problems[0].message


PEAK = """
import sys, torch
from pathlib import Path
from PIL import Image
from pipegraph.models.media.image_read import read_picture
folder = Path(sys.argv[1])
def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
for mode in ("L", "RGB", "RGBA"):
    Image.new(mode, (3000, 3000)).save(folder / "a.png", compress_level=1)
    Image.new(mode, (9, 9)).save(folder / "b.png")
    read_picture(folder / "b.png")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = peak()
    read_picture(folder / "a.png")
    print((peak() - before) / 9e6)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux tells it")
def test_reading_takes_20_bytes_a_pixel(tmp_path: Path) -> None:
    """Peak memory in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert max(map(float, done.stdout.split())) < 21


def test_no_regular_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.png")
    for fault in (picture_fault, video_fault, sound_fault):
        assert fault(tmp_path / "pipe.png") == "pipe.png is no regular file"
        assert fault(tmp_path).endswith("is no regular file")


def test_a_live_png_is_whole(tmp_path: Path) -> None:
    """Only the end mark lacks: the pixels are there, and Pillow reads them."""
    (tmp_path / "a.png").write_bytes(written("PNG").removesuffix(chunk(b"IEND", b"")))
    assert picture_fault(tmp_path / "a.png") == "" and torch.is_tensor(read_picture(tmp_path / "a.png")[0])


@pytest.mark.parametrize(
    "text", [b"ffconcat version 1.0\nfile clip_00001_.mp4\n", b"#EXTM3U\n#EXTINF:5,\nclip_00001_.mp4\n#EXT-X-ENDLIST\n"]
)
def test_a_list_that_names_other_files_is_no_video(tmp_path: Path, text: bytes) -> None:
    saved(save_video(clip(frames(3)), Context(tmp_path, tmp_path), "clip"))
    (tmp_path / "list.mp4").write_bytes(text)
    assert "list.mp4 cannot be read as a video" in video_fault(tmp_path / "list.mp4")
    with pytest.raises(ValueError, match="cannot be read as a video"):
        read_video(tmp_path / "list.mp4")


def test_what_no_packing_can_hold_is_cut(tmp_path: Path) -> None:
    """A PNG of 60 bytes for a million pixels: zlib packs at most 1032 bytes into one."""
    (tmp_path / "a.png").write_bytes(png(1000, 1000, 8, 2, b"\0" * 100))
    assert picture_fault(tmp_path / "a.png") == "a.png is cut off: it is a PNG picture that lacks some of its pixels"


def test_a_gif_is_as_large_as_its_pictures(tmp_path: Path) -> None:
    data = bytearray(written("GIF"))
    at = data.index(b",", 13 + 3 * 256)
    data[at + 5 : at + 9] = struct.pack("<HH", 65535, 65535)
    (tmp_path / "a.gif").write_bytes(data)
    assert "a.gif is too large: it has 65535x65535 pixels" in picture_fault(tmp_path / "a.gif")


def test_room_for_texts_is_not_made_before_they_are_there(tmp_path: Path) -> None:
    body = b"WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0LIST\0\0\0\x40INFOISFT"
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    assert "its texts go on behind its end" in sound_fault(tmp_path / "a.wav")
