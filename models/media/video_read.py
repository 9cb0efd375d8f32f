"""Reads video files: every frame once and in order, upright, with alpha, at a constant frame rate.

Which picture is on the screen when is read from the packets, without decoding. Where the times fit an even rate, the
video has each picture once. Else (variable frame rate) it has the file's average rate, and frame k shows the picture
that is on the screen at the middle of its time, (k + 1/2) / fps: the length stays, and sound stays in step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

from pipegraph.limits import PICTURE_PIXELS
from pipegraph.models.media.check import COVER, animation_fault
from pipegraph.models.media.image_read import DAMAGED as _BROKEN_PICTURE
from pipegraph.models.media.image_read import FORMATS, as_stored, orientation_of, turned_size
from pipegraph.models.media.opening import known, open_media
from pipegraph.models.media.whole import is_cut

from .display import Margins, margins, not_applied, orientation
from .sound import read_sound
from .video import CHUNK, SLOW, Video, rate, silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BT709: Final = 1
_UNSTATED: Final = 2
"""Unspecified colour space, and BT.709 (ITU-T H.273)."""
_CHUNK_BYTES: Final = 8 << 20
_DAMAGED: Final = (av.FFmpegError, *_BROKEN_PICTURE)
"""Exceptions of libraries for damaged or unknown files."""


@dataclass(frozen=True, eq=False)
class FileFrames:
    """Frames of a video file, decoded on demand."""

    path: Path
    width: int
    height: int
    channels: int
    orientation: int
    """EXIF orientation that makes stored frames upright."""
    cut: Margins
    """Crop of the stored frames."""
    shown: tuple[int, ...]
    """How often each decoded frame is repeated (0: dropped)."""
    deep: bool = False
    """More than 8 bits per channel."""

    @property
    def count(self) -> int:
        return sum(self.shown)

    def chunks(self) -> Iterator[Tensor]:
        pixels, filled = self._empty(), 0
        for picture, times in zip(_every(self.path), self.shown, strict=False):
            for _ in range(times):
                self._fill(pixels[filled], picture)
                filled += 1
                if filled == len(pixels):
                    yield torch.from_numpy(pixels)
                    pixels, filled = self._empty(), 0
        if filled:
            yield torch.from_numpy(pixels[:filled])

    def _empty(self) -> NDArray[np.float32]:
        """A buffer for some frames: few if they are large, since large allocations are slow."""
        size = self.height * self.width * self.channels * 4
        return np.empty((max(1, min(CHUNK, _CHUNK_BYTES // size)), self.height, self.width, self.channels), np.float32)

    def stored(self) -> Iterator[NDArray[Any]]:
        """Every frame as integers [H, W, channels]: uint8, or uint16 if ``deep``."""
        back = {6: 8, 8: 6}.get(self.orientation, self.orientation)
        for picture, times in zip(_every(self.path), self.shown, strict=False):
            if times:
                yield from [as_stored(self._values(picture), back)] * times

    def _values(self, picture: Any) -> NDArray[Any]:
        """A decoded frame in stored orientation, cropped."""
        try:
            values = _values(picture, self.channels, self.deep)
        except av.FFmpegError as e:
            raise ValueError(f"{self.path} has colours that cannot be made RGB: {e}") from e
        left, top, right, bottom = self.cut
        values = values[top : len(values) - bottom, left : values.shape[1] - right]
        if turned_size(values.shape[1], values.shape[0], self.orientation) != (self.width, self.height):
            raise ValueError(f"{self.path} changes the size of its pictures to {values.shape[1]}x{values.shape[0]}")
        return values

    def _fill(self, pixels: NDArray[np.float32], picture: Any) -> None:
        """Write a decoded frame upright into float32 [H, W, channels]."""
        values, target = self._values(picture), as_stored(pixels, self.orientation)
        np.divide(values, np.float32(65535 if self.deep else 255), out=target, dtype=np.float32)


def read_video(path: Path) -> tuple[Video, str]:
    """The video of a file, and warnings (empty if none).

    Raises:
        ValueError: the file is no video, or holds no pictures; says which file.
    """
    try:
        return _from_pillow(path) if _is_pillow(path) else _from_container(path)
    except _DAMAGED as e:
        raise ValueError(f"{path} cannot be read as a video: {e}") from e


def _from_container(path: Path) -> tuple[Video, str]:
    with open_media(path) as container:
        stream = _pictures(container)
        base = stream.time_base or Fraction(1, 1000)
        held, first, decode = [], None, _decoder(stream)
        for packet in container.demux(stream):
            if packet.size:
                held.append((packet.pts, packet.is_discard))
            if first is None:
                first = next(iter(decode(packet)), None)
        starts = sorted(pts * base for pts, discarded in held if pts is not None and not discarded)
        stated = [r for r in (stream.guessed_rate, stream.average_rate) if r]
        sounds, expected, length = len([*known(container.streams.audio)]), stream.frames, container.duration
        if first is None or not starts:
            raise ValueError("it holds no pictures")
        warnings = [*not_applied(stream, first, sounds)]
    fps, shown, uneven = _timing(starts, stated, base)
    if len(held) < expected:
        warnings.insert(0, f"the file is cut off: {len(held)} of {expected} pictures are there")
    elif is_cut(path):
        there, whole = float(starts[-1] - starts[0] + 1 / fps), float(length or 0) / av.time_base
        of = f": {there:.2f} of {whole:.2f} s of pictures are there" if whole > there else ""
        warnings.insert(0, f"the file is cut off{of}")
    turn, slanted = orientation(first)
    cut = margins(path, first.width, first.height)
    width, height = turned_size(first.width - cut.left - cut.right, first.height - cut.top - cut.bottom, turn)
    channels = 4 if any(c.is_alpha for c in first.format.components) or first.format.name == "pal8" else 3
    frames = FileFrames(path, width, height, channels, turn, cut, shown, _is_deep(first))
    video = Video(frames, fps, partial(read_sound, str(path), starts[0]) if sounds else silent)
    return video, "; ".join(filter(None, [*warnings, slanted, uneven]))


def _pictures(container: Any) -> Any:
    """The first video stream that is not cover art."""
    for stream in known(container.streams.video):
        if not getattr(stream, "disposition", 0) & COVER:
            return stream
    raise ValueError("it holds no moving pictures")


def _timing(
    starts: Sequence[Fraction], stated: Sequence[Fraction], tick: Fraction
) -> tuple[Fraction, tuple[int, ...], str]:
    """Frame rate, repetitions of each frame, and a warning.

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
    warning = (
        f"variable frame rate, made even at {float(average):g} a second: {twice} pictures repeated, {lost} left out"
    )
    return average, shown, warning


