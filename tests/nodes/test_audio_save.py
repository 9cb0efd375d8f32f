"""Audio in files, read back; joined audio; a part of a video."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from torch import Tensor

from pipegraph.models.media.video import TensorFrames, Video
from pipegraph.nodes.audio.files import load_audio
from pipegraph.nodes.audio.save import (
    _check,
    audio_concat,
    preview_audio,
    save_audio,
    save_audio_advanced,
    save_audio_mp3,
    save_audio_opus,
)
from pipegraph.nodes.video.slice import video_slice

from ..context import Context

Drain = Callable[..., tuple[list[Any], Any]]
GRAPH = {"prompt": {"1": {"class_type": "é", "inputs": {}}}}


def tone(channels: int = 2, rate: int = 48000, seconds: float = 0.5, batch: int = 1) -> dict[str, Any]:
    t = torch.arange(round(rate * seconds)) / rate
    wave = torch.stack([(2 * torch.pi * 220 * (i + 1) * t).sin() * 0.5 for i in range(batch * channels)])
    return {"waveform": wave.reshape(batch, channels, -1), "sample_rate": rate}


@pytest.fixture
def told(tmp_path: Path) -> Context:
    return Context(tmp_path / "output", tmp_path / "temp", GRAPH)


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(path.parent))
    return load_audio(path.name)


@pytest.mark.parametrize("channels", [1, 2, 6])
def test_flac_is_exact_to_16_bits(channels: int, told: Context, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    audio = tone(channels, 44100)
    (event,), result = drain(save_audio(audio, told, "a/b"))
    assert event.path == told.output_dir / "a" / "b_00001_.flac" and event.kind == "audio" and result is audio
    again = loaded(event.path, monkeypatch)
    assert again["sample_rate"] == 44100 and not told.warnings
    assert (again["waveform"] - audio["waveform"]).abs().max() <= 1 / 32768


@pytest.mark.parametrize(
    ("kind", "quality", "rate", "stored"),
    [
        ("mp3", "V0", 44100, 44100),
        ("mp3", "128k", 12345, 48000),
        ("opus", "64k", 44100, 48000),
        ("opus", None, 8000, 48000),
    ],
)
def test_lossy_formats_are_near(
    kind: Any, quality: Any, rate: int, stored: int, told: Context, drain: Drain, monkeypatch: pytest.MonkeyPatch
) -> None:
    (event,), _ = drain(save_audio_advanced(tone(1, rate), told, "x", kind, quality))
    assert event.path.suffix == f".{kind}"
    again = loaded(event.path, monkeypatch)
    wave = again["waveform"][0, 0]
    assert again["sample_rate"] == stored and abs(wave.shape[-1] / stored - 0.5) < 0.1
    spectrum = torch.fft.rfft(wave[: stored // 4]).abs()
    assert abs(int(spectrum.argmax()) * 4 - 220) <= 4
    with av.open(str(event.path)) as file:
        tags = {key.lower(): value for key, value in {**file.metadata, **file.streams[0].metadata}.items()}
    assert json.loads(tags["prompt"]) == GRAPH["prompt"]


def test_quality_is_size(told: Context, drain: Drain) -> None:
    noise = {
        "waveform": torch.randn(1, 2, 48000, generator=torch.Generator().manual_seed(1)) * 0.1,
        "sample_rate": 48000,
    }

    def size(node: Any) -> int:
        ((event,), _) = drain(node)
        length: int = event.path.stat().st_size
        return length

    low, high = (size(save_audio_mp3(noise, told, "x", q)) for q in ("128k", "320k"))
    assert 2 < high / low < 3 and low == pytest.approx(16000, rel=0.1)
    assert size(save_audio_opus(noise, told, "x", "64k")) < size(save_audio_opus(noise, told, "x", "192k")) / 2


def test_batches_channels_and_nothing(told: Context, drain: Drain) -> None:
    events, _ = drain(save_audio(tone(batch=2), told, "x"))
    assert [e.path.name for e in events] == ["x_00001_.flac", "x_00002_.flac"]
    drain(save_audio_mp3(tone(6), told, "x"))
    assert told.warnings == ["MP3 holds no 6 channels: they are mixed to one"]
    with pytest.raises(ValueError, match="there is no audio to save"):
        drain(save_audio({"waveform": torch.zeros(1, 2, 0), "sample_rate": 48000}, told))
    (event,), _ = drain(preview_audio(tone(), told))
    assert event.temporary and event.path.is_relative_to(told.temp_dir)
    assert next(iter(_check({"format": "mp3", "format.quality": "64k"}, {})))[0] == "format.quality"
    assert not [*_check({"format": "flac", "format.quality": None}, {})]
    with pytest.raises(ValueError, match="opus has the qualities 128k, 64k, 96k, 192k, 320k, not V0"):
        drain(save_audio_advanced(tone(), told, "x", "opus", "V0"))


def test_joined_audio() -> None:
    one, two = tone(1, 24000, 0.25), tone(2, 48000, 0.5)
    made = audio_concat(one, two)
    assert made["sample_rate"] == 48000 and made["waveform"].shape == (1, 2, 36000)
    assert torch.equal(made["waveform"][..., 12000:], two["waveform"])
    assert torch.equal(made["waveform"][0, 0, :12000], made["waveform"][0, 1, :12000])
    assert torch.equal(audio_concat(two, one, "before")["waveform"], made["waveform"])
    with pytest.raises(ValueError, match="2 items with 2 channels and of 3 items with 2 channels cannot be joined"):
        audio_concat(tone(batch=2), tone(batch=3))


def video(count: int = 30, fps: int = 10) -> Video:
    frames = (torch.arange(count) / count)[:, None, None, None].expand(-1, 4, 4, 3)
    audio = {"waveform": torch.arange(count * 100.0)[None, None], "sample_rate": 100 * fps}
    return Video(TensorFrames(frames), Fraction(fps), lambda: audio)


def frames(part: Video) -> list[int]:
    images: Tensor = part.images()
    assert len(images) == part.frames.count and part.frames.channels == 3
    return [round(30 * float(v)) for v in images[:, 0, 0, 0]]


def test_a_part_of_a_video(told: Context) -> None:
    part = video_slice(video(), told, 0.9, 1.1)
    assert frames(part) == list(range(9, 20)) and part.fps == 10
    sound = part.audio()
    assert sound and sound["waveform"][0, 0, [0, -1]].tolist() == [900, 1999]
    assert frames(video_slice(video(), told, -0.5)) == list(range(25, 30))
    assert frames(video_slice(part, told, 0.5, 0.2, True)) == [14, 15]
    assert frames(video_slice(video(), told)) == list(range(30)) and not told.warnings
    assert frames(video_slice(video(), told, 2.5, 5.0)) == list(range(25, 30))
    assert told.warnings == ["the video lasts 3.00 s: of 5 s from 2.5 s on what there is is taken"]
    with pytest.raises(ValueError, match=r"it has no 5 s from 2\.5 s on"):
        video_slice(video(), told, 2.5, 5.0, True)
    with pytest.raises(ValueError, match=r"nothing is left: the video lasts 3\.00 s, wanted from 3 s on"):
        video_slice(video(), told, 3.0)
