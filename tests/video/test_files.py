"""Clips to files and back: counts, rates, colours, sizes, transparency, texts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.graphs import video as video_metadata
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.graphs.picture import read_metadata
from pipegraph.models.media.animated import times
from pipegraph.models.media.video import Video, rate
from pipegraph.models.media.video_read import read_video
from pipegraph.nodes.image.edit import empty_image
from pipegraph.nodes.video.components import create_video, get_video_components
from pipegraph.nodes.video.files import save_animated_png, save_animated_webp, save_video, save_webm
from pipegraph.nodes.wire import Video as VideoWire
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.node import node

from ..context import Context
from .conftest import clip, frames, saved

LOSSY = 6 / 255
"""Largest error of a flat tile's middle that the lossy settings leave."""
GRAPH = {"prompt": {"1": {"class_type": "X", "inputs": {"text": "ü\n"}}}, "workflow": None, "pipegraph": {"a": [1]}}


def middles(images: Tensor) -> Tensor:
    """The middle of each tile of 8 pixels."""
    return images[:, 4::8, 4::8]


@pytest.mark.parametrize(
    ("format", "codec", "limit"),
    [
        ("auto", "auto", LOSSY),
        ("mp4", "h265", 2 * LOSSY),
        ("webm", "vp9", LOSSY),
        ("webm", "av1", 2 * LOSSY),
        ("auto", "prores", LOSSY),
        ("mkv", "ffv1", 0.0),
        ("webp", "auto", 3 * LOSSY),
        ("apng", "auto", 0.0),
        ("gif", "auto", 3 * LOSSY),
    ],
)
@pytest.mark.parametrize("fps", [Fraction(24000, 1001), Fraction(25)])
def test_frames_come_back(context: Context, format: Any, codec: Any, limit: float, fps: Fraction) -> None:
    context.reproduce = GRAPH
    images = frames(11, 64, 72)
    [path] = saved(save_video(clip(images, fps), context, "a/clip", format, codec))
    back, said = read_video(path)
    assert (said, back.frames.count, back.frames.height, back.frames.width) == ("", 11, 64, 72)
    assert abs(back.fps - fps) < (fps * Fraction(1, 100) if format in ("gif", "webp") else Fraction(1, 10**9))
    found = back.images()
    assert found.shape == images.shape and found.dtype == torch.float32
    assert (middles(found) - middles(images)).abs().max() <= limit + 1e-6
    assert not context.warnings and not list(context.output_dir.glob(".pipegraph*"))
    if format in ("webp", "apng"):
        texts = read_metadata(path)
    else:
        with path.open("rb") as file:
            texts = video_metadata.texts(file)
    assert {k: json.loads(v) for k, v in texts.items() if k in GRAPH} == {k: v for k, v in GRAPH.items() if v}


@pytest.mark.parametrize(("format", "codec"), [("webm", "vp9"), ("mov", "prores"), ("mkv", "ffv1"), ("apng", "auto")])
def test_transparency_comes_back(context: Context, format: Any, codec: Any) -> None:
    images = frames(6, 16, 24, channels=4)
    [path] = saved(save_video(clip(images), context, "clip", format, codec))
    found = read_video(path)[0].images()
    assert found.shape == images.shape and not context.warnings
    assert (middles(found)[..., 3] - middles(images)[..., 3]).abs().max() <= 2 / 255


def test_what_a_codec_cannot_keep_is_said(context: Context) -> None:
    images = frames(5, 17, 33, channels=4)
    [path] = saved(save_video(clip(images), context, "clip", "mp4", "ffv1"))
    assert [w.split(":")[0] for w in context.warnings] == [
        "mp4 holds h264, h265, av1, vp9, not ffv1",
        "h264 in mp4 has no transparency",
        "h264 needs even sides",
    ]
    found = read_video(path)[0].images()
    assert found.shape == (5, 18, 34, 3)
    assert (found[:, 17] - found[:, 16]).abs().max() < 0.1  # the last row twice


@pytest.mark.parametrize(("format", "codec"), [("mkv", "ffv1"), ("mov", "prores"), ("gif", "auto"), ("webp", "auto")])
def test_odd_sizes_are_kept_where_they_can_be(context: Context, format: Any, codec: Any) -> None:
    for size in ((17, 33), (1, 1)):
        [path] = saved(save_video(clip(frames(3, *size)), context, "clip", format, codec))
        assert read_video(path)[0].images().shape == (3, *size, 3)
    assert not context.warnings


