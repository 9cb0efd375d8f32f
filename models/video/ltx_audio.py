"""What LTX-2 makes sound with: the VAE of spectrograms (AutoencoderKLLTX2Audio) and the vocoder behind it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..family import LatentFormat
from ..loading.headers import LoadError
from ..loading.networks import build
from ..loading.parts import parts
from ..paths import resolve
from ..vae import Step, Vae, Warn
from .sound import resampled

if TYPE_CHECKING:
    from ..loading.load import Place


WINDOW = 1024
"""Samples that a column of a spectrogram is made of, as in LTX-2's training; diffusers' config does not say it."""
FAINT = 1e-5
"""What the logarithm of a spectrogram ends at."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AudioVae(Vae):
    """Loaded autoencoder of sound: normalized latents [B, channels, time, bins]."""

    vocoder: Any

    @property
    def bins(self) -> int:
        """Rows of a latent."""
        return int(self.network.config.mel_bins // self.network.mel_compression_ratio)

    @property
    def per_second(self) -> float:
        """Columns of a latent for a second."""
        config = self.network.config
        return float(config.sample_rate / config.mel_hop_length / self.network.temporal_compression_ratio)

    @torch.no_grad()
    def sound(self, latent: Tensor) -> dict[str, Any]:
        """The AUDIO of latents [B, C, L, bins].

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
        mean, std = (v.float().cpu() for v in (self.network.latents_mean, self.network.latents_std))
        raw = (rows * std + mean).unflatten(2, wanted).transpose(1, 2)
        spectrum = self.network.decode(raw.to(self.device, self.dtype), return_dict=False)[0]
        wave = self.vocoder(spectrum.to(next(self.vocoder.parameters()).dtype)).float().cpu()
        return {"waveform": wave, "sample_rate": int(self.vocoder.config.output_sampling_rate)}

    @torch.no_grad()
    def heard(self, audio: dict[str, Any]) -> Tensor:
        """The normalized latents [B, C, L, bins] of an AUDIO; mono is heard by all channels.

        Raises:
            ValueError: it has other channels than this VAE reads, or is too short.
        """
        config, wave = self.network.config, audio["waveform"].float().cpu()
        channels = int(config.in_channels)
        if wave.shape[1] not in (1, channels):
            raise ValueError(f"the sound has {wave.shape[1]} channels, this VAE reads 1 or {channels}")
        wave = resampled(wave, int(audio["sample_rate"]), int(config.sample_rate)).expand(-1, channels, -1)
        if wave.shape[2] <= WINDOW // 2:
            raise ValueError(f"the sound is too short: {wave.shape[2]} samples at {config.sample_rate} Hz; at least "
                             f"{WINDOW // 2 + 1} are needed")  # fmt: skip
        spectrum = self._spectrum(wave).to(self.device, self.dtype)
        raw = self.network.encode(spectrum, return_dict=False)[0].mode().float().cpu()
        mean, std = (v.float().cpu() for v in (self.network.latents_mean, self.network.latents_std))
        rows = (raw.transpose(1, 2).flatten(2) - mean) / std
        made: Tensor = rows.unflatten(2, (raw.shape[1], raw.shape[3])).transpose(1, 2)
        return made

    def _spectrum(self, wave: Tensor) -> Tensor:
        """Log of Slaney's mel spectrogram of samples [B, C, n]: [B, C, columns, bands]."""
        from transformers.audio_utils import mel_filter_bank

        config = self.network.config
        bank = mel_filter_bank(
            WINDOW // 2 + 1, config.mel_bins, 0.0, config.sample_rate / 2, config.sample_rate, norm="slaney",
            mel_scale="slaney",
        )  # fmt: skip
        lines = torch.stft(
            wave.flatten(0, 1), WINDOW, config.mel_hop_length, window=torch.hann_window(WINDOW), return_complex=True
        )
        bands = lines.abs().mT @ torch.from_numpy(bank).float()
        made: Tensor = bands.clamp(min=FAINT).log().unflatten(0, wave.shape[:2])
        return made

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        raise ValueError("this VAE is of sound, not of pictures")

    def decode_steps(self, latent: Tensor, warn: Warn = print) -> Generator[Step, None, Tensor]:
        raise ValueError("this VAE is of sound: use LTXVAudioVAEDecode")

    def decode_tiled_steps(
        self, latent: Tensor, tile: int, overlap: int, warn: Warn = print
    ) -> Generator[Step, None, Tensor]:
        raise ValueError("this VAE is of sound: use LTXVAudioVAEDecode")


def sounding(vae: Any) -> AudioVae:
    """The VAE, if it is one of sound."""
    if not isinstance(vae, AudioVae):
        raise ValueError("this VAE is of pictures: connect LTXVAudioVAELoader")
    return vae


def load_audio_vae(name: str, place: Place) -> AudioVae:
    """The VAE of sound and the vocoder of a checkpoint, a file or a folder."""
    path = resolve("checkpoints", name)
    found = parts(path, ("audio_vae", "vocoder"))
    if missing := {"audio_vae", "vocoder"} - found.keys():
        raise LoadError(f"{path} holds no {' and no '.join(sorted(missing))}: is it a checkpoint of LTX-2?")
    network = build(found["audio_vae"], place.device, place.dtype)
    # LTX-2.3's second stage hears the logarithm of the first one's spectrum: it is not exact in 16 bits.
    wide = found["vocoder"].class_name == "LTX2VocoderWithBWE"
    vocoder = build(found["vocoder"], place.device, torch.float32 if wide else place.dtype)
    config = found["audio_vae"].config
    latent = LatentFormat(channels=config["latent_channels"], downscale=1)
    return AudioVae(network, latent, place.device, place.dtype, name, vocoder=vocoder)
