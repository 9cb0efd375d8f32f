"""Whether a file can be loaded as an image, video or sound, from its header before anything runs. No torch.

Each check returns a sentence, or an empty string. Faults that only decoding shows are found in the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from pipegraph.containers import Source
from pipegraph.limits import PICTURE_PIXELS
from pipegraph.memory import show_size, total_memory

from .image_header import Header, read_header
from .opening import known, open_media

PICTURE_KINDS: Final = "PNG, JPEG, WebP, GIF, TIFF, BMP, AVIF or EXR"
_VIDEO_KINDS: Final = "MP4, MOV, WebM, Matroska, AVI, or an animated GIF, WebP or PNG"
_SOUND_KINDS: Final = "WAV, FLAC, MP3, Ogg, Opus, AAC, or a video with sound"
BYTES_A_PIXEL: Final = 20
"""Memory for reading an image; 16 of them are the result."""
BYTES_A_FRAME_PIXEL: Final = 12
"""Memory per pixel of a video's frames."""
_BYTES_A_SAMPLE: Final = 8
"""Memory per sample for reading sound: the chunks, then the whole."""
_ANIMATIONS: Final = ("PNG", "WebP", "GIF")
COVER: Final = 0x400
"""Disposition of a stream that holds cover art (AV_DISPOSITION_ATTACHED_PIC)."""
_KINDS: Final = {
    b"\x89PNG": "a PNG picture", b"\xff\xd8\xff": "a JPEG picture", b"GIF8": "a GIF picture", b"BM": "a BMP picture",
    b"II*\0": "a TIFF picture", b"MM\0*": "a TIFF picture", b"8BPS": "a Photoshop file", b"%PDF": "a PDF file",
    b"%!PS": "a PostScript file", b"\x1aE\xdf\xa3": "a Matroska or WebM video", b"OggS": "an Ogg file",
    b"fLaC": "a FLAC sound file", b"ID3": "an MP3 sound file", b"PK\x03\x04": "a ZIP archive",
    b"\x1f\x8b": "a gzip archive", b"version https://git-lfs": "a Git LFS pointer, not the file itself",
    b"<!doctype html": "an HTML page", b"<html": "an HTML page", b"<svg": "an SVG drawing", b"<?xml": "an XML file",
    b"GGUF": "a GGUF model", b"{": "a JSON text",
}  # fmt: skip


def picture_fault(path: Path) -> str:
    """Why a file cannot be loaded as an image, from its header; empty if it looks fine."""
    if not path.is_file():
        return f"{path.name} is no regular file"
    header, kind = _look(path)
    if header is None:
        return f"{path.name} is no picture: it is {kind}; {PICTURE_KINDS} is wanted"
    return _header_fault(path, header)


def animation_fault(path: Path) -> str | None:
    """Why an image cannot be loaded as a video; empty if it can, None if the file is not an animated image format."""
    header, _ = _look(path)
    if header is None or header.kind not in _ANIMATIONS:
        return None
    return _header_fault(path, header._replace(frames=1))


def video_fault(path: Path) -> str:
    """Why a file cannot be loaded as a video, from its header; empty if it looks fine."""
    if not path.is_file():
        return f"{path.name} is no regular file"
    if (fault := animation_fault(path)) is not None:
        return fault
    _, kind = _look(path)
    try:
        size = _container_size(path)
    except ValueError as e:
        return f"{path.name} cannot be read as a video ({e}): it is {kind}; {_VIDEO_KINDS} is wanted"
    if size is None:
        return f"{path.name} holds no moving pictures: it is {kind}; {_VIDEO_KINDS} is wanted"
    return _size_fault(path, Header("video", size.width, size.height))


def sound_fault(path: Path) -> str:
    """Why a file cannot be loaded as sound, from its header; empty if it looks fine."""
    if not path.is_file():
        return f"{path.name} is no regular file"
    _, kind = _look(path)
    try:
        samples = _samples(path)
    except ValueError as e:
        return f"{path.name} cannot be read as sound ({e}): it is {kind}; {_SOUND_KINDS} is wanted"
    if samples is None:
        return f"{path.name} holds no sound: it is {kind}; {_SOUND_KINDS} is wanted"
    return _memory_fault(path, samples * _BYTES_A_SAMPLE)


