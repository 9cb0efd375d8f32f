"""Audio of videos: read, resampled, and fitted to the length of the frames."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final

import av
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipegraph.limits import SILENCE_BYTES
from pipegraph.models.media.opening import known, open_media

from .video import Audio

LAYOUTS: Final = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}
"""Channel counts written as they are; others are downmixed to mono."""
AAC_RATES: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000)
MP3_RATES: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_BLOCK: Final = 4096
"""Samples encoded at a time."""
_PACKET: Final = 4096
"""Upper bound for the samples of an AAC packet."""
_LEAST_GAP: Final = 0.05
"""Gaps of at least this many seconds are filled with silence; shorter ones come from rounded timestamps."""
_LOBES, _ROLLOFF = 6, 0.99
"""Resampling filter: zero crossings on each side, and cutoff relative to the lower rate."""


def fitted(audio: Audio | None, seconds: Fraction, warn: Callable[[str], None]) -> tuple[Tensor, int] | None:
    """Samples [channels, n] and sample rate of a video's audio, with NaN repaired, as long as the video; None without.

    Longer audio is cut, shorter audio is padded with silence; with a warning if by more than a frame.
    """
    if audio is None:
        return None
    wave, hertz = audio["waveform"].detach().cpu().float(), int(audio["sample_rate"])
    if wave.ndim != 3 or not wave.numel() or hertz <= 0:
        warn(f"the sound is left out: it has no samples (waveform {list(wave.shape)} at {hertz} Hz)")
        return None
    if len(wave) > 1:
        warn(f"the first of {len(wave)} sounds is used")
    wave = wave[0]
    if broken := int((~wave.isfinite()).sum()):
        warn(f"{broken} samples of the sound are NaN or infinite and become silence")
        wave = wave.nan_to_num(0, 0, 0)
    if float(wave.abs().max()) > 1:
        warn("the sound is louder than a file can hold (beyond -1..1) and is clipped")
        wave = wave.clamp(-1, 1)
    if len(wave) not in LAYOUTS:
        warn(f"a sound of {len(wave)} channels is mixed to one; 1, 2, 6 and 8 channels are written as they are")
        wave = wave.mean(0, keepdim=True)
    wanted = round(seconds * hertz)
    missing = wanted - wave.shape[1]
    if abs(missing) > hertz / 10:
        done = f"{missing / hertz:.2f} s of silence follow" if missing > 0 else f"{-missing / hertz:.2f} s are cut off"
        warn(f"the sound lasts {wave.shape[1] / hertz:.2f} s, the video {float(seconds):.2f} s: {done}")
    return torch.nn.functional.pad(wave, (0, max(0, missing)))[:, :wanted], hertz


class Track:
    """The audio stream of a file that is being written."""

    def __init__(
        self,
        container: Any,
        codec: str,
        wave: Tensor,
        hertz: int,
        options: Mapping[str, str] = MappingProxyType({}),
        texts: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Add the stream to a container.

        Args:
            container: The file.
            codec: Encoder of ffmpeg.
            wave: Samples [channels, n].
            hertz: Their rate; encoders that do not have it get another one.
            options: Encoder options.
            texts: Tags of the stream.
        """
        self._wave: NDArray[np.float32] = wave.numpy()
        self._hertz, self._at = hertz, 0
        rates = {"aac": AAC_RATES, "libmp3lame": MP3_RATES, "libopus": (48000,)}.get(codec, (hertz,))
        self._layout = LAYOUTS[len(wave)]
        self._stream = container.add_stream(
            codec, rate=hertz if hertz in rates else 48000, layout=self._layout, options=dict(options)
        )
        self._stream.metadata.update(texts)

    def until(self, seconds: Fraction) -> Iterator[Any]:
        """Packets of the samples up to a time in seconds."""
        end = min(round(seconds * self._hertz), self._wave.shape[1])
        while self._at < end:
            part = np.ascontiguousarray(self._wave[:, self._at : min(end, self._at + _BLOCK)].T)
            frame = av.AudioFrame.from_ndarray(part.reshape(1, -1), format="flt", layout=self._layout)
            frame.sample_rate, frame.pts, frame.time_base = self._hertz, self._at, Fraction(1, self._hertz)
            self._at += len(part)
            yield from self._stream.encode(frame)

    def rest(self) -> Iterator[Any]:
        """Remaining packets of the encoder."""
        yield from self._stream.encode(None)


