"""Cut a part out of a video."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node

from ..wire import Audio, Video

Seconds = Annotated[float, Ge(0), Step(0.001)]


@node("Video Slice", category="image/video", title="Trim Video")
def video_slice(
    video: Video,
    ctx: RunContext,
    start_time: Annotated[float, Ge(-1e5), Le(1e5), Step(0.001)] = 0.0,
    duration: Seconds = 0.0,
    strict_duration: bool = False,
) -> Video:
    """Cut a part out of a video, with its audio; times are rounded to whole frames.

    Args:
        video: Video to cut.
        start_time: Start of the part in seconds; negative counts from the end.
        duration: Duration of the part in seconds; 0 is the rest.
        strict_duration: Fail if the video ends before; else the part is shorter, with a warning.
    """
    from pipegraph.models.media.video import FramesPart, silent
    from pipegraph.models.media.video import Video as VideoValue

    count, fps = video.frames.count, video.fps
    start = round(start_time * fps) + (count if start_time < 0 else 0)
    wanted = max(1, round(duration * fps)) if duration else max(0, count - max(start, 0))
    if start >= count or wanted < 1:
        raise ValueError(
            f"nothing is left: the video lasts {float(video.seconds):.2f} s, wanted from {start_time:g} s on"
        )
    if start < 0 or start + wanted > count:
        part = f"{duration:g} s from {start_time:g} s on"
        if strict_duration:
            raise ValueError(f"the video lasts {float(video.seconds):.2f} s: it has no {part}")
        ctx.warn(f"the video lasts {float(video.seconds):.2f} s: of {part} what there is is taken")
        start = max(start, 0)
        wanted = min(wanted, count - start)

    def sound() -> Audio | None:
        whole = video.audio()
        if whole is None:
            return None
        hertz = int(whole["sample_rate"])
        first, last = (round(frame / fps * hertz) for frame in (start, start + wanted))
        return {**whole, "waveform": whole["waveform"][..., first:last]}

    return VideoValue(FramesPart(video.frames, start, wanted), fps, silent if video.audio is silent else sound)
