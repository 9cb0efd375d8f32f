"""The value on a VAE wire for video: a causal autoencoder (AutoencoderKLWan) decoded one latent frame at a time.

The decoder caches the frames that each convolution needs for the next frame, so decoding frame by frame equals decoding
the whole, in memory independent of the length. Tiles are spatial only: there are no temporal seams.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipegraph.models.vae.blending import Blend, tile_places
from pipegraph.models.vae.image import NotFinite, Precisions, StepCount, Vae, Warn, dtype_name


@dataclass(frozen=True, eq=False)
class VideoVae(Vae):
    """A loaded video autoencoder: latents z [B, C, T, h, w], videos float32 [frames, H, W, 3] in 0..1. Immutable."""

    def frames_of(self, cells: int) -> int:
        """Number of frames of this many latent frames."""
        return 1 + (cells - 1) * self.latent.frames

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        """Encode a video [frames, H, W, 3] in 0..1 of 4n + 1 frames to a latent [1, C, n + 1, h, w].

        Frames beyond the last 4n + 1 are dropped with a warning. The mean of the posterior, not a sample.
        """
        step = self.latent.frames
        whole = 1 + (len(image) - 1) // step * step
        if whole != len(image):
            warn(f"{len(image)} frames are encoded as {whole}: a video has {step}n + 1")
        pixels = image[:whole].movedim(-1, 0)[None] * 2 - 1
        return self._checked(self._encode, pixels, "encoding", warn)

    def decode_steps(self, latent: Tensor, warn: Warn = print) -> Generator[StepCount, None, Tensor]:
        """Decode latents z [B, C, T, h, w] to a video [B * frames, H, W, 3]; yields after each latent frame."""
        return (yield from self._all(latent, 0, 0, warn))

    def decode_tiled_steps(
        self, latent: Tensor, tile: int, overlap: int, warn: Warn = print
    ) -> Generator[StepCount, None, Tensor]:
        """Like :meth:`decode_steps`, each frame in square tiles; ``tile`` and ``overlap`` in latent cells."""
        if not 0 <= overlap < tile:
            raise ValueError(f"tiles of {tile} latent cells cannot overlap by {overlap}")
        return (yield from self._all(latent, tile, overlap, warn))

    def parts(self, latent: Tensor, warn: Warn = print, tile: int = 0, overlap: int = 0) -> Iterator[Tensor]:
        """Frames [n, H, W, 3] of one latent z [C, T, h, w] as they are decoded: 1, then 4 at a time.

        A non-finite result in half precision is computed again in float32.
        """
        done, action = 0, "decoding"
        if not bool(latent.isfinite().all()):
            raise NotFinite(f"{action}: the input holds NaN or infinity; the fault lies before the VAE")
        for loaded in Precisions(self.loaded):
            if loaded is not self.loaded:
                warn(f"{action} in {dtype_name(self.loaded.dtype)} overflows; computed again in float32")
            whole = True
            with loaded.resident() as network:
                for number, part in enumerate(self._stream(network, loaded.inputs(latent[None]), tile, overlap)):
                    if not bool(part.isfinite().all()):
                        whole = False
                        break
                    if number >= done:
                        done = number + 1
                        yield ((part + 1) / 2).clamp(0, 1)[0].movedim(0, -1).contiguous()
            if whole:
                return
        raise NotFinite(f"{action} gives NaN or infinity even in float32: these VAE weights are broken")

    def stream(self, latents: Iterable[Tensor]) -> Iterator[Tensor]:
        """Decode latents z [C, t, h, w] of one video piece by piece to frames [n, H, W, 3]: 1, then 4 at a time."""
        memory = self._memory(self.loaded.network)
        for z in latents:
            for cell in self.loaded.inputs(z[None]).split(1, dim=2):
                with torch.no_grad(), torch.autocast(cell.device.type, enabled=False), self.loaded.resident():
                    part = memory.decode(cell).float().cpu()
                if not bool(part.isfinite().all()):
                    dtype = dtype_name(self.loaded.dtype)
                    raise NotFinite(f"decoding in {dtype} gives NaN or infinity: try fp32 or bf16")
                yield ((part + 1) / 2)[0].movedim(0, -1).contiguous()

    def check(self, latent: Tensor) -> None:
        """ValueError if the latent does not belong to this VAE."""
        if latent.ndim != 5 or latent.shape[1] != self.latent.channels:
            wanted = f"[B, {self.latent.channels}, time, height, width]"
            raise ValueError(f"this VAE decodes latents {wanted}, not {list(latent.shape)}: is it the model's own VAE?")

    def _all(self, latent: Tensor, tile: int, overlap: int, warn: Warn) -> Generator[StepCount, None, Tensor]:
        latent = latent[:, :, None] if latent.ndim == 4 else latent
        self.check(latent)
        videos, cells, frames = len(latent), latent.shape[2], self.frames_of(latent.shape[2])
        pixels: Tensor | None = None
        at = 0
        for i, z in enumerate(latent):
            for number, part in enumerate(self.parts(z, warn, tile, overlap), 1):
                if pixels is None:
                    pixels = torch.empty(videos * frames, *part.shape[1:])
                pixels[at : at + len(part)] = part
                at += len(part)
                yield i * cells + number, videos * cells
        assert pixels is not None
        return pixels

    def _encode(self, network: Any, pixels: Tensor) -> Tensor:
        return network.encode(pixels).latent_dist.mode()  # type: ignore[no-any-return]

    @torch.no_grad()
    def _stream(self, network: Any, z: Tensor, tile: int, overlap: int) -> Iterator[Tensor]:
        """Pixels float32 [1, 3, n, H, W] of z [1, C, T, h, w], one latent frame at a time, on the CPU."""
        places = tile_places(z.shape[-2], z.shape[-1], tile, overlap)
        memories = [self._memory(network) for _ in places]
        for frame in z.split(1, dim=2):
            with torch.autocast(z.device.type, enabled=False):
                pixels = blended(frame, places, tile, overlap, [memory.decode for memory in memories])
            yield pixels

    def _memory(self, network: Any) -> Any:
        """A stateful decoder for the latent frames of a video."""
        return _Memory(network)


def blended(
    z: Tensor,
    places: Sequence[tuple[int, int]],
    tile: int,
    overlap: int,
    decoders: Sequence[Callable[[Tensor], Tensor]],
) -> Tensor:
    """Pixels float32 [1, 3, n, H, W] of z [1, C, t, h, w], blended from tiles at ``places``, on the CPU."""
    blend = Blend(z.shape[-2], z.shape[-1], overlap)
    for decode, (y, x) in zip(decoders, places, strict=True):
        part = z[..., y : y + (tile or z.shape[-2]), x : x + (tile or z.shape[-1])]
        pixels = decode(part).float().cpu()
        if len(places) == 1:
            return pixels
        blend.add(pixels, y, x, *part.shape[-2:])
    return blend.mean()


class _Memory:
    """State of the decoder within a video: cached inputs of its convolutions."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self._cached: list[Any] | None = None

    def decode(self, z: Tensor) -> Tensor:
        """Pixels in -1..1 of the next latent frame [1, C, 1, h, w]."""
        network, first = self._network, self._cached is None
        if self._cached is None:
            self._cached = [None] * network._cached_conv_counts["decoder"]
        x = network.decoder(network.post_quant_conv(z), feat_cache=self._cached, feat_idx=[0], first_chunk=first)
        if network.config.patch_size is not None:
            from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

            x = unpatchify(x, patch_size=network.config.patch_size)
        pixels: Tensor = x.clamp(-1, 1)
        return pixels


class DecodedFrames:
    """Size of frames decoded from a latent."""

    vae: VideoVae
    latent: Tensor

    @property
    def height(self) -> int:
        return int(self.latent.shape[3] * self.vae.latent.downscale)

    @property
    def width(self) -> int:
        return int(self.latent.shape[4] * self.vae.latent.downscale)

    @property
    def channels(self) -> int:
        return 3


@dataclass(frozen=True, eq=False)
class LatentFrames(DecodedFrames):
    """Frames of latents z [B, C, T, h, w], decoded on demand, one video after the other."""

    vae: VideoVae
    latent: Tensor
    warn: Warn

    def __post_init__(self) -> None:
        self.vae.check(self.latent)

    @property
    def count(self) -> int:
        return len(self.latent) * self.vae.frames_of(self.latent.shape[2])

    def chunks(self) -> Iterator[Tensor]:
        for z in self.latent:
            yield from self.vae.parts(z, self.warn)
