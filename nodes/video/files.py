"""Load videos from files and save them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Le

from pipegraph.generators import converted
from pipegraph.models import paths
from pipegraph.models.media.check import video_fault
from pipegraph.models.media.formats import CODECS, PICTURES, unfit
from pipegraph.runtime.node import (
    FileInput,
    Formerly,
    Linked,
    NodeEvent,
    Progress,
    RunContext,
    Saved,
    Step,
    Under,
    node,
)

from ..image.files import NamePrefix, _file_name, input_file, write_pictures
from ..wire import Image, Video

if TYPE_CHECKING:
    from pipegraph.models.media.video import Video as VideoValue
    from pipegraph.models.media.video_write import VideoTarget

_VIDEOS: Final = (".mp4", ".mov", ".m4v", ".webm", ".mkv", ".avi", ".gif", ".webp", ".png", ".apng")


def _find(name: str) -> list[Path]:
    return [input_file(name)]


def _names() -> list[str]:
    return [n for n in paths.names("input") if n.lower().endswith(_VIDEOS)]


InputVideo = Annotated[str, FileInput(_find, _names, video_fault)]
AnimationFps = Annotated[float, Ge(0.01), Le(1000), Step(0.01)]


@node("LoadVideo", category="image/video", title="Load Video")
def load_video(file: InputVideo, ctx: RunContext) -> Video:
    """Load a video: frames in order, upright, with transparency and audio.

    Frames are decoded lazily. A file with a variable frame rate gets its average rate: frame k is the image on screen
    at the middle of its time, so length and audio stay in sync.

    Args:
        file: Name of a file among the inputs: MP4, MOV, WebM, Matroska, AVI, or an animated GIF, WebP or PNG.
    """
    from pipegraph.models.media.video_read import read_video

    video, warning = read_video(input_file(file))
    if warning:
        ctx.warn(warning)
    return video


_FORMATS: Final = ("auto", "mp4", "webm", "mkv", "mov", "gif", "webp", "apng", "png")
_CRF: Final = {"h264": 51, "av1": 63}
"""Greatest value of crf, by codec."""
_USUAL_CRF: Final = {"h264": 23.0, "av1": 30.0}


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Report a codec that the format cannot hold or that cannot take the frame rate, and a crf it does not know."""
    format, codec = values.get("format", "auto"), values.get("format.codec", "auto")
    if format != "auto" and (why := unfit(format, codec)):
        yield "format.codec", f"{why}; auto takes its usual codec"
    crf, encoding = values.get("format.codec.encoding.crf", 0), values.get("format.codec.encoding")
    if encoding == "re-encode" and codec in _CRF and isinstance(crf, int | float) and crf > _CRF[codec]:
        yield "format.codec.encoding.crf", f"crf of {codec} is at most {_CRF[codec]}"
    source, literals = linked.get("video", ("", {}))
    if source == "CreateVideo":
        yield from _too_fast("format.codec", codec, literals.get("fps"))


