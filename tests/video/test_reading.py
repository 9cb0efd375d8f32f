"""Files as cameras and editors make them: uneven times, turned, with sound."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import pipegraph as pg
from pipegraph.models.media.image_read import to_levels
from pipegraph.models.media.video_read import read_video
from pipegraph.nodes.video.components import create_video
from pipegraph.nodes.video.files import load_video, save_video

from ..context import Context
from .conftest import clip, frames, saved


def tone(seconds: float, hertz: int = 44100, channels: int = 2, start: float = 0.0) -> dict[str, Any]:
    """440 Hz from ``start`` on, silence before."""
    t = torch.arange(round(seconds * hertz)) / hertz
    wave = 0.5 * torch.sin(2 * math.pi * 440 * t) * (t >= start)
    return {"waveform": wave.expand(1, channels, -1).clone(), "sample_rate": hertz}


def ffmpeg_file(path: Path, pts: list[int], base: Fraction) -> None:
    """A lossless Matroska file whose i-th picture is all gray level 10 i and is shown from pts[i] on."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "bgr0"
        stream.codec_context.time_base = base
        for i, at in enumerate(pts):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), 10 * i, np.uint8), format="rgb24")
            frame = frame.reformat(format="bgr0", threads=1)
            frame.pts, frame.time_base = at, base
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))


def levels(images: torch.Tensor) -> list[int]:
    return (images[:, 8, 8, 0] * 25.5).round().int().tolist()


def test_a_variable_rate_becomes_even_and_keeps_its_length(tmp_path: Path, context: Context) -> None:
    # Two at 40 ms, one that stands 400 ms, four at 20 ms.
    pts = [0, 40, 80, 480, 500, 520, 540]
    ffmpeg_file(tmp_path / "vfr.mkv", pts, Fraction(1, 1000))
    video, said = read_video(tmp_path / "vfr.mkv")
    assert said.startswith("variable frame rate, made even at 11.1")
    middles = [(k + 0.5) / float(video.fps) * 1000 for k in range(video.frames.count)]
    on_screen = [max(i for i, at in enumerate(pts) if at <= m) for m in middles]
    assert levels(video.images()) == on_screen
    assert float(video.seconds) == pytest.approx(0.63, abs=0.5 / float(video.fps))


def test_an_even_rate_with_rounded_times_has_each_picture_once(tmp_path: Path) -> None:
    pts = [round(i * 1001 / 24) for i in range(20)]  # 23.976 in milliseconds: 41 or 42 apart
    ffmpeg_file(tmp_path / "even.mkv", pts, Fraction(1, 1000))
    video, said = read_video(tmp_path / "even.mkv")
    assert (said, video.fps, levels(video.images())) == ("", Fraction(24000, 1001), list(range(20)))


def test_a_turned_clip_stands_upright(context: Context) -> None:
    images = frames(3, 32, 48)
    [path] = saved(save_video(clip(images), context, "clip"))
    data = bytearray(path.read_bytes())
    # The matrix in the track header, 40 bytes behind the box's name, in 16.16 fixed point: a quarter turn to the right.
    at = data.index(b"tkhd") + 4 + 40
    data[at : at + 36] = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    (turned := path.with_name("turned.mp4")).write_bytes(data)
    found = read_video(turned)[0].images()
    assert found.shape == (3, 48, 32, 3)
    assert (found - images.rot90(-1, (1, 2)))[:, 4::8, 4::8].abs().max() < 6 / 255


@pytest.mark.parametrize(("format", "hertz"), [("mp4", 44100), ("webm", 44100), ("mkv", 22050), ("mov", 48000)])
def test_sound_stays_in_step(context: Context, format: Any, hertz: int) -> None:
    [path] = saved(save_video(clip(frames(20), 16, lambda: tone(1.25, hertz, start=0.5)), context, "clip", format))
    video = read_video(path)[0]
    audio = video.audio()
    assert audio is not None and not context.warnings
    wave, got = audio["waveform"], audio["sample_rate"]
    assert got == (48000 if format == "webm" else hertz) and wave.shape[:2] == (1, 2)
    assert wave.shape[2] / got == pytest.approx(1.25, abs=1 / 16)
    begins = int((wave[0, 0].abs() > 0.1).nonzero()[0]) / got
    assert begins == pytest.approx(0.5, abs=0.01)
    assert wave[0, 0, round(0.6 * got) : round(1.1 * got)].square().mean().sqrt() == pytest.approx(0.354, abs=0.02)


