"""Load audio from files, and trim it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Le

from pipegraph.models import paths
from pipegraph.models.media.check import sound_fault
from pipegraph.runtime.node import FileInput, RunContext, Step, node

from ..image.files import input_file
from ..wire import Audio

_SOUNDS: Final = (
    ".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".wma", ".aiff", ".mka", ".mp4", ".mov", ".m4v", ".webm",
    ".mkv", ".avi",
)  # fmt: skip


def _find(name: str) -> list[Path]:
    return [input_file(name)]


def _names() -> list[str]:
    return [n for n in paths.names("input") if n.lower().endswith(_SOUNDS)]


@node("LoadAudio", category="audio")
def load_audio(audio: Annotated[str, FileInput(_find, _names, sound_fault)]) -> Audio:
    """Load audio: all channels at the file's sample rate.

    Args:
        audio: Name of a file among the inputs, audio or video; the first of several tracks is used.
    """
    from pipegraph.models.media.sound import read_sound

    path = input_file(audio)
    sound = read_sound(str(path))
    if sound is None:
        raise ValueError(f"{path} holds no sound")
    return sound


@node("TrimAudioDuration", category="audio")
def trim_audio_duration(
    audio: Audio,
    ctx: RunContext,
    start_index: Annotated[float, Ge(-1e9), Le(1e9), Step(0.01)] = 0.0,
    duration: Annotated[float, Ge(0), Le(1e9), Step(0.01)] = 60.0,
) -> Audio:
    """Cut a part out of audio.

    Args:
        audio: The audio.
        start_index: Start of the part in seconds; negative counts from the end.
        duration: Longest duration of the part in seconds.
    """
    wave, hertz = audio["waveform"], int(audio["sample_rate"])
    length = wave.shape[-1]
    start = round(start_index * hertz) + (length if start_index < 0 else 0)
    if start < 0:
        ctx.warn(f"the sound lasts {length / hertz:.2f} s: the part begins there, not {-start_index} s before its end")
        start = 0
    end = min(length, start + round(duration * hertz))
    if start >= end:
        raise ValueError(
            f"nothing is left: the sound lasts {length / hertz:.2f} s, wanted are {duration} s from "
            f"{start / hertz:.2f} s on"
        )
    return {**audio, "waveform": wave[..., start:end]}