class VideoSize(NamedTuple):
    """Frame size and count of a video file."""

    frames: int
    """Estimated from the header or the duration."""
    width: int
    height: int


def video_size(path: Path) -> VideoSize | None:
    """Frame count and size of a video file from its header; None if unknown."""
    header, _ = _look(path)
    if header is not None:
        return VideoSize(header.frames, header.width, header.height)
    try:
        return _container_size(path)
    except ValueError:
        return None


def frames_fault(count: int, width: int, height: int, channels: int = 3) -> str:
    """Why frames do not fit into memory; empty if they do."""
    needed, memory = BYTES_A_FRAME_PIXEL * channels // 3 * count * width * height, total_memory()
    if needed <= memory:
        return ""
    return (
        f"{count} frames of {width}x{height} take {show_size(needed)} of memory at once, this machine has "
        f"{show_size(memory)}; nodes that take a VIDEO go through it frame by frame"
    )


def _look(path: Path) -> tuple[Header | None, str]:
    """The header of an image, and the kind of file in words."""
    with path.open("rb") as file:
        source = Source(file)
        head = source.read(0, min(64, source.size))
        header = read_header(source)
    if header is not None:
        return header, f"a {header.kind} picture"
    if not head:
        return None, "empty"
    if head[4:8] == b"ftyp":
        return None, "an HEIF picture" if head[8:12] in (b"heic", b"heix", b"mif1", b"msf1") else "an MP4 or MOV file"
    if head.startswith(b"RIFF"):
        return None, {b"WAVE": "a WAV sound file", b"AVI ": "an AVI video"}.get(head[8:12], "a RIFF file")
    text = head.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
    return None, next((words for mark, words in _KINDS.items() if text.startswith(mark.lower())), "of unknown kind")


def _header_fault(path: Path, header: Header) -> str:
    if not header.width or not header.height:
        return f"{path.name} is a damaged {header.kind} picture: its header says no size"
    if fault := _size_fault(path, header):
        return fault
    article = "an" if header.kind in ("AVIF", "EXR") else "a"
    return f"{path.name} is cut off: it is {article} {header.kind} picture that lacks some of its pixels" * header.cut


def _size_fault(path: Path, header: Header) -> str:
    """Why an image is larger than the limit or the memory; empty if it is not."""
    pixels = header.width * header.height * header.frames
    if pixels > PICTURE_PIXELS:
        count = f"{header.frames} times " if header.frames > 1 else ""
        return (
            f"{path.name} is too large: it has {count}{header.width}x{header.height} pixels, at most "
            f"{PICTURE_PIXELS:,} are read"
        )
    return _memory_fault(path, pixels * BYTES_A_PIXEL)


def _memory_fault(path: Path, needed: int) -> str:
    memory = total_memory()
    if needed <= memory:
        return ""
    return (
        f"{path.name} is too large: reading it takes {show_size(needed)} of memory, this machine has "
        f"{show_size(memory)}"
    )


def _container_size(path: Path) -> VideoSize | None:
    """Frame size of a container's first video stream; None without one.

    Raises:
        ValueError: it cannot be opened.
    """
    import av

    try:
        with open_media(path) as container:
            for stream in known(container.streams.video):
                if not getattr(stream, "disposition", 0) & COVER:
                    frames = stream.frames or round(_seconds(container) * (stream.average_rate or 0))
                    return VideoSize(frames, stream.width or 0, stream.height or 0)
    except (av.FFmpegError, OSError) as e:
        raise ValueError(e.strerror or "damaged") from None
    return None


def _samples(path: Path) -> int | None:
    """Approximate number of samples in the first audio stream, all channels together; None without one.

    Raises:
        ValueError: it cannot be opened.
    """
    import av

    try:
        with open_media(path) as container:
            for stream in known(container.streams.audio):
                return int(_seconds(container) * stream.rate * stream.channels)
    except (av.FFmpegError, OSError) as e:
        raise ValueError(e.strerror or "damaged") from None
    return None


def _seconds(container: Any) -> float:
    """Duration stated by a container; 0 if it states none."""
    return max(0.0, (container.duration or 0) / 1e6)