def _likely(rates: Sequence[Fraction], low: Fraction, high: Fraction) -> list[Fraction]:
    """Candidate rates, likeliest first: standard rates in ``rates``, standard rates that fit the times, the rest.

    Times in whole milliseconds leave a short video several rates; 23.99 is then rather 24000/1001.
    """
    usual = [*SLOW, *map(Fraction, range(1, 121))]
    return [*(f for f in rates if f in usual), *(f for f in usual if low <= f <= high), *rates]


def _every(path: Path) -> Iterator[Any]:
    """Every frame of a file; ValueError with its name if it is damaged."""
    try:
        yield from _pillow(path) if _is_pillow(path) else _decoded(path)
    except _DAMAGED as e:
        raise ValueError(f"{path} is damaged, its pictures cannot be decoded: {e}") from e


def _decoded(path: Path) -> Iterator[Any]:
    """Every frame of the first video stream, in presentation order."""
    with open_media(path) as container:
        stream = _pictures(container)
        stream.thread_type = "AUTO"
        decode = _decoder(stream)
        for packet in container.demux(stream):
            yield from decode(packet)


def _decoder(stream: Any) -> Callable[[Any], Sequence[Any]]:
    """A function from a packet to its frames; the empty last packet flushes the decoder."""
    size = (stream.width or 0) * (stream.height or 0)
    # Pictures may be larger than the container says, but not as large as they please.
    most = max(4 * size, 1 << 20) if size else PICTURE_PIXELS
    stream.codec_context.options = {"max_pixels": str(most)}
    names = {key.lower(): value for key, value in stream.metadata.items()}
    library = {"vp8": "libvpx", "vp9": "libvpx-vp9"}.get(stream.codec_context.name)
    if library is None or names.get("alpha_mode") != "1":
        return lambda packet: packet.decode()
    # ffmpeg's own decoders do not read the second picture that is the transparency.
    decoder: Any = av.CodecContext.create(library, "r")
    return lambda packet: decoder.decode(packet if packet.size else None)


