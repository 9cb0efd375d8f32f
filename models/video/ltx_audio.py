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

if TYPE_CHECKING:
    from ..loading.load import Place


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
        wave = self.vocoder(spectrum).float().cpu()
        return {"waveform": wave, "sample_rate": int(self.vocoder.config.output_sampling_rate)}

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
    network, vocoder = (build(found[kind], place.device, place.dtype) for kind in ("audio_vae", "vocoder"))
    config = found["audio_vae"].config
    latent = LatentFormat(channels=config["latent_channels"], downscale=1)
    return AudioVae(network, latent, place.device, place.dtype, name, vocoder=vocoder)