def _check_webm(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    return _too_fast("codec", values.get("codec"), values.get("fps"))


def _too_fast(port: str, codec: Any, fps: Any) -> Iterable[tuple[str, str]]:
    """Report a codec that cannot take a frame rate; nothing if codec or rate is unknown."""
    if codec in CODECS and isinstance(fps, int | float) and (why := CODECS[codec].too_fast(fps)):
        yield port, f"{codec} cannot take this frame rate: {why}"


@node(
    "SaveVideo",
    category="image/video",
    title="Save Video",
    effect="writes",
    output_node=True,
    output="video",
    check=_check,
)
def save_video(
    video: Video,
    ctx: RunContext,
    filename_prefix: NamePrefix = "video/ComfyUI",
    format: Literal["auto", "mp4", "webm", "mkv", "mov", "gif", "webp", "apng", "png"] = "auto",
    codec: Annotated[
        Literal["auto", "h264", "h265", "av1", "vp9", "prores", "ffv1"], Under("format", *_FORMATS), Formerly("codec")
    ] = "auto",
    encoding: Annotated[Literal["auto", "re-encode"], Under("format.codec", *_CRF)] = "auto",
    crf: Annotated[float, Ge(0), Le(63), Step(1), Under("format.codec.encoding", "re-encode")] | None = None,
) -> Generator[NodeEvent, None, Video]:
    """Save a video with the graph embedded; frames are encoded one by one.

    h264, h265, av1 and vp9 need even sides: odd sides repeat the last row or column. Transparency is kept by vp9 in
    webm, prores, ffv1, webp, apng, gif and png. If the encoder fails, frames are saved as PNG files and the run fails.
    Frames with NaN are saved black, then the run fails.

    Args:
        video: The video.
        format: auto: mp4, or the usual format of the codec (webm of av1); png: one file per frame.
        codec: auto: h264 in mp4, vp9 in webm, ffv1 (lossless) in mkv, prores in mov.
        encoding: auto: the usual quality; re-encode: with crf. Frames are always encoded anew.
        crf: Quality: lower is better, and a larger file; at most 51 with h264. By default 23 with h264, 30 with av1.
    """
    if format in PICTURES:
        if why := unfit(format, codec):
            ctx.warn(f"{why}: {codec} is not used")
        if video.audio() is not None:
            ctx.warn(f"{format} holds no audio: it is dropped")
    if format == "png":
        yield from _stills(video, ctx, filename_prefix)
    elif format in ("gif", "webp"):
        options = {"quality": 90, "method": 4} if format == "webp" else {}
        yield from _animation(video, ctx, filename_prefix, format, options)
    elif format == "apng":
        yield from _apng(video, ctx, filename_prefix)
    else:
        from pipegraph.models.media.video_write import VideoTarget

        chosen = video.codec if codec == "auto" and video.codec else codec
        value = _USUAL_CRF.get(codec) if crf is None else crf
        quality = {"crf": f"{value:g}"} if encoding == "re-encode" and value is not None else {}
        yield from _save(video, ctx, filename_prefix, VideoTarget.of(format, chosen, ctx.warn), **quality)
    return video


@node("SaveWEBM", category="image/video", effect="writes", output_node=True, output="images", check=_check_webm)
def save_webm(
    images: Image,
    ctx: RunContext,
    filename_prefix: NamePrefix = "ComfyUI",
    codec: Literal["vp9", "av1"] = "vp9",
    fps: AnimationFps = 24.0,
    crf: Annotated[float, Ge(0), Le(63), Step(1)] = 32.0,
) -> Generator[NodeEvent, None, Image]:
    """Save images as a WebM video.

    Args:
        images: The frames.
        codec: Video codec.
        fps: Frames a second.
        crf: Quality: lower is better, and a larger file.
    """
    from pipegraph.models.media.video_write import VideoTarget

    yield from _save(_video(images, fps), ctx, filename_prefix, VideoTarget("webm", codec), crf=f"{crf:g}")
    return images


@node("SaveAnimatedWEBP", category="image/animation", effect="writes", output_node=True, output="images")
def save_animated_webp(
    images: Image,
    ctx: RunContext,
    filename_prefix: NamePrefix = "ComfyUI",
    fps: AnimationFps = 6.0,
    lossless: bool = True,
    quality: Annotated[int, Ge(0), Le(100)] = 80,
    method: Literal["default", "fastest", "slowest"] = "default",
) -> Generator[NodeEvent, None, Image]:
    """Save images as an animated WebP.

    Args:
        images: The frames.
        fps: Frames a second; rounded to milliseconds per frame.
        lossless: Lossless compression.
        quality: Image quality, or compression effort if lossless.
        method: Compression effort.
    """
    effort = {"default": 4, "fastest": 0, "slowest": 6}[method]
    options = {"lossless": lossless, "quality": quality, "method": effort}
    yield from _animation(_video(images, fps), ctx, filename_prefix, "webp", options)
    return images


@node("SaveAnimatedPNG", category="image/animation", effect="writes", output_node=True, output="images")
def save_animated_png(
    images: Image,
    ctx: RunContext,
    filename_prefix: NamePrefix = "ComfyUI",
    fps: AnimationFps = 6.0,
    compress_level: Annotated[int, Ge(0), Le(9)] = 4,
) -> Generator[NodeEvent, None, Image]:
    """Save images as an animated PNG (lossless).

    Args:
        images: The frames.
        fps: Frames a second; rounded to milliseconds per frame.
        compress_level: Compression effort.
    """
    yield from _apng(_video(images, fps), ctx, filename_prefix, compress_level)
    return images


def _video(images: Image, fps: float) -> VideoValue:
    from .components import create_video

    return create_video(images, fps)


def _texts(ctx: RunContext) -> dict[str, str]:
    """Metadata that reproduces the video, as ASCII JSON."""
    return {key: json.dumps(value, allow_nan=False) for key, value in ctx.reproduce.items() if value}


def _save(
    video: VideoValue, ctx: RunContext, prefix: str, target: VideoTarget, **options: str
) -> Generator[NodeEvent, None, None]:
    from pipegraph.models.media.video_write import EncoderError, write_video

    file = ctx.scratch()
    try:
        steps = write_video(file, video, target, _texts(ctx), ctx.warn, **options)
        broken = yield from converted(steps, lambda done: Progress(done, video.frames.count, "frame"))
        suffix, kind = ("png", "image") if target.kind == "apng" else (target.kind, "video")
        yield Saved(ctx.write(_name(prefix, video, suffix), file), kind=kind)
    except EncoderError as error:
        yield from _stills(video, ctx, prefix)
        raise ValueError(
            f"the encoder {target.codec} cannot write this video ({error}); its frames are saved as PNG files"
        ) from error
    finally:
        file.unlink(missing_ok=True)
    _refuse(broken, video.frames.count)


def _apng(video: VideoValue, ctx: RunContext, prefix: str, level: int = 4) -> Generator[NodeEvent, None, None]:
    from pipegraph.models.media.video_write import VideoTarget

    yield from _save(video, ctx, prefix, VideoTarget("apng", "apng"), compression_level=str(level))


def _animation(
    video: VideoValue, ctx: RunContext, prefix: str, kind: str, options: Mapping[str, Any]
) -> Generator[NodeEvent, None, None]:
    from pipegraph.models.media.animated import write_animation

    if kind == "gif":
        if video.fps > 50:
            ctx.warn(
                f"gif stores times in hundredths of a second, and players slow down more than 50 frames a second: "
                f"{float(video.fps):g} frames a second are not kept"
            )
        if video.frames.channels == 4:
            ctx.warn("gif pixels are opaque or transparent: partial transparency is lost")
    file = ctx.scratch()
    try:
        broken = write_animation(file, video, kind, _texts(ctx), **options)
        yield Saved(ctx.write(_name(prefix, video, kind), file), kind="image")
    finally:
        file.unlink(missing_ok=True)
    _refuse(broken, video.frames.count)


def _stills(video: VideoValue, ctx: RunContext, prefix: str) -> Generator[NodeEvent, None, None]:
    """Write one numbered PNG per frame."""
    for part in video.frames.chunks():
        for picture in part.split(1):  # each alone: frames have no batch index
            yield from write_pictures(picture, ctx, prefix, temporary=False)


def _name(prefix: str, video: VideoValue, suffix: str) -> str:
    name = _file_name(prefix, video.frames.width, video.frames.height, 0, datetime.now())
    return f"{name.removesuffix('.png')}.{suffix}"


def _refuse(broken: list[int], count: int) -> None:
    if broken:
        which = ", ".join(map(str, broken[:10])) + (", ..." if len(broken) > 10 else "")
        raise ValueError(
            f"{len(broken)} of {count} frames ({which}) hold NaN or infinite values and are black in the saved file; "
            "a VAE or network that overflows in half precision is the usual cause: try fp32 or bf16"
        )
