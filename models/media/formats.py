"""Video file formats and the codecs each may hold. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

PICTURES: Final = ("gif", "webp", "apng", "png")
"""Formats without codecs and sound."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Settings of an ffmpeg encoder."""

    encoder: str
    pixels: str
    alpha: str = ""
    """Pixel format with alpha; empty without."""
    options: tuple[tuple[str, str], ...] = ()
    halved: bool = True
    """Chroma is subsampled, so sides must be even."""
    deep: bool = False
    """More than 8 bits."""
    least: int = 1
    """Minimum side in pixels."""
    fastest: int = 1000
    """Maximum frame rate."""
    threads: int = 0
    """Fixed thread count where results depend on it; 0: one per processor."""

    def beyond(self, width: int, height: int, fps: Fraction) -> str:
        """Why the encoder cannot take this video; empty if it can."""
        if min(width, height) < self.least:
            return f"it takes sides from {self.least} pixels on, not {width}x{height}"
        return self.too_fast(fps)

    def too_fast(self, fps: float | Fraction) -> str:
        """Why the encoder cannot take this frame rate; empty if it can."""
        return f"it takes up to {self.fastest} frames a second, not {float(fps):g}" if fps > self.fastest else ""


@dataclass(frozen=True, slots=True)
class Container:
    """A video file format."""

    format: str
    """Its name in ffmpeg."""
    codecs: tuple[str, ...]
    """Allowed codecs, the default first."""
    sound: str
    """Audio codec; empty without sound."""


CODECS: Final = {
    "h264": Codec("libx264", "yuv420p", options=(("crf", "18"),), threads=4),
    "h265": Codec("libx265", "yuv420p", options=(("crf", "20"), ("tag", "hvc1")), least=16, threads=2),
    "av1": Codec("libsvtav1", "yuv420p", options=(("crf", "28"), ("preset", "8")), least=4, fastest=240),
    "vp9": Codec("libvpx-vp9", "yuv420p", "yuva420p", (("crf", "28"), ("b", "0"), ("cpu-used", "4"))),
    "prores": Codec("prores_ks", "yuv444p10le", "yuva444p10le", (("profile", "4444"),), halved=False, deep=True),
    "ffv1": Codec("ffv1", "bgr0", "bgra", halved=False),
    "apng": Codec("apng", "rgb24", "rgba", halved=False),
}
CONTAINERS: Final = {
    "mp4": Container("mp4", ("h264", "h265", "av1", "vp9"), "aac"),
    "webm": Container("webm", ("vp9", "av1"), "libopus"),
    "mkv": Container("matroska", ("ffv1", "h264", "h265", "av1", "vp9"), "flac"),
    "mov": Container("mov", ("prores", "h264", "h265"), "pcm_s16le"),
    "apng": Container("apng", ("apng",), ""),
}
CONTAINER_OF: Final = {container.codecs[0]: kind for kind, container in CONTAINERS.items()} | {"av1": "webm"}
"""The container that a codec is saved in where the user names none; mp4 for others. av1 as in ComfyUI's SaveVideo."""


def unfit(kind: str, codec: str) -> str:
    """Why a format (not ``auto``) cannot hold a codec, as a sentence; empty if it can."""
    if codec == "auto":
        return ""
    if kind in PICTURES:
        return f"{kind} knows no codec"
    holds = CONTAINERS[kind].codecs
    return "" if codec in holds else f"{kind} holds {', '.join(holds)}, not {codec}"
