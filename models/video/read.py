"""Video files to clips: every picture once and in order, upright, with its transparency, at one frame rate.

Which picture is on the screen when is read from the packets, without decoding. Where the times fit an even rate, the
clip has each picture once. Else (variable frame rate) it has the file's average rate, and frame k shows the picture
that is on the screen at the middle of its time, (k + 1/2) / fps: the length stays, and sound stays in step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
import torch
from PIL import Image, ImageSequence
from torch import Tensor

from .clip import CHUNK, SLOW, Video, rate, silent
from .sound import read_sound

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BT709: Final = 1
_UNSTATED: Final = 2
"""Values of the colour space of a video frame (ITU-T H.273)."""
_DAMAGED: Final = (av.FFmpegError, OSError, SyntaxError, EOFError, struct.error)
"""What libraries raise for files that are damaged or something else."""


@dataclass(frozen=True, eq=False)
class FileFrames:
    """Frames of a video file, decoded when asked for."""

    path: Path
    width: int
    height: int
    channels: int
    turns: int
    """Quarter turns to the left that make it upright."""
    shown: tuple[int, ...]
    """How many frames of the clip each decoded picture gives."""

    @property
    def count(self) -> int:
        return sum(self.shown)

    def chunks(self) -> Iterator[Tensor]:
        pictures = _every(self.path)
        ready: list[NDArray[np.float32]] = []
        for picture, times in zip(pictures, self.shown, strict=False):
            if times:
                ready += [_pixels(picture, self.channels, self.turns)] * times
            while len(ready) >= CHUNK:
                yield torch.from_numpy(np.stack(ready[:CHUNK]))
                ready = ready[CHUNK:]
        if ready:
            yield torch.from_numpy(np.stack(ready))


def read_video(path: Path) -> tuple[Video, str]:
    """The clip of a file, and a sentence on what was done to its frame rate (empty if nothing).

    Raises:
        ValueError: the file is no video, or holds no pictures; says which file.
    """
    try:
        return _from_pillow(path) if _is_pillow(path) else _from_container(path)
    except _DAMAGED as e:
        raise ValueError(f"{path} cannot be read as a video: {e}") from e


def _from_container(path: Path) -> tuple[Video, str]:
    with av.open(str(path)) as container:
        if not container.streams.video:
            raise ValueError(f"{path} holds no pictures")
        stream = container.streams.video[0]
        base = stream.time_base or Fraction(1, 1000)
        held = [(p.pts, p.is_discard) for p in container.demux(stream) if p.size]
        starts = sorted(pts * base for pts, discarded in held if pts is not None and not discarded)
        stated = [r for r in (stream.guessed_rate, stream.average_rate) if r]
        sound = bool(container.streams.audio)
        told = stream.frames
    first = next(_decoded(path), None)
    if first is None or not starts:
        raise ValueError(f"{path} holds no pictures")
    fps, shown, said = _timing(starts, stated, base)
    if len(held) < told:
        said = f"the file is cut off: {len(held)} of {told} pictures are there" + (said and f"; {said}")
    turns = round(first.rotation / 90) % 4
    width, height = (first.height, first.width) if turns % 2 else (first.width, first.height)
    channels = 4 if any(c.is_alpha for c in first.format.components) or first.format.name == "pal8" else 3
    frames = FileFrames(path, width, height, channels, turns, shown)
    return Video(frames, fps, partial(read_sound, str(path), starts[0]) if sound else silent), said


def _timing(
    starts: Sequence[Fraction], stated: Sequence[Fraction], tick: Fraction
) -> tuple[Fraction, tuple[int, ...], str]:
    """Rate, how many frames each picture gives, and what is to be said of it.

    Args:
        starts: Times of the pictures.
        stated: Rates that the file says or ffmpeg guesses.
        tick: The unit in which the times are kept.
    """
    count, first, span = len(starts), starts[0], starts[-1] - starts[0]
    if count == 1 or not span:
        return (rate(stated[0]) if stated else Fraction(25)), (1,) * count, ""
    average = rate((count - 1) / span)
    for fps in _likely(
        [*map(rate, stated), average], (count - 1) / (span + tick), (count - 1) / max(tick, span - tick)
    ):
        if all(abs((start - first) * fps - i) < Fraction(1, 2) for i, start in enumerate(starts)):
            return fps, (1,) * count, ""
    # The first frame whose middle lies at or after the beginning of each picture, and after the last one's end.
    places = [max(0, -int(-((t - first) * average - Fraction(1, 2)) // 1)) for t in [*starts, starts[-1] + 1 / average]]
    shown = tuple(b - a for a, b in pairwise(places))
    twice, lost = sum(max(0, n - 1) for n in shown), shown.count(0)
    said = f"variable frame rate, made even at {float(average):g} a second: {twice} pictures repeated, {lost} left out"
    return average, shown, said


def _likely(found: Sequence[Fraction], low: Fraction, high: Fraction) -> list[Fraction]:
    """Rates to try, likely ones first: the usual ones among those found, the usual ones that the times allow, the rest.

    Times in whole milliseconds leave a short clip several rates; 23.99 is then rather 24000/1001.
    """
    usual = [*SLOW, *map(Fraction, range(1, 121))]
    return [*(f for f in found if f in usual), *(f for f in usual if low <= f <= high), *found]


def _every(path: Path) -> Iterator[Any]:
    """Every picture of a file; ValueError with its name where it is damaged."""
    try:
        yield from _pillow(path) if _is_pillow(path) else _decoded(path)
    except _DAMAGED as e:
        raise ValueError(f"{path} is damaged, its pictures cannot be decoded: {e}") from e


def _decoded(path: Path) -> Iterator[Any]:
    """Every picture of the first video stream, in the order of showing."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        names = {key.lower(): value for key, value in stream.metadata.items()}
        if stream.codec_context.name == "vp9" and names.get("alpha_mode") == "1":
            # ffmpeg's own decoder does not read the second picture that is the transparency.
            decoder: Any = av.CodecContext.create("libvpx-vp9", "r")
            for packet in container.demux(stream):
                yield from decoder.decode(packet if packet.size else None)
            return
        yield from container.decode(stream)


