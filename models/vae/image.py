"""The value on a VAE wire: images to latents and back, whole or in tiles.

Latents z [B, C, h, w] are the VAE's own, not shifted and scaled; images are IMAGE, float32 [B, H, W, 3] in 0..1.
Each image of a batch is processed on its own, so it does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipegraph.generators import finish

from ..family import LatentFormat
from ..loaded import Loaded
from .blending import Blend, tile_places

Warn = Callable[[str], None]
StepCount = tuple[int, int]
"""Done and total, in images or tiles."""


@dataclass(frozen=True, eq=False)
class Vae:
    """A loaded autoencoder. Immutable."""

    loaded: Loaded
    """Its network: diffusers' AutoencoderKL, or the family's."""
    latent: LatentFormat

    def encode(self, image: Tensor, warn: Warn = print) -> Tensor:
        """Encode images [B, H, W, 3] in 0..1 whose sides are multiples of ``latent.downscale`` to latents z.

        The mean of the posterior, not a sample: the same picture gives the same latent.
        """
        pixels = image.movedim(-1, 1) * 2 - 1
        precisions = Precisions(self.loaded)
        return torch.cat([self._checked(self._encode, p[None], "encoding", warn, precisions) for p in pixels])

    def decode(self, latent: Tensor, warn: Warn = print) -> Tensor:
        """Decode latents z to images [B, H, W, 3] in 0..1."""
        return finish(self.decode_steps(latent, warn))

    def decode_steps(self, latent: Tensor, warn: Warn = print) -> Generator[StepCount, None, Tensor]:
        """Like :meth:`decode`, as a generator that yields after each image and returns them.

        Images that cannot be decoded become NaN, with a warning; the rest of the batch is kept. No node saves NaN.
        """
        precisions = Precisions(self.loaded)

        def whole(z: Tensor, action: str) -> Iterator[Tensor]:
            yield self._checked(self._decode, z, action, warn, precisions)

        return (yield from _each(latent, self.latent, 1, whole, warn))

    def decode_tiled_steps(
        self, latent: Tensor, tile: int, overlap: int, warn: Warn = print
    ) -> Generator[StepCount, None, Tensor]:
        """Like :meth:`decode_steps`, in square tiles, for images too large for memory.

        Equals whole decoding if the decoder's receptive field is at most a quarter of the overlap: the outer quarter of
        an overlap is discarded, and the middle half is blended with weights that sum to 1.

        Args:
            latent: z [B, C, h, w].
            tile: Side of a tile in latent cells.
            overlap: How far neighbours overlap, in latent cells, less than ``tile``.
            warn: Called on retries.
        """
        if not 0 <= overlap < tile:
            raise ValueError(f"tiles of {tile} latent cells cannot overlap by {overlap}")
        h, w = latent.shape[-2:]
        places, precisions = tile_places(h, w, tile, overlap), Precisions(self.loaded)

        def tiled(z: Tensor, action: str) -> Iterator[Tensor]:
            blend = Blend(h, w, overlap)
            for number, (y, x) in enumerate(places, 1):
                part = z[..., y : y + tile, x : x + tile]
                pixels = self._checked(self._decode, part, action, warn, precisions)
                blend.add(pixels, y, x, *part.shape[-2:])
                yield blend.mean() if number == len(places) else blend.total

        return (yield from _each(latent, self.latent, len(places), tiled, warn))

    def in_time(self, length: int, overlap: int) -> Vae:
        """A copy with temporal tiles of this length; no effect for image autoencoders."""
        return self

    def _encode(self, network: Any, pixels: Tensor) -> Tensor:
        z: Tensor = network.encode(pixels).latent_dist.mode()
        return z

    def _decode(self, network: Any, z: Tensor) -> Tensor:
        pixels: Tensor = network.decode(z, return_dict=False)[0]
        return pixels

    @torch.no_grad()
    def _checked(
        self,
        code: Callable[[Any, Tensor], Tensor],
        x: Tensor,
        action: str,
        warn: Warn = print,
        precisions: Precisions | None = None,
    ) -> Tensor:
        """Run the network; a non-finite result is computed again in float32, then an error."""
        if not bool(x.isfinite().all()):
            raise NotFinite(f"{action}: the input holds NaN or infinity; the fault lies before the VAE")
        for loaded in precisions or Precisions(self.loaded):
            if loaded is not self.loaded:
                warn(f"{action} in {dtype_name(self.loaded.dtype)} overflows; computed again in float32")
            with torch.autocast(loaded.device.type, enabled=False), loaded.resident() as network:
                result = code(network, loaded.inputs(x)).float().cpu()
            if bool(result.isfinite().all()):
                return result
        raise NotFinite(f"{action} gives NaN or infinity even in float32: these VAE weights are broken")


class Precisions:
    """A network, then a float32 copy if it computes in half precision: made when asked for, once for many tiles."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._wide: Loaded | None = None

    def __iter__(self) -> Iterator[Loaded]:
        yield self._loaded
        if self._loaded.dtype != torch.float32:
            if self._wide is None:
                self._wide = self._loaded.in_float32()
            yield self._wide


class NotFinite(ValueError):
    """An image or latent holds NaN or infinity."""


def dtype_name(dtype: torch.dtype) -> str:
    """``float16`` of ``torch.float16``."""
    return str(dtype).removeprefix("torch.")


def _each(
    latent: Tensor, expected: LatentFormat, parts: int, code: Callable[[Tensor, str], Iterator[Tensor]], warn: Warn
) -> Generator[StepCount, None, Tensor]:
    """Decode image by image; ``code`` yields the image [1, 3, H, W] so far, ``parts`` times."""
    if latent.ndim != 4 or latent.shape[1] != expected.channels:
        wanted = f"[B, {expected.channels}, height, width]"
        raise ValueError(f"this VAE decodes latents {wanted}, not {list(latent.shape)}: is it the model's own VAE?")
    pictures: dict[int, Tensor] = {}
    broken: list[NotFinite] = []
    for i, z in enumerate(latent):
        try:
            for done, picture in enumerate(code(z[None], f"decoding image {i + 1}"), i * parts + 1):
                pictures[i] = picture
                yield done, len(latent) * parts
        except NotFinite as error:
            pictures.pop(i, None)
            broken.append(error)
    if not pictures:
        raise broken[0]
    for fault in broken:
        warn(str(fault))
    lost = torch.full_like(next(iter(pictures.values())), torch.nan)
    pixels = torch.cat([pictures.get(i, lost) for i in range(len(latent))])
    return ((pixels + 1) / 2).clamp(0, 1).movedim(1, -1).contiguous()


def fit_to_grid(image: Tensor, cell: int) -> Tensor:
    """Images [B, H, W, C] center-cropped to sides that are multiples of ``cell`` pixels.

    Raises:
        ValueError: a side is shorter than one cell.
    """
    h, w = image.shape[1:3]
    if h < cell or w < cell:
        raise ValueError(f"an image of {w}x{h} pixels is smaller than one latent cell of {cell}x{cell}")
    top, left = h % cell // 2, w % cell // 2
    return image[:, top : top + h // cell * cell, left : left + w // cell * cell]
