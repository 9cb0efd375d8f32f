"""Opens video and audio files with PyAV. Heavy imports happen when a file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pipegraph.containers import Source, riff_chunks

FORMATS: Final = (
    "mov,mp4,matroska,webm,avi,gif,flv,asf,mpeg,mpegts,mpegvideo,wav,w64,flac,ogg,mp3,aac,aiff,caf,au,ac3,eac3,amr"
)
"""ffmpeg demuxers in use. Excluded: playlists that refer to other files, and demuxers selected by file name."""

_LONG: Final = 1 << 20


def open_media(path: str | Path) -> Any:
    """Open a container.

    Raises:
        av.FFmpegError: the file is none of the kinds, or damaged.
        OSError: it cannot be read.
        ValueError: it names a piece that it lacks and ffmpeg would make room for.
    """
    import av

    _check_texts(Path(path))
    return av.open(str(path), options={"format_whitelist": FORMATS, "protocol_whitelist": "file"})


def _check_texts(path: Path) -> None:
    """Refuse WAV and AVI files whose metadata claims to extend beyond the end of the file."""
    with path.open("rb") as file:
        source = Source(file)
        if source.size < 12 or source.read(0, 4) != b"RIFF":
            return
        for chunk in riff_chunks(source, 12, source.size):
            if chunk.kind == b"LIST" and source.read(chunk.start, 4) == b"INFO" and chunk.stop > source.size + _LONG:
                raise ValueError("its texts go on behind its end")


def known(streams: Iterable[Any]) -> Iterator[Any]:
    """Streams with codecs that ffmpeg can decode."""
    return (stream for stream in streams if stream.codec_context is not None)