@pytest.mark.parametrize(
    ("audio", "said"),
    [
        (tone(0.5), "0.50 s, the video 1.25 s: 0.75 s of silence follow"),
        (tone(3), "3.00 s, the video 1.25 s: 1.75 s are cut off"),
        ({"waveform": tone(1.25)["waveform"].index_fill(2, torch.tensor([5]), torch.nan), "sample_rate": 44100}, "NaN"),
        ({"waveform": tone(1.25)["waveform"] * 3, "sample_rate": 44100}, "clipped"),
        (tone(1.25, channels=3), "3 channels is mixed"),
        ({"waveform": torch.zeros(1, 2, 0), "sample_rate": 44100}, "left out: it has no samples"),
        (tone(1.25, 7350, 1), ""),
        (tone(1.25, 48000, 6), ""),
    ],
)
def test_sound_is_mended_and_never_costs_the_clip(context: Context, audio: Any, said: str) -> None:
    [path] = saved(save_video(create_video(frames(20), 16.0, audio), context, "clip"))
    assert (not said and not context.warnings) or any(said in w for w in context.warnings)
    video = read_video(path)[0]
    sound = video.audio()
    assert video.frames.count == 20
    if "left out" not in said:
        assert sound is not None
        assert sound["waveform"].shape[2] / sound["sample_rate"] == pytest.approx(1.25, abs=1 / 16)


def test_a_clip_makes_itself_again(tmp_path: Path) -> None:
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "embedded/apple_on_beach.png"}},
        "2": {"class_type": "ImageScale", "inputs": {"image": ["1", 0], "width": 33, "height": 18}},
        "3": {"class_type": "ImageInvert", "inputs": {"image": ["2", 0]}},
        "4": {"class_type": "ImageBatch", "inputs": {"image1": ["2", 0], "image2": ["3", 0]}},
        "5": {"class_type": "CreateVideo", "inputs": {"images": ["4", 0], "fps": 12}},
        "6": {"class_type": "SaveVideo", "inputs": {"video": ["5", 0], "filename_prefix": "v/a", "format": "mp4"}},
        "7": {"class_type": "SaveVideo", "inputs": {"video": ["5", 0], "filename_prefix": "v/b", "format": "webm"}},
        "8": {"class_type": "SaveVideo", "inputs": {"video": ["5", 0], "filename_prefix": "v/c", "format": "gif"}},
    }
    made = pg.load(graph, out=tmp_path / "a").run()
    assert [p.name for p in made.files] == ["a_00001_.mp4", "b_00001_.webm", "c_00001_.gif"]
    for file in made.files:
        again = pg.load(file, out=tmp_path / file.suffix).run()
        assert [p.read_bytes() for p in again.files] == [p.read_bytes() for p in made.files]


def test_load_video_is_a_node(tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ffmpeg_file(tmp_path / "vfr.mkv", [0, 40, 80, 480], Fraction(1, 1000))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    assert load_video("vfr.mkv", context).frames.count >= 4 and len(context.warnings) == 1


def test_damage_is_told_with_the_name_of_the_file(tmp_path: Path, context: Context) -> None:
    noise = torch.rand(30, 64, 64, 3, generator=torch.Generator().manual_seed(0))
    [path] = saved(save_video(clip(noise), context, "clip"))
    data = bytearray(path.read_bytes())
    (cut := tmp_path / "cut.mp4").write_bytes(data[: len(data) // 2])
    assert "cut off: 15 of 30 pictures" in read_video(cut)[1]
    middle = len(data) * 2 // 5
    data[middle : middle + 3000] = b"\xa5" * 3000
    (bad := tmp_path / "bad.mp4").write_bytes(data)
    video = read_video(bad)[0]
    before = list(context.output_dir.iterdir())
    with pytest.raises(ValueError, match=r"bad\.mp4 is damaged"):
        saved(save_video(video, context, "again"))
    assert list(context.output_dir.iterdir()) == before  # and not blamed on the encoder
    [gif] = saved(save_video(clip(noise), context, "clip", "gif"))
    (cut := tmp_path / "cut.gif").write_bytes(gif.read_bytes()[: gif.stat().st_size * 9 // 10])
    with pytest.raises(ValueError, match=r"cut\.gif cannot be read"):
        read_video(cut)


@pytest.mark.parametrize(("format", "codec"), [("mp4", "h264"), ("mkv", "ffv1"), ("mov", "prores"), ("gif", "auto")])
def test_the_short_way_from_file_to_file_gives_the_same(context: Context, format: Any, codec: Any) -> None:
    """Frames that stay whole numbers on their way give the file that frames in float32 give."""
    [path] = saved(save_video(clip(frames(5, 34, 50, 4)), context, "clip", format, codec))
    video = read_video(path)[0]
    short, long = (
        saved(save_video(v, context, "again", format, codec))[0].read_bytes()
        for v in (video, clip(video.images(), video.fps))
    )
    assert short == long


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_every_level_stays_itself(kind: type[np.uint8 | np.uint16]) -> None:
    full = np.iinfo(kind).max
    values = np.arange(full + 1, dtype=kind)
    assert (to_levels(torch.from_numpy(values.astype(np.float32) / np.float32(full)), kind) == values).all()
    assert to_levels(torch.tensor([-1.0, 2.0, 0.5]), kind).tolist() == [0, full, (full + 1) // 2]
