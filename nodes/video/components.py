"""Create videos from frames and audio, and split them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Gt, Le

from pipegraph.models.media.check import frames_fault, video_size
from pipegraph.runtime.node import Auto, Linked, Step, Wire, node, outputs

from ..image.files import input_file
from ..wire import Audio, Image, Video

Fps = Annotated[float, Gt(0), Le(1000), Step(1), Auto("fps")]


def _check_create(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Report what videos cannot hold yet."""
    if values.get("bit_depth") == 10:
        yield "bit_depth", "videos have 8 bits a channel: give 8 or auto"
    if values.get("color_space") in ("HDR", "HDR PQ"):
        yield "color_space", "videos are sRGB, not HDR"


@node("CreateVideo", category="image/video", title="Create Video", check=_check_create)
def create_video(
    images: Image,
    fps: Fps = 30.0,
    audio: Audio | None = None,
    bit_depth: Literal["auto", 8, 10] = "auto",
    color_space: Literal["sRGB", "HDR", "HDR PQ"] = "sRGB",
    codec: Literal["none", "auto", "h264", "av1"] = "none",
) -> Video:
    """Create a video from images.

    Args:
        images: The frames.
        fps: Frames a second; 23.976, 29.97 and 59.94 stand for 24000/1001, 30000/1001 and 60000/1001.
        audio: Audio; cut or padded with silence to the video's length when it is saved.
        bit_depth: Bits per channel: 8, or `auto`, which is 8.
        color_space: Color space of the frames; only sRGB is supported.
        codec: Codec that SaveVideo takes where its own is `auto`; none and auto leave it to SaveVideo.
    """
    if bit_depth not in ("auto", 8):
        raise ValueError(f"videos have 8 bits a channel; bit_depth {bit_depth} is not supported: give 8 or auto")
    if color_space != "sRGB":
        raise ValueError(f"videos are sRGB; color_space {color_space} is not supported")
    from pipegraph.models.media.video import TensorFrames, rate, silent
    from pipegraph.models.media.video import Video as VideoValue

    if not len(images):
        raise ValueError("no frames: the batch is empty")
    sound = (lambda: audio) if audio is not None else silent
    return VideoValue(TensorFrames(images), rate(fps), sound, "" if codec in ("none", "auto") else codec)


@outputs
class Components:
    """Frames, audio, rate, bits per channel and color space of a video."""

    images: Image
    audio: Audio | None
    fps: float
    bit_depth: Annotated[Any, Wire("COMBO")]
    color_space: Annotated[Any, Wire("COMBO")]


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Report a video file whose frames do not fit into memory."""
    source, literals = linked.get("video", ("", {}))
    if source != "LoadVideo" or not isinstance(name := literals.get("file"), str):
        return
    try:
        size = video_size(input_file(name))
    except (LookupError, OSError):  # reported at the node that loads it
        return
    if size and (why := frames_fault(*size)):
        yield "video", f"{name}: {why}"


@node("GetVideoComponents", category="image/video", title="Get Video Components", check=_check)
def get_video_components(video: Video) -> Components:
    """Split a video into all frames, audio, rate, bits per channel (8) and color space (sRGB).

    Args:
        video: The video; with transparency, frames have four channels.
    """
    return Components(video.images(), video.audio(), float(video.fps), 8, "sRGB")
