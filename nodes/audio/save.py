"""Save and preview audio, and join it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pipegraph.runtime.node import Doc, Linked, NodeEvent, RunContext, Saved, Under, node

from ..image.files import NamePrefix, _file_name, metadata
from ..wire import Audio

AudioToSave = Annotated[Audio, Doc("Audio to save; one file for each item of a batch.")]
Mp3Quality = Literal["V0", "128k", "320k"]
OpusQuality = Literal["64k", "96k", "128k", "192k", "320k"]
_QUALITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "mp3": ("V0", "128k", "320k"),
    "opus": ("128k", "64k", "96k", "192k", "320k"),
}
"""Qualities of a format, its usual one first."""


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Report a quality that the format does not have."""
    format, quality = str(values.get("format")), values.get("format.quality")
    if quality is not None and format in _QUALITIES and quality not in _QUALITIES[format]:
        yield "format.quality", f"{format} has the qualities {', '.join(_QUALITIES[format])}, not {quality}"


@node(
    "SaveAudioAdvanced",
    category="audio",
    title="Save Audio (Advanced)",
    effect="writes",
    output_node=True,
    output="audio",
    check=_check,
)
def save_audio_advanced(
    audio: AudioToSave,
    ctx: RunContext,
    filename_prefix: NamePrefix = "audio/ComfyUI",
    format: Literal["flac", "mp3", "opus"] = "flac",
    quality: Annotated[
        Literal["V0", "64k", "96k", "128k", "192k", "320k"] | None, Under("format", "mp3", "opus")
    ] = None,
) -> Generator[NodeEvent, None, Audio]:
    """Save audio with the graph in the file's tags.

    Args:
        format: flac is lossless, of 16 bits.
        quality: V0 is the best variable bit rate of mp3, its default; opus has 128k. Others are bits a second.
    """
    if faults := dict(_check({"format": format, "format.quality": quality}, {})):
        raise ValueError(faults["format.quality"])
    usual = _QUALITIES[format][0] if format in _QUALITIES else ""
    yield from _save(audio, ctx, filename_prefix, format, quality or usual)
    return audio


@node("SaveAudio", category="audio", title="Save Audio (FLAC)", effect="writes", output_node=True, output="audio")
def save_audio(
    audio: AudioToSave, ctx: RunContext, filename_prefix: NamePrefix = "audio/ComfyUI"
) -> Generator[NodeEvent, None, Audio]:
    """Save audio as FLAC, lossless with 16 bits, and the graph in the file's tags."""
    yield from _save(audio, ctx, filename_prefix, "flac", "")
    return audio


@node("SaveAudioMP3", category="audio", title="Save Audio (MP3)", effect="writes", output_node=True, output="audio")
def save_audio_mp3(
    audio: AudioToSave, ctx: RunContext, filename_prefix: NamePrefix = "audio/ComfyUI", quality: Mp3Quality = "V0"
) -> Generator[NodeEvent, None, Audio]:
    """Save audio as MP3 with the graph in the file's tags.

    Args:
        quality: V0 is the best variable bit rate, others are bits a second.
    """
    yield from _save(audio, ctx, filename_prefix, "mp3", quality)
    return audio


@node("SaveAudioOpus", category="audio", title="Save Audio (Opus)", effect="writes", output_node=True, output="audio")
def save_audio_opus(
    audio: AudioToSave, ctx: RunContext, filename_prefix: NamePrefix = "audio/ComfyUI", quality: OpusQuality = "128k"
) -> Generator[NodeEvent, None, Audio]:
    """Save audio as Opus with the graph in the file's tags.

    Args:
        quality: Bits a second.
    """
    yield from _save(audio, ctx, filename_prefix, "opus", quality)
    return audio


@node("PreviewAudio", category="audio", effect="writes", output_node=True, output="audio")
def preview_audio(audio: Audio, ctx: RunContext) -> Generator[NodeEvent, None, Audio]:
    """Preview audio: it is saved as FLAC in the folder of temporary files.

    Args:
        audio: Audio to play.
    """
    yield from _save(audio, ctx, "preview_audio", "flac", "", temporary=True)
    return audio


@node("AudioConcat", category="audio", title="Audio Concat")
def audio_concat(audio1: Audio, audio2: Audio, direction: Literal["after", "before"] = "after") -> Audio:
    """Join two pieces of audio. The result has the higher sample rate and as many channels as the one with more.

    Mono becomes stereo by repetition; batches of one are repeated.

    Args:
        audio1: The first piece.
        audio2: The other piece.
        direction: Side of the second audio.
    """
    import torch

    from pipegraph.models.media.sound import resampled

    rate = max(int(audio["sample_rate"]) for audio in (audio1, audio2))
    first, second = (resampled(a["waveform"], int(a["sample_rate"]), rate) for a in (audio1, audio2))
    shape = [max(a, b) for a, b in zip(first.shape[:2], second.shape[:2], strict=True)]
    for wave in (first, second):
        if any(size not in (1, wanted) for size, wanted in zip(wave.shape[:2], shape, strict=True)):
            raise ValueError(
                f"audio of {first.shape[0]} items with {first.shape[1]} channels and of {second.shape[0]} items with "
                f"{second.shape[1]} channels cannot be joined"
            )
    first, second = (wave.expand(*shape, -1) for wave in (first, second))
    pair = (first, second) if direction == "after" else (second, first)
    return {"waveform": torch.cat(pair, -1), "sample_rate": rate}


def _save(
    audio: Audio, ctx: RunContext, prefix: str, kind: str, quality: str, *, temporary: bool = False
) -> Generator[NodeEvent, None, None]:
    """Write each item of a batch."""
    from pipegraph.models.media.sound_write import encode

    wave, now = audio["waveform"], datetime.now()
    for i in range(max(1, len(wave))):
        name = _file_name(prefix, 0, 0, i, now, kind)
        item = {**audio, "waveform": wave[i : i + 1]}
        data = encode(item, kind, quality, metadata(ctx.reproduce, i, len(wave)), ctx.warn)
        yield Saved(ctx.write(name, data, temporary=temporary), kind="audio", temporary=temporary)
