"""Clips: put together, taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Gt, Le

from pipegraph.models.media.check import frames_fault, video_size
from pipegraph.runtime.node import Auto, Linked, Step, Wire, node, outputs

from ..image.files import input_file
from ..wire import Audio, Image, Video

Fps = Annotated[float, Gt(0), Le(1000), Step(1), Auto("fps")]


BitDepth = Annotated[Any, Wire("INT,STRING")]


@node("CreateVideo", category="image/video", title="Create Video")
def create_video(
    images: Image,
    fps: Fps = 30.0,
    audio: Audio | None = None,
    bit_depth: BitDepth = "auto",
    color_space: Literal["sRGB"] = "sRGB",
) -> Video:
    """Make a clip of pictures.

    Args:
        images: The frames.
        fps: Frames a second; 23.976, 29.97 and 59.94 stand for 24000/1001, 30000/1001 and 60000/1001.
        audio: Sound; it is cut, or followed by silence, where its length is another when the clip is saved.
        bit_depth: Bits a channel: 8, or `auto`, which is 8.
        color_space: Of the frames.
    """
    if bit_depth not in ("auto", 8):
        raise ValueError(f"clips have 8 bits a channel; bit_depth {bit_depth} is not supported: give 8 or auto")
    from pipegraph.models.media.video import TensorFrames, rate, silent
    from pipegraph.models.media.video import Video as Clip

    if not len(images):
        raise ValueError("there are no frames to make a clip of: the batch is empty")
    return Clip(TensorFrames(images), rate(fps), (lambda: audio) if audio is not None else silent)


@outputs
class Components:
    """What a clip is made of."""

    images: Image
    audio: Audio | None
    fps: float


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """A video file whose frames are too many to be in memory at once."""
    source, literals = linked.get("video", ("", {}))
    if source != "LoadVideo" or not isinstance(name := literals.get("file"), str):
        return
    try:
        size = video_size(input_file(name))
    except (LookupError, OSError):  # is said of the node that loads it
        return
    if size and (why := frames_fault(*size)):
        yield "video", f"{name}: {why}"


@node("GetVideoComponents", category="image/video", title="Get Video Components", check=_check)
def get_video_components(video: Video) -> Components:
    """Take a clip apart: all its frames at once, its sound, its rate.

    Args:
        video: The clip; if it has transparency, its frames have four channels.
    """
    return Components(video.images(), video.audio(), float(video.fps))
