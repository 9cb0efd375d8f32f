"""MiniMax-H3's VAEs: video (AutoencoderKLMiniMaxH3) and audio (AutoencoderKLMiniMaxH3Audio).

A video of 17n + 5 frames has 5n + 2 latent frames. The decoder reads 7 latent frames at a time and gives 22 frames;
the last 5 are blended into the next 17. So decoding is a stream whose memory does not grow with the length, and it
equals the whole decode. It always works in tiles of 256 pixels that overlap by 64 and more, as in training: other tiles
give other pictures. Latents on the wire are normalized.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from ...media.sound import resampled
from ...vae.image import StepCount, Vae, Warn
from ...vae.video import VideoVae
from .family import SEED
from .layout import SIDES, frames_of

PIXEL_MEAN: Final = (0.485, 0.456, 0.406)
PIXEL_STD: Final = (0.229, 0.224, 0.225)
"""Standard deviation by channel: the network reads and returns (pixels - mean) / std."""
CHUNK, READ, FRAMES = 5, 7, 17
"""Per decoder step: latent frames it advances, latent frames it reads, frames it finishes."""


@dataclass(frozen=True, eq=False)
class MiniMaxVae(VideoVae):
    """A loaded video autoencoder: normalized latents [B, 24, T, h, w]."""

    def frames_of(self, cells: int) -> int:
        return frames_of(cells)

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        """The latent [1, 24, T, h, w] of a video [frames, H, W, 3] in 0..1 of 1 or 17n + 5 frames; others are left out.

        The mean of the posterior, not a sample.
        """
        whole = 1 if len(image) < 5 else (len(image) - 5) // FRAMES * FRAMES + 5
        if whole != len(image):
            warn(f"{len(image)} frames are encoded as {whole}: a video has 17n + 5")
        pixels = image[:whole].movedim(-1, 0)[None]
        return self._checked(self._encode, pixels, "encoding", warn)

    def encode_condition(self, image: Tensor, warn: Warn = print) -> Tensor:
        """Like :meth:`encode`, for conditioning images: a posterior sample of a fixed seed, rounded to float16.

        The networks were trained this way, and diffusers' blocks do the same.
        """
        return self._checked(self._encode_given, image.movedim(-1, 0)[None], "encoding", warn)

    def _encode(self, network: Any, pixels: Tensor) -> Tensor:
        return self._normalized(_posterior(network, pixels).mode())

    def _encode_given(self, network: Any, pixels: Tensor) -> Tensor:
        drawn = _posterior(network, pixels).sample(generator=torch.Generator().manual_seed(SEED))
        return self._normalized(drawn.half())

    def _normalized(self, z: Tensor) -> Tensor:
        mean, std = (self._channels(name, z) for name in ("latents_mean", "latents_std"))
        normalized: Tensor = (z.float() - mean) / std
        return normalized

    def _channels(self, name: str, like: Tensor) -> Tensor:
        """Mean or standard deviation of the latents, float32 on ``like``'s device."""
        return torch.tensor(self.loaded.config[name], device=like.device).reshape(-1, 1, 1, 1)

    @torch.no_grad()
    def _stream(self, network: Any, z: Tensor, tile: int, overlap: int) -> Iterator[Tensor]:
        """Pixels float32 [1, 3, n, H, W] in -1..1 of normalized z [1, C, T, h, w], 17 frames at a time, on the CPU."""
        mean, std = (self._channels(name, z) for name in ("latents_mean", "latents_std"))
        raw = (z.float() * std + mean).to(network.post_quant_conv.weight)
        network = _tiled(network, tile, overlap)
        total = frames_of(raw.shape[2])
        if raw.shape[2] == 1:
            yield self._pixels(network, raw)[:, :, -1:]
            return
        short = -(raw.shape[2] - 2) % CHUNK or (CHUNK if raw.shape[2] == 2 else 0)
        raw = torch.cat([raw, raw[:, :, -1:].expand(-1, -1, short, -1, -1)], 2)
        tail, done = None, 0
        for begin in range(0, raw.shape[2] - 2, CHUNK):
            pixels = self._pixels(network, raw[:, :, begin : begin + READ])
            lead = network.frame_pre_padding
            own, rest = pixels[:, :, lead : lead + FRAMES], pixels[:, :, 2 * lead + FRAMES :]
            if tail is not None:
                share = tail.shape[2]
                fade = (torch.arange(share) / share).reshape(-1, 1, 1)
                own = torch.cat([tail * (1 - fade) + own[:, :, :share] * fade, own[:, :, share:]], 2)
            tail, own = rest, own[:, :, : total - done]
            done += own.shape[2]
            yield own
        if tail is not None and done < total:
            yield tail[:, :, : total - done]

    def _pixels(self, network: Any, raw: Tensor) -> Tensor:
        """One decoder step: pixels in -1..1."""
        with torch.no_grad(), torch.autocast(self.loaded.device.type, enabled=False):
            pixels: Tensor = network._decode_clip(raw).float().cpu()
        mean, std = (torch.tensor(v).reshape(-1, 1, 1, 1) for v in (PIXEL_MEAN, PIXEL_STD))
        return (pixels * std + mean) * 2 - 1


