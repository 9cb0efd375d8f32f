"""The value on a VIDEO wire: lazily produced frames, an exact frame rate, and audio.

Frames are float32 [n, H, W, 3 or 4] in 0..1 and come in chunks, so a video need never be in memory as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Protocol

from torch import Tensor

from pipegraph.models.media.check import frames_fault

Audio = dict[str, Any]
"""``{"waveform": float32 [B, channels, samples], "sample_rate": int}``, as on an AUDIO wire."""
CHUNK: Final = 8
"""Frames per chunk."""
SLOW: Final = tuple(Fraction(film * 1000, 1001) for film in (24, 30, 48, 60, 120))
"""NTSC rates: film rates slowed by 1000/1001."""


class Frames(Protocol):
    """Source of a video's frames; each ``chunks()`` starts from the beginning."""

    @property
    def count(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def channels(self) -> int:
        """3, or 4 with alpha."""
        ...

    def chunks(self) -> Iterator[Tensor]:
        """float32 [n, H, W, channels] in 0..1, in order, ``count`` frames in total."""
        ...


@dataclass(frozen=True, eq=False)
class TensorFrames:
    """Frames in memory: IMAGE [T, H, W, C] with any number of channels that an image may have."""

    images: Tensor

    @property
    def count(self) -> int:
        return len(self.images)

    @property
    def height(self) -> int:
        return self.images.shape[1]

    @property
    def width(self) -> int:
        return self.images.shape[2]

    @property
    def channels(self) -> int:
        return 4 if self.images.shape[3] in (2, 4) else 3

    def chunks(self) -> Iterator[Tensor]:
        for part in self.images.split(CHUNK):
            if part.shape[3] < 3:  # gray, or gray and alpha
                part = part[..., [0, 0, 0, 1] if part.shape[3] == 2 else [0, 0, 0]]
            yield part


@dataclass(frozen=True, eq=False)
class FramesPart:
    """A range of other frames; earlier frames are decoded, later ones are not."""

    whole: Frames
    start: int
    count: int

    @property
    def width(self) -> int:
        return self.whole.width

    @property
    def height(self) -> int:
        return self.whole.height

    @property
    def channels(self) -> int:
        return self.whole.channels

    def chunks(self) -> Iterator[Tensor]:
        at, end = 0, self.start + self.count
        for part in self.whole.chunks():
            if at >= end:
                return
            if at + len(part) > self.start:
                yield part[max(0, self.start - at) : end - at]
            at += len(part)


def silent() -> None:
    """Audio of a video without audio."""


@dataclass(frozen=True, eq=False)
class Video:
    """A video. Immutable."""

    frames: Frames
    fps: Fraction
    audio: Callable[[], Audio | None] = field(default=silent, repr=False)
    """Reads the audio; from a file only on demand."""
    codec: str = ""
    """Codec for saving with ``auto``."""

    @property
    def seconds(self) -> Fraction:
        return self.frames.count / self.fps

    def images(self) -> Tensor:
        """All frames [T, H, W, C] at once.

        Raises:
            ValueError: they are more than the machine has memory for.
        """
        import torch

        if isinstance(self.frames, TensorFrames):
            return self.frames.images
        if why := frames_fault(self.frames.count, self.frames.width, self.frames.height, self.frames.channels):
            raise ValueError(why)
        images = torch.empty(self.frames.count, self.frames.height, self.frames.width, self.frames.channels)
        at = 0
        for part in self.frames.chunks():
            images[at : at + len(part)] = part
            at += len(part)
        return images[:at]


def rate(fps: float | Fraction) -> Fraction:
    """A frame rate as the exact fraction: 23.976 and 29.97 become 24000/1001 and 30000/1001.

    Raises:
        ValueError: it is not above 0.
    """
    if not math.isfinite(fps) or fps <= 0:
        raise ValueError(f"a video needs more than 0 frames a second, not {float(fps):g}")
    for slow in SLOW:
        # 23.98 and 59.94 are meant too; 24 and 23.95 are not.
        if abs(float(fps) - float(slow)) < 0.005:
            return slow
    return Fraction(fps).limit_denominator(max(1001, math.ceil(1001 / fps)))
