"""Sound out of files, cut, and at other rates."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from pipegraph.models.media.sound import read_sound, resampled
from pipegraph.nodes.audio.files import load_audio, trim_audio_duration


def tone(hertz: int, rate: int, seconds: float) -> torch.Tensor:
    return torch.sin(2 * math.pi * hertz * torch.arange(round(seconds * rate), dtype=torch.float64) / rate).float()


def write(path: Path, samples: np.ndarray, rate: int, codec: str, kind: str) -> None:
    """A file of one sound; samples [channels, n] planar, [1, channels n] packed."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=rate, layout="stereo")
        frame = av.AudioFrame.from_ndarray(samples, format=kind, layout="stereo")
        frame.sample_rate = rate
        out.mux([*stream.encode(frame), *stream.encode(None)])


def test_load_audio(inputs: Path) -> None:
    """Whole numbers become floats, channels stay; what is no sound is told by its name."""
    whole = (torch.stack([tone(200, 8000, 0.5), 0.25 * tone(300, 8000, 0.5)]) * 32000).round().short()
    write(inputs / "a.wav", whole.T.reshape(1, -1).numpy(), 8000, "pcm_s16le", "s16")
    made = load_audio("a.wav")
    assert made["sample_rate"] == 8000 and made["waveform"].shape == (1, 2, 4000)
    assert torch.equal(made["waveform"][0], whole.float() / 32768)
    (inputs / "b.wav").write_bytes(b"no sound at all, but text")
    with pytest.raises(ValueError, match=r"b\.wav cannot be read as sound"):
        load_audio("b.wav [input]")


class Told:
    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, message: str) -> None:
        self.said.append(message)


def test_trim() -> None:
    wave, ctx = torch.arange(100.0).reshape(1, 1, 100), Told()
    context: Any = ctx
    sound = {"waveform": wave, "sample_rate": 10}

    def cut(start: float, seconds: float) -> list[float]:
        made = trim_audio_duration(sound, context, start, seconds)
        assert made["sample_rate"] == 10
        return [float(made["waveform"][0, 0, 0]), float(made["waveform"][0, 0, -1])]

    assert cut(2, 3) == [20, 49] and cut(-2, 1) == [80, 89] and cut(9, 60) == [90, 99] and not ctx.said
    assert cut(-20, 1) == [0, 9] and "lasts 10.00 s" in ctx.said[0]
    for start, seconds in ((10, 1), (3, 0)):
        with pytest.raises(ValueError, match=r"nothing is left: the sound lasts 10\.00 s"):
            cut(start, seconds)


@pytest.mark.parametrize(("old", "new"), [(44100, 16000), (16000, 48000), (22050, 16000), (8000, 8000)])
def test_a_tone_stays_itself_at_another_rate(old: int, new: int) -> None:
    made = resampled(tone(440, old, 0.3).reshape(1, 1, -1), old, new)
    wanted = tone(440, new, 0.3)
    assert made.shape == (1, 1, math.ceil(round(0.3 * old) * new / old))
    inner = slice(new // 50, len(wanted) - new // 50)
    assert (made[0, 0, : len(wanted)][inner] - wanted[inner]).abs().max() < 3e-3


def test_what_a_lower_rate_cannot_hold_is_gone() -> None:
    made = resampled(tone(12000, 44100, 0.3).reshape(1, 1, -1), 44100, 16000)
    assert made[0, 0, 400:-400].abs().max() < 0.02


@pytest.mark.parametrize("channels", [1, 2, 7, 8, 9, 16])
def test_sound_of_many_channels(tmp_path: Path, channels: int) -> None:
    """PCM of each channel comes back as it is, in WAV files written by hand."""
    wave = np.arange(1000 * channels, dtype="<i2").reshape(1000, channels)
    form = struct.pack("<HHIIHH", 1, channels, 48000, 96000 * channels, 2 * channels, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", wave.nbytes) + wave.tobytes()
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    sound = read_sound(str(tmp_path / "a.wav"))
    assert sound is not None and sound["sample_rate"] == 48000
    assert torch.equal(sound["waveform"][0], torch.from_numpy(wave.T.astype(np.float32)) / 32768)