def _posterior(network: Any, pixels: Tensor) -> Any:
    mean, std = (pixels.new_tensor(v).reshape(-1, 1, 1, 1) for v in (PIXEL_MEAN, PIXEL_STD))
    return network.encode((pixels - mean) / std, return_dict=False)[0]


def _tiled(network: Any, tile: int, overlap: int) -> Any:
    """A shallow copy of the network with another tile size; ``tile`` 0: unchanged."""
    if not tile:
        return network
    tiled, cell = copy.copy(network), network.spatial_compression_ratio
    tiled.enable_tiling(tile * cell, tile * cell, overlap * cell, overlap * cell)
    return tiled


@dataclass(frozen=True, eq=False)
class MiniMaxSoundVae(Vae):
    """A loaded audio autoencoder: normalized latents [B, 32, 2, L], 40 per second, stereo."""

    def sound(self, latent: Tensor) -> dict[str, Any]:
        """Decode latents to AUDIO.

        Raises:
            ValueError: they are no latents of this VAE's.
        """
        if latent.ndim != 4 or tuple(latent.shape[1:3]) != (self.latent.channels, SIDES):
            raise ValueError(
                f"latents of MiniMax-H3's sound are [batch, {self.latent.channels}, {SIDES}, time], this one is "
                f"{list(latent.shape)}"
            )
        waves = [self._checked(self._decode, z[None], "decoding sound") for z in latent]
        return {"waveform": torch.cat(waves), "sample_rate": int(self.loaded.config.sampling_rate)}

    def heard(self, audio: Mapping[str, Any]) -> Tensor:
        """Encode the first item of AUDIO to [1, 32, 2, L]: the mean of the posterior.

        What has not two channels is heard from both sides, the mean of all.
        """
        wave, rate = audio["waveform"][:1].float(), int(self.loaded.config.sampling_rate)
        wave = wave if wave.shape[1] == SIDES else wave.mean(1, keepdim=True)
        wave = resampled(wave, int(audio["sample_rate"]), rate)
        return self._checked(self._encode, wave.expand(-1, SIDES, -1), "encoding sound")

    def _encode(self, network: Any, wave: Tensor) -> Tensor:
        mean, std = self._channels(network, wave.device)
        z: Tensor = network.encode(wave.movedim(1, 0), return_dict=False)[0].mode()
        return ((z - mean) / std).movedim(0, 1)[None]

    def _channels(self, network: Any, device: Any) -> tuple[Tensor, Tensor]:
        mean, std = (torch.tensor(network.config[k], device=device)[:, None] for k in ("latents_mean", "latents_std"))
        return mean, std

    def _decode(self, network: Any, z: Tensor) -> Tensor:
        mean, std = self._channels(network, z.device)
        wave: Tensor = network.decode(z[0].movedim(1, 0) * std + mean, return_dict=False)[0]
        return wave.movedim(1, 0)

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        raise ValueError("this is an audio VAE: it encodes no images")

    def decode_steps(self, latent: Tensor, warn: Warn = print) -> Generator[StepCount, None, Tensor]:
        raise ValueError("this is an audio VAE: use VAEDecodeAudio")

    def decode_tiled_steps(
        self, latent: Tensor, tile: int, overlap: int, warn: Warn = print
    ) -> Generator[StepCount, None, Tensor]:
        raise ValueError("this is an audio VAE: use VAEDecodeAudio")
