"""Encodes videos to files frame by frame.

Sizes: where a codec keeps colour at half the width and height (all but ProRes and FFV1), an odd side is made even by
repeating the last column or row. Transparency is kept by VP9 in WebM, ProRes and FFV1; elsewhere it is dropped. Colours
are written as BT.709, and the file says so.
"""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np

from .encoders import fix_threads, options_of
from .formats import CODECS, CONTAINER_OF, CONTAINERS, Codec, unfit
from .levels import levels
from .sound import Track, fitted
from .video import Video

if TYPE_CHECKING:
    from numpy.typing import NDArray

Warn = Callable[[str], None]
EncoderError: Final[type[Exception]] = av.FFmpegError


@dataclass(frozen=True, slots=True)
class VideoTarget:
    """Container and codec of a file to write."""

    kind: str
    codec: str

    @classmethod
    def of(cls, kind: str, codec: str, warn: Warn) -> VideoTarget:
        """Resolve ``auto``; if the container cannot hold the codec, its default is used with a warning."""
        if kind == "auto":
            kind = CONTAINER_OF.get(codec, "mp4")
        usual = CONTAINERS[kind].codecs[0]
        if why := unfit(kind, codec):
            warn(f"{why}: {usual} is used")
            codec = usual
        return cls(kind, usual if codec == "auto" else codec)


def write_video(
    path: Path, video: Video, target: VideoTarget, texts: Mapping[str, str], warn: Warn, **options: str
) -> Generator[int, None, list[int]]:
    """Write a video; yields the number of frames done after each, and returns those that held NaN (black in the file).

    Args:
        path: The file to write.
        video: The video.
        target: Container and codec.
        texts: Metadata of the container, e.g. the graph.
        warn: Called for changes of size, alpha and audio.
        options: More for the encoder, in place of the usual: ``crf`` (quality: lower is better), ...

    Raises:
        EncoderError: the encoder cannot do it.
    """
    container_facts, codec = CONTAINERS[target.kind], CODECS[target.codec]
    frames, transparent = video.frames, _keeps_alpha(video, target, warn)
    width, height = (side + side % 2 if codec.halved else side for side in (frames.width, frames.height))
    if (width, height) != (frames.width, frames.height):
        warn(
            f"{target.codec} needs even sides: {frames.width}x{frames.height} is padded to {width}x{height} "
            "by repeating the last row or column"
        )
    if why := codec.beyond(width, height, video.fps):
        raise EncoderError(22, why)
    sound = fitted(video.audio(), video.seconds, warn) if container_facts.sound else None
    os.environ.setdefault("SVT_LOG", "1")  # errors only
    flags = {"movflags": "use_metadata_tags+faststart"} if target.kind in ("mp4", "mov") else {}
    if target.kind == "apng":
        flags["plays"] = "0"
    broken: list[int] = []
    with av.open(str(path), "w", format=container_facts.format, options={"fflags": "bitexact", **flags}) as container:
        container.metadata.update(texts if target.kind != "apng" else {})
        stream = _stream(container, codec, video, width, height, transparent, options)
        track = Track(container, container_facts.sound, *sound) if sound else None
        done = 0
        for values in levels(frames, broken, deep=codec.deep):
            frame = _frame(values, stream.pix_fmt, width, height)
            frame.pts, frame.time_base = done, 1 / video.fps
            done += 1
            container.mux(stream.encode(frame))
            if track:
                container.mux([*track.until(done / video.fps)])
            yield done
        container.mux(stream.encode(None))
        if track:
            container.mux([*track.rest()])
    if target.kind == "apng":
        add_chunks(path, [*_animation_of_one(video)] * (done == 1) + [*_text_chunks(texts)])
    return broken


def add_chunks(png: Path, bodies: Iterable[bytes]) -> None:
    """Insert chunks, each of its type and contents, into a PNG file after the 33 bytes of its header."""
    chunks = b"".join((len(b) - 4).to_bytes(4, "big") + b + zlib.crc32(b).to_bytes(4, "big") for b in bodies)
    other = png.with_name(png.name + "-chunks")
    try:
        with png.open("rb") as old, other.open("wb") as new:
            new.write(old.read(33) + chunks)
            shutil.copyfileobj(old, new)
        other.replace(png)
    finally:
        other.unlink(missing_ok=True)


def _text_chunks(texts: Mapping[str, str]) -> Iterator[bytes]:
    for key, value in texts.items():
        yield b"tEXt" + key.encode() + b"\0" + value.encode()


def _animation_of_one(video: Video) -> Iterator[bytes]:
    """The chunks that give a single image its duration, which ffmpeg omits (PNG specification, acTL and fcTL)."""
    lasts = (1 / video.fps).limit_denominator(0xFFFF)
    yield b"acTL" + struct.pack(">II", 1, 0)
    size = video.frames.width, video.frames.height
    yield b"fcTL" + struct.pack(">IIIIIHHBB", 0, *size, 0, 0, min(lasts.numerator, 0xFFFF), lasts.denominator, 0, 0)


def _keeps_alpha(video: Video, target: VideoTarget, warn: Warn) -> bool:
    """Whether the alpha of a video can be written; warns if not."""
    if video.frames.channels != 4:
        return False
    # libvpx keeps it in a second stream, which only Matroska and WebM carry.
    if CODECS[target.codec].alpha and not (target.codec == "vp9" and target.kind == "mp4"):
        return True
    warn(
        f"{target.codec} in {target.kind} has no transparency: it is left out "
        "(webm with vp9, mov with prores and mkv with ffv1 keep it)"
    )
    return False


def _stream(
    container: Any, codec: Codec, video: Video, width: int, height: int, transparent: bool, more: Mapping[str, str]
) -> Any:
    options = {**options_of(codec, width, height), **more}
    tag = options.pop("tag", "")
    stream = container.add_stream(codec.encoder, rate=video.fps, options=options)
    stream.width, stream.height = width, height
    stream.pix_fmt = codec.alpha if transparent else codec.pixels
    context = stream.codec_context
    fix_threads(context, codec)
    if tag and container.format.name != "matroska":
        context.codec_tag = tag
    if stream.pix_fmt.startswith("yuv"):
        # ITU-T H.273: 1 is BT.709; range 1 is the one of television, 16..235.
        context.colorspace = context.color_primaries = context.color_trc = context.color_range = 1
    if transparent and codec.encoder == "libvpx-vp9":
        stream.metadata["alpha_mode"] = "1"
    return stream


def _frame(values: NDArray[Any], pixels: str, width: int, height: int) -> Any:
    """Integers [H, W, C] as a frame in the encoder's pixel format, padded to the size."""
    h, w, channels = values.shape
    if (w, h) != (width, height):
        values = np.pad(values, ((0, height - h), (0, width - w), (0, 0)), "edge")
    kind = ("rgba", "rgba64le") if channels == 4 else ("rgb24", "rgb48le")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(values), format=kind[values.itemsize - 1])
    # With more threads libswscale sometimes leaves lines of a picture as they were.
    return frame.reformat(format=pixels, dst_colorspace="ITU709" if pixels.startswith("yuv") else None, threads=1)