def _is_deep(frame: Any) -> bool:
    return any(c.bits > 8 for c in frame.format.components)


def _values(picture: Any, channels: int, deep: bool) -> NDArray[Any]:
    """A decoded frame as integers [H, W, channels] of 8 or 16 bits."""
    if isinstance(picture, Image.Image):
        return np.asarray(picture.convert("RGB" if channels == 3 else "RGBA"))
    kind = ("rgba64le" if deep else "rgba") if channels == 4 else ("rgb48le" if deep else "rgb24")
    options: dict[str, Any] = {"threads": 1}  # with more, libswscale sometimes leaves lines of a picture as they were
    if picture.colorspace == _UNSTATED and picture.height >= 720:
        options["src_colorspace"] = _BT709  # as players take it
    plane, dtype = picture.reformat(format=kind, **options).planes[0], np.dtype("<u2" if deep else "u1")
    strides = plane.line_size, channels * dtype.itemsize, dtype.itemsize
    return np.ndarray((picture.height, picture.width, channels), dtype, plane, strides=strides)


def _is_pillow(path: Path) -> bool:
    """Whether Pillow reads the file: GIF, WebP and PNG, because it handles frame disposal and transparency.

    Raises:
        ValueError: its header tells that it is damaged or too large.
    """
    if fault := animation_fault(path):
        raise ValueError(fault)
    return fault is not None


def _pillow(path: Path) -> Iterator[Image.Image]:
    with Image.open(path, formats=FORMATS) as file:
        for frame in ImageSequence.Iterator(file):
            frame.load()
            yield frame


def _from_pillow(path: Path) -> tuple[Video, str]:
    lasting: list[Fraction] = []
    clear = False
    with Image.open(path, formats=FORMATS) as file:
        turn = orientation_of(file)
        for frame in ImageSequence.Iterator(file):
            frame.load()
            # A frame without a time lasts a tenth of a second, as browsers have it.
            lasting.append(Fraction(frame.info.get("duration") or 100).limit_denominator(1001))
            clear = clear or _transparent(frame)
        width, height = turned_size(*file.size, turn)
        tick = Fraction(1, 100 if file.format == "GIF" else 1000)
    fps, shown, warning = _merged(lasting, tick)
    return Video(FileFrames(path, width, height, 4 if clear else 3, turn, Margins(), shown), fps), warning


def _transparent(frame: Image.Image) -> bool:
    if frame.mode in ("RGB", "L") and "transparency" not in frame.info:
        return False
    least, _ = frame.convert("RGBA").getchannel("A").getextrema()
    return least != 255


def _merged(lasting: Sequence[Fraction], tick: Fraction) -> tuple[Fraction, tuple[int, ...], str]:
    """Like :func:`_timing`, for formats that merge equal consecutive frames into a longer one (milliseconds)."""
    starts = [sum(lasting[:i], Fraction(0)) / 1000 for i in range(len(lasting))]
    # Times in whole hundredths (GIF): at 40 a second pictures last 20 and 30 ms, and none of them is two.
    half, total, count = tick / 2, sum(lasting, Fraction(0)) / 1000, len(lasting)
    for even in _likely([count / total], count / (total + half), count / max(half, total - half)):
        if (count == 1 or min(lasting) < 30) and all(abs(start - i / even) <= half for i, start in enumerate(starts)):
            return rate(even), (1,) * count, ""
    times = [round(t / min(lasting)) for t in lasting]
    fps = rate(1000 * sum(times) / sum(lasting))
    places = [(sum(lasting[:i]) * fps / 1000, sum(times[:i])) for i in range(len(times))]
    if sum(times) < 100 * len(times) and all(abs(a - b) < Fraction(1, 2) for a, b in places):
        return fps, tuple(times), ""
    return _timing(starts, [], Fraction(1, 1000))
