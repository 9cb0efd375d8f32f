"""Audio to files: FLAC, MP3 and Opus, with metadata as tags."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Final

import av

from .sound import LAYOUTS, Track, fitted
from .video import Audio

_KINDS: Final = {"flac": ("flac", "flac"), "mp3": ("mp3", "libmp3lame"), "opus": ("ogg", "libopus")}
"""Container and encoder of ffmpeg."""


def encode(audio: Audio, kind: str, quality: str, texts: Mapping[str, str], warn: Callable[[str], None]) -> bytes:
    """The first item of AUDIO as an encoded file.

    Args:
        audio: Of 1, 2, 6 or 8 channels (MP3: 1 or 2); others are mixed to one.
        kind: flac (16 bits), mp3 or opus.
        quality: ``V0`` (the best variable rate of MP3) or a bit rate such as ``128k``; empty for flac.
        texts: Tags of the file.
        warn: Called with what is lost.
    """
    wave, hertz = audio["waveform"], int(audio["sample_rate"])
    if wave.ndim != 3 or not wave.numel() or hertz <= 0:
        raise ValueError(f"there is no audio to save: waveform {list(wave.shape)} at {hertz} Hz")
    if kind == "mp3" and wave.shape[1] > 2 and wave.shape[1] in LAYOUTS:
        warn(f"MP3 holds no {wave.shape[1]} channels: they are mixed to one")
        audio = {**audio, "waveform": wave.mean(1, keepdim=True)}
    repaired = fitted(audio, Fraction(wave.shape[-1], hertz), warn)
    assert repaired is not None  # it is None for what was refused above
    options = {} if not quality else {"flags": "+qscale", "global_quality": "0"}
    if quality.endswith("k"):
        options = {"b": f"{quality.removesuffix('k')}000"}
    file = io.BytesIO()
    container, encoder = _KINDS[kind]
    with av.open(file, "w", format=container) as output:
        track = Track(output, encoder, *repaired, options, texts if container == "ogg" else {})
        for key, text in texts.items():
            output.metadata[key] = text
        for packets in (track.until(Fraction(wave.shape[-1], hertz)), track.rest()):
            output.mux(list(packets))
    return file.getvalue()