def _pixels(frame: Any, channels: int, turns: int) -> NDArray[np.float32]:
    """A decoded picture as float32 [H, W, channels], upright; 16 bits are kept where there are more than 8."""
    if isinstance(frame, Image.Image):
        return np.asarray(frame.convert("RGBA"))[..., :channels].astype(np.float32) / np.float32(255)
    deep = max(c.bits for c in frame.format.components) > 8
    kind = ("rgba64le" if deep else "rgba") if channels == 4 else ("rgb48le" if deep else "rgb24")
    told: dict[str, Any] = {"threads": 1}  # with more, libswscale sometimes leaves lines of a picture as they were
    if frame.colorspace == _UNSTATED and frame.height >= 720:
        told["src_colorspace"] = _BT709  # as players take it
    values = frame.reformat(format=kind, **told).to_ndarray().astype(np.float32)
    found: NDArray[np.float32] = values / np.float32(65535 if deep else 255)
    return np.ascontiguousarray(np.rot90(found, turns)) if turns else found


def _is_pillow(path: Path) -> bool:
    """GIF, WebP and PNG: Pillow puts their frames together and knows their transparency."""
    with path.open("rb") as file:
        head = file.read(12)
    return head[:4] == b"GIF8" or head[:8] == b"\x89PNG\r\n\x1a\n" or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def _pillow(path: Path) -> Iterator[Image.Image]:
    with Image.open(path) as file:
        for frame in ImageSequence.Iterator(file):
            yield frame.convert("RGBA")


def _from_pillow(path: Path) -> tuple[Video, str]:
    lasting: list[Fraction] = []
    clear = False
    with Image.open(path) as file:
        for frame in ImageSequence.Iterator(file):
            frame.load()
            # A frame without a time lasts a tenth of a second, as browsers have it.
            lasting.append(Fraction(frame.info.get("duration") or 100).limit_denominator(1001))
            clear = clear or _transparent(frame)
        width, height = file.size
    fps, shown, said = _merged(lasting)
    return Video(FileFrames(path, width, height, 4 if clear else 3, 0, shown), fps), said


def _transparent(frame: Image.Image) -> bool:
    alpha = frame.convert("RGBA").getchannel("A")
    return alpha.getbbox() is None or alpha.tobytes().count(255) < alpha.width * alpha.height


def _merged(lasting: Sequence[Fraction]) -> tuple[Fraction, tuple[int, ...], str]:
    """Like :func:`_timing`, for files in which equal neighbours are one picture that lasts longer (milliseconds)."""
    starts = [sum(lasting[:i], Fraction(0)) / 1000 for i in range(len(lasting))]
    # Times in whole hundredths (GIF): at 40 a second pictures last 20 and 30 ms, and none of them is two.
    half, total, count = Fraction(1, 200), sum(lasting, Fraction(0)) / 1000, len(lasting)
    for even in _likely([count / total], count / (total + half), count / max(half, total - half)):
        if min(lasting) < 30 and all(abs(start - i / even) <= half for i, start in enumerate(starts)):
            return rate(even), (1,) * count, ""
    times = [round(one / min(lasting)) for one in lasting]
    fps = rate(1000 * sum(times) / sum(lasting))
    places = [(sum(lasting[:i]) * fps / 1000, sum(times[:i])) for i in range(len(times))]
    if sum(times) < 100 * len(times) and all(abs(a - b) < Fraction(1, 2) for a, b in places):
        return fps, tuple(times), ""
    return _timing(starts, [], Fraction(1, 1000))
