"""Open video and sound files with PyAV. Nothing heavy is imported before a file is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

FORMATS: Final = (
    "mov,mp4,matroska,webm,avi,gif,flv,asf,mpeg,mpegts,mpegvideo,wav,w64,flac,ogg,mp3,aac,aiff,caf,au,ac3,eac3,amr"
)
"""ffmpeg's readers that are used. Not among them: lists that name other files, and readers that are chosen by a file's
name whatever it holds."""


def open_media(path: str | Path) -> Any:
    """An opened container.

    Raises:
        av.FFmpegError: the file is none of the kinds, or damaged.
        OSError: it cannot be read.
    """
    import av

    return av.open(str(path), options={"format_whitelist": FORMATS, "protocol_whitelist": "file"})
