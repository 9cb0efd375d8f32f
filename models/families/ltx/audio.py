"""LTX-2's audio: the spectrogram VAE (AutoencoderKLLTX2Audio) and the vocoder."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...loaded import Loaded
from ...loading.header_values import LoadError
from ...loading.networks import build
from ...media.sound import resampled
from ...vae.image import StepCount, Vae, Warn

if TYPE_CHECKING:
    from ...loading.detect import Part
    from ...loading.place import Place


WINDOW = 1024
"""FFT window of the spectrogram in samples, as in LTX-2's training; missing in diffusers' config."""
FAINT = 1e-5
"""Floor of spectrogram magnitudes before the logarithm."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AudioVae(Vae):
    """A loaded audio VAE with vocoder: normalized latents [B, channels, time, bins]."""

    vocoder: Loaded

    @property
    def bins(self) -> int:
        """Frequency bins of a latent."""
        return int(self.loaded.config.mel_bins // self.loaded.network.mel_compression_ratio)

    @property
    def per_second(self) -> float:
        """Latent time steps per second."""
        config = self.loaded.config
        return float(config.sample_rate / config.mel_hop_length / self.loaded.network.temporal_compression_ratio)

    @torch.no_grad()
    def sound(self, latent: Tensor) -> dict[str, Any]:
        """Decode latents [B, C, L, bins] to AUDIO.

        Raises:
            ValueError: they are no latents of this VAE's.
        """
        wanted = (self.latent.channels, self.bins)
        if latent.ndim != 4 or (latent.shape[1], latent.shape[3]) != wanted:
            raise ValueError(
                f"latents of sound are [batch, {wanted[0]}, time, {wanted[1]}], this one is {list(latent.shape)}: take "
                "audio_latent of LTXVSeparateAVLatent"
            )
        rows = latent.float().transpose(1, 2).flatten(2)
        mean, std = (v.float().cpu() for v in (self.loaded.network.latents_mean, self.loaded.network.latents_std))
        raw = (rows * std + mean).unflatten(2, wanted).transpose(1, 2)
        with self.loaded.resident() as network:
            spectrum = network.decode(self.loaded.inputs(raw), return_dict=False)[0]
        with self.vocoder.resident() as vocoder:
            wave = vocoder(spectrum.to(next(vocoder.parameters()).dtype)).float().cpu()
        return {"waveform": wave, "sample_rate": int(self.vocoder.config.output_sampling_rate)}

    @torch.no_grad()
    def heard(self, audio: dict[str, Any]) -> Tensor:
        """Encode AUDIO to normalized latents [B, C, L, bins]; mono is repeated to all channels.

        Raises:
            ValueError: it has other channels than this VAE reads, or is too short.
        """
        config, wave = self.loaded.config, audio["waveform"].float().cpu()
        channels = int(config.in_channels)
        if wave.shape[1] not in (1, channels):
            raise ValueError(f"the sound has {wave.shape[1]} channels, this VAE reads 1 or {channels}")
        wave = resampled(wave, int(audio["sample_rate"]), int(config.sample_rate)).expand(-1, channels, -1)
        if wave.shape[2] <= WINDOW // 2:
            raise ValueError(
                f"the sound is too short: {wave.shape[2]} samples at {config.sample_rate} Hz; at least "
                f"{WINDOW // 2 + 1} are needed"
            )
        spectrum = self.loaded.inputs(self._spectrum(wave))
        with self.loaded.resident() as network:
            raw = network.encode(spectrum, return_dict=False)[0].mode().float().cpu()
        mean, std = (v.float().cpu() for v in (self.loaded.network.latents_mean, self.loaded.network.latents_std))
        rows = (raw.transpose(1, 2).flatten(2) - mean) / std
        latent: Tensor = rows.unflatten(2, (raw.shape[1], raw.shape[3])).transpose(1, 2)
        return latent

    def _spectrum(self, wave: Tensor) -> Tensor:
        """Log-mel spectrogram (Slaney) of samples [B, C, n]: [B, C, columns, bands]."""
        from transformers.audio_utils import mel_filter_bank

        config = self.loaded.config
        bank = mel_filter_bank(
            WINDOW // 2 + 1,
            config.mel_bins,
            0.0,
            config.sample_rate / 2,
            config.sample_rate,
            norm="slaney",
            mel_scale="slaney",
        )
        lines = torch.stft(
            wave.flatten(0, 1), WINDOW, config.mel_hop_length, window=torch.hann_window(WINDOW), return_complex=True
        )
        bands = lines.abs().mT @ torch.from_numpy(bank).float()
        logs: Tensor = bands.clamp(min=FAINT).log().unflatten(0, wave.shape[:2])
        return logs

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        raise ValueError("this is an audio VAE: it encodes no images")

    def decode_steps(self, latent: Tensor, warn: Warn = print) -> Generator[StepCount, None, Tensor]:
        raise ValueError("this is an audio VAE: use LTXVAudioVAEDecode")

    def decode_tiled_steps(
        self, latent: Tensor, tile: int, overlap: int, warn: Warn = print
    ) -> Generator[StepCount, None, Tensor]:
        raise ValueError("this is an audio VAE: use LTXVAudioVAEDecode")


def sounding(vae: Any) -> AudioVae:
    """The VAE if it is an audio VAE, else a ValueError."""
    if not isinstance(vae, AudioVae):
        raise ValueError("this is an image VAE: connect LTXVAudioVAELoader")
    return vae


def audio_vae(parts: Mapping[str, Part], place: Place, path: Path, name: str) -> AudioVae:
    """The audio VAE with its vocoder, from the parts of a checkpoint.

    Raises:
        LoadError: it holds only one of them, or none.
    """
    if missing := {"audio_vae", "vocoder"} - parts.keys():
        raise LoadError(f"{path} holds no {' and no '.join(sorted(missing))}: is it a checkpoint of LTX-2?")
    network, vocoder = (
        Loaded(build(parts[kind], place.device, place.dtype), place.device, place.dtype, name)
        for kind in ("audio_vae", "vocoder")
    )
    facts = parts["audio_vae"].network
    assert facts.latent is not None
    latent = facts.latent(parts["audio_vae"].config)
    return AudioVae(network, latent, vocoder=vocoder)