def read_sound(path: str, start: Fraction | None = None) -> Audio | None:
    """The first audio track of a file; None without one. Gaps are filled with silence.

    With ``start``, the time of the first frame: later audio is preceded by silence, earlier audio is cut.

    Raises:
        ValueError: the file is damaged, or something else; says which file.
    """
    try:
        return _sound(path, start)
    except (av.FFmpegError, OSError, ValueError) as e:
        raise ValueError(f"{path} cannot be read as sound: {e}") from e


def _sound(path: str, start: Fraction | None) -> Audio | None:
    with open_media(path) as container:
        stream = next(known(container.streams.audio), None)
        if stream is None:
            return None
        parts, first, hertz = _samples(container.decode(stream))
        # MP4 says how long its sound is; what its last packet has beyond, the encoder added.
        stated = round(stream.duration * stream.time_base * hertz) if stream.duration and _is_mp4(container) else 0
    if not parts:
        return None
    wave = torch.from_numpy(np.concatenate(parts)).T
    if stated and 0 < wave.shape[1] - stated < _PACKET:
        wave = wave[:, :stated]
    lead = 0 if start is None else round((first - start) * hertz)
    wave = torch.nn.functional.pad(wave, (lead, 0)) if lead > 0 else wave[:, -lead:]
    return {"waveform": wave[None].contiguous(), "sample_rate": hertz}


def _is_mp4(container: Any) -> bool:
    return "mp4" in container.format.name


def _samples(frames: Iterator[Any]) -> tuple[list[NDArray[np.float32]], Fraction, int]:
    """Decoded samples, float32 [n, channels], with gaps filled; start time; sample rate.

    Rate and channels are those of the first frame: what a stream says before it is decoded may be half of them.
    """
    parts: list[NDArray[np.float32]] = []
    resampler, begin, hertz, channels, count, room = None, Fraction(0), 0, 0, 0, 0
    for frame in frames:
        at = None if frame.pts is None else frame.pts * frame.time_base
        if resampler is None:
            hertz, channels, begin = frame.sample_rate, frame.layout.nb_channels, at or begin
            # Interleaved: PyAV counts the planes of more than seven channels wrong, and reads beyond them.
            resampler = av.AudioResampler(format="flt", layout=frame.layout, rate=hertz)
            room = SILENCE_BYTES // (4 * max(1, channels))
        gap = 0 if at is None else round((at - begin) * hertz) - count
        if hertz * _LEAST_GAP < gap <= room:
            parts.append(np.zeros((gap, channels), np.float32))
            count, room = count + gap, room - gap
        frame.pts = None
        for piece in resampler.resample(frame):
            parts.append(piece.to_ndarray().reshape(-1, channels))
            count += len(parts[-1])
    if resampler is not None:
        parts += [piece.to_ndarray().reshape(-1, channels) for piece in resampler.resample(None)]
    return parts, begin, hertz


def resampled(wave: Tensor, old: int, new: int) -> Tensor:
    """Resample [..., n]: float32 [..., ceil(n new / old)], Hann-windowed sinc interpolation.

    The filter is torchaudio's: sinc(c t) cos^2(pi c t / 12), with c 0.99 times the lower rate.
    """
    if old == new:
        return wave
    shared = math.gcd(old, new)
    old, new = old // shared, new // shared
    cut = _ROLLOFF * min(old, new) / old
    reach = math.ceil(_LOBES / cut)
    places = torch.arange(-reach, reach + old, dtype=torch.float64) - torch.arange(new)[:, None] * (old / new)
    phase = (cut * places).clamp(-_LOBES, _LOBES)
    kernel = cut * torch.sinc(phase) * torch.cos(phase * (math.pi / 2 / _LOBES)) ** 2
    rows = torch.nn.functional.pad(wave.reshape(-1, 1, wave.shape[-1]).float(), (reach, reach + old))
    out = torch.nn.functional.conv1d(rows, kernel[:, None].float().to(wave.device), stride=old)
    return out.mT.reshape(*wave.shape[:-1], -1)[..., : -(-wave.shape[-1] * new // old)]