def test_equal_frames_are_counted(context: Context) -> None:
    images = frames(3)[[0, 0, 0, 1, 2, 2]]
    formats: list[Any] = ["gif", "webp", "apng", "auto"]
    for format in formats:
        [path] = saved(save_video(clip(images, 16), context, "clip", format))
        back = read_video(path)[0]
        assert back.frames.count == 6, format
        found = middles(back.images())
        assert (found[0] - found[2]).abs().max() < 0.02 < (found[2] - found[3]).abs().max()


@node("MakeClip", category="test")
def make_clip() -> VideoWire:
    """Make."""
    return clip(frames(3))


@pytest.mark.parametrize(
    ("format", "codec", "told"),
    [
        ("mp4", "prores", "mp4 holds h264, h265, av1, vp9, not prores"),
        ("gif", "h264", "gif knows no codec"),
        ("mp4", "h265", ""),
        ("auto", "prores", ""),
        ("png", "auto", ""),
    ],
)
def test_a_codec_that_does_not_fit_is_told_before_anything_runs(format: str, codec: str, told: str) -> None:
    nodes = {
        "1": {"class_type": "MakeClip", "inputs": {}},
        "2": {"class_type": "SaveVideo", "inputs": {"video": ["1", 0], "format": format, "codec": codec}},
    }
    graph = load({"pipegraph": 1, "nodes": nodes})
    catalog = Catalog.of(save_video, make_clip)
    if not told:
        check(graph, catalog)
        return
    with pytest.raises(GraphError) as caught:
        check(graph, catalog)
    [problem] = caught.value.problems
    assert (problem.node, problem.input, problem.got) == ("2", "format.codec", repr(codec))
    assert told in problem.message


@pytest.mark.parametrize(("codec", "fps", "faults"), [("av1", 300, 1), ("av1", 240, 0), ("vp9", 300, 0)])
def test_a_rate_beyond_a_codec_is_refused_before_anything_runs(codec: str, fps: float, faults: int) -> None:
    document = {
        "pipegraph": 1,
        "inputs": {"rate": {"type": "FLOAT", "default": fps}},
        "nodes": {
            "frames": {"class_type": "EmptyImage", "inputs": {}},
            "video": {"class_type": "CreateVideo", "inputs": {"images": ["frames", 0], "fps": {"$input": "rate"}}},
            "mp4": {"class_type": "SaveVideo", "inputs": {"video": ["video", 0], "format": "mp4", "codec": codec}},
            "webm": {"class_type": "SaveWEBM", "inputs": {"images": ["frames", 0], "codec": codec, "fps": fps}},
        },
    }
    catalog = Catalog.of(empty_image, create_video, save_video, save_webm)
    if not faults:
        check(load(document), catalog)
        return
    with pytest.raises(GraphError) as caught:
        check(load(document), catalog)
    assert [(p.node, p.input) for p in caught.value.problems] == [("mp4", "format.codec"), ("webm", "codec")]
    assert all("up to 240 frames a second, not 300" in p.message for p in caught.value.problems)


def test_frames_as_files(context: Context) -> None:
    paths = saved(save_video(clip(frames(12)), context, "still", "png"))
    assert [p.name for p in paths] == [f"still_{i:05d}_.png" for i in range(1, 13)]


def test_frames_that_are_not_finite(context: Context) -> None:
    images = frames(4)
    images[2, 0, 0] = torch.nan
    stream = save_video(clip(images), context, "clip")
    paths = []
    with pytest.raises(ValueError, match=r"1 of 4 frames \(2\)"):
        for event in stream:
            paths.append(event)
    back = read_video(next(context.output_dir.glob("clip*.mp4")))[0].images()
    assert len(back) == 4 and middles(back)[2].max() < 0.9


def test_an_encoder_that_fails_costs_no_frame(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipegraph.models.media import video_write as write

    def broken(*_: Any) -> Any:
        raise write.EncoderError(22, "made to fail")

    monkeypatch.setattr(write, "_frame", broken)
    with pytest.raises(ValueError, match=r"h264 cannot write this video .* PNG files"):
        saved(save_video(clip(frames(3)), context, "clip"))
    assert len(list(context.output_dir.glob("*"))) == 3 == len(list(context.output_dir.glob("clip*.png")))


def test_a_cancelled_save_leaves_nothing(context: Context) -> None:
    stream = save_video(clip(frames(20)), context, "clip", "mkv")
    for _ in range(9):
        next(stream)
    assert list(context.output_dir.iterdir())
    stream.close()
    assert not list(context.output_dir.iterdir())


def test_comfyuis_animations(context: Context) -> None:
    images = frames(4, 17, 33)
    for stream in (save_animated_webp(images, context, "w"), save_animated_png(images, context, "p", 12.5)):
        [path] = saved(stream)
        back = read_video(path)[0]
        assert torch.equal(back.images(), images)
        assert back.fps == (Fraction(25, 2) if path.suffix == ".png" else pytest.approx(6, abs=0.02))
    [path] = saved(save_webm(images[:, :16, :32], context, "v", "vp9", 23.976))
    assert read_video(path)[0].fps == Fraction(24000, 1001)


def test_taken_apart(context: Context) -> None:
    images = frames(3)
    parts = get_video_components(create_video(images, 29.97))
    assert torch.equal(parts.images, images) and parts.audio is None and parts.fps == 30000 / 1001
    gray = create_video(images[..., :1], 8.0)
    assert isinstance(gray, Video) and next(iter(gray.frames.chunks())).shape[3] == 3
    with pytest.raises(ValueError, match="no frames"):
        create_video(images[:0], 8.0)


def test_rates() -> None:
    assert [rate(f) for f in (24, 23.976, 23.98, 29.97, 59.94, 12.5)] == [
        24,
        *(Fraction(n * 1000, 1001) for n in (24, 24, 30, 60)),
        Fraction(25, 2),
    ]
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="more than 0"):
            rate(wrong)
    assert rate(1e-5) == Fraction(1, 100_000)  # a picture a day has a rate, too


def test_times_do_not_drift() -> None:
    lasting = times(480, Fraction(24000, 1001), 10)
    assert sum(lasting) == 20020 and set(lasting) == {40, 50}


def test_what_is_no_video(tmp_path: Path) -> None:
    for content in (b"", b"GIF89a", b"\0\0\0 ftypisom" + bytes(40), b"hello" * 20):
        (tmp_path / "x.mp4").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.mp4"):
            read_video(tmp_path / "x.mp4")
        with (tmp_path / "x.mp4").open("rb") as file:
            assert video_metadata.texts(file) == {}


NARROW = """
import av, numpy as np
from pipegraph.models.media.encoders import options_of
from pipegraph.models.media.formats import CODECS
for w in (34, 40, 48):
    with av.open("/dev/null", "w", format="matroska") as out:
        stream = out.add_stream("libx265", rate=24, options=options_of(CODECS["h265"], w, 64))
        stream.width, stream.height, stream.pix_fmt = w, 64, "yuv420p"
        for i in range(3):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((96, w), np.uint8), format="yuv420p")))
        out.mux(stream.encode(None))
"""


def test_narrow_clips_in_h265_do_not_end_the_process() -> None:
    checked = {**os.environ, "MALLOC_CHECK_": "3"}  # what glibc finds by chance otherwise, it finds for certain
    done = subprocess.run([sys.executable, "-c", NARROW], env=checked, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("codec", "size", "fps", "told"),
    [
        ("h265", (8, 32), 24, "from 16 pixels on, not 32x8"),
        ("av1", (2, 32), 24, "from 4 pixels on, not 32x2"),
        ("av1", (16, 16), 300, "up to 240 frames a second, not 300"),
    ],
)
def test_what_an_encoder_cannot_take_is_said_in_words(
    context: Context, codec: Any, size: tuple[int, int], fps: int, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        saved(save_video(clip(frames(2, *size), fps), context, "clip", "mp4", codec))
    assert len(list(context.output_dir.glob("clip*.png"))) == 2


@pytest.mark.parametrize("fps", [40, 60])
def test_uneven_times_of_a_gif_are_one_picture_each(context: Context, fps: int) -> None:
    [path] = saved(save_video(clip(frames(9), fps), context, "clip", "gif"))
    back, said = read_video(path)
    assert (said, back.frames.count) == ("", 9) and abs(back.fps - fps) < fps / 20
    assert bool(context.warnings) == (fps > 50)


def test_only_what_a_container_knows_is_told_to_it(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    saved(save_video(clip(frames(2)), context, "clip", "webm"))
    assert not caplog.records


@pytest.mark.parametrize("format", ["gif", "webp", "apng", "mp4", "webm", "mkv", "mov"])
@pytest.mark.parametrize("fps", [Fraction(24000, 1001), 8, Fraction(1, 2), 50])
def test_a_single_frame_keeps_its_rate(context: Context, format: Any, fps: Fraction | int) -> None:
    images = frames(1)
    [path] = saved(save_video(clip(images, fps), context, "clip", format))
    back, said = read_video(path)
    assert (said, back.frames.count) == ("", 1) and back.images().shape == images.shape
    exact = format not in ("gif", "webp")
    assert back.fps == fps if exact else abs(1 / back.fps - 1 / Fraction(fps)) < Fraction(1, 200)
    if format == "webp":
        assert back.fps == fps
