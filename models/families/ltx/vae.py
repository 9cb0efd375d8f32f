"""The VAEs of LTX-Video and LTX-2 (AutoencoderKLLTXVideo, AutoencoderKLLTX2Video).

The decoder sees past and future frames. It works as a stream: each convolution caches two frames and emits a frame once
its receptive field is complete. This equals whole decoding up to rounding, in memory independent of the length, without
temporal tiles and seams. Latents on the wire are normalized.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from ...vae.blending import Blend, tile_places
from ...vae.video import VideoVae

DECODE_TIMESTEP, DECODE_NOISE = 0.05, 0.025
"""Timestep and noise scale for timestep-conditioned decoders (0.9.1+), which do the last denoising step."""
SEED = 0
"""Seed of the decoder's noise: the same latent gives the same frames."""
Frames = Iterator[Tensor]
"""Chunks [1, C, n, h, w] of any length, in order."""
Noise = Callable[[Any, Tensor], Tensor]
"""(noise scale parameter, frames) -> noise for the frames, [1, 1, 1, h, w]."""
Place = tuple[int, int, int, int]
"""Top, left, height and width of a tile in latent cells."""


@dataclass(frozen=True, eq=False)
class LtxVae(VideoVae):
    """A loaded autoencoder of LTX-Video or LTX-2: normalized latents [B, C, T, h, w]."""

    def normalized(self, z: Tensor) -> Tensor:
        """Normalize the network's latents z [B, C, T, h, w]."""
        mean, std = (_row(v, z) for v in (self.loaded.network.latents_mean, self.loaded.network.latents_std))
        normalized: Tensor = (z - mean) * self.loaded.config.scaling_factor / std
        return normalized

    def raw(self, z: Tensor) -> Tensor:
        """The inverse of :meth:`normalized`."""
        mean, std = (_row(v, z) for v in (self.loaded.network.latents_mean, self.loaded.network.latents_std))
        raw: Tensor = z * std / self.loaded.config.scaling_factor + mean
        return raw

    def _encode(self, network: Any, pixels: Tensor) -> Tensor:
        return self.normalized(super()._encode(network, pixels))

    @torch.no_grad()
    def _stream(self, network: Any, z: Tensor, tile: int, overlap: int) -> Frames:
        """Pixels float32 [1, 3, n, H, W] of normalized z [1, C, T, h, w], some frames at a time, on the CPU."""
        z, time = self.raw(z), None
        if network.config.timestep_conditioning:
            drawn = torch.randn(z.shape, generator=torch.Generator().manual_seed(SEED))
            z = (1 - DECODE_NOISE) * z + DECODE_NOISE * drawn.to(z)
            time = z.new_tensor([DECODE_TIMESTEP])
        h, w = z.shape[-2:]
        noise, streams, places = _Noise((h, w)), [], list[Place]()
        for y, x in tile_places(h, w, tile, overlap):
            part = z[..., y : y + (tile or h), x : x + (tile or w)]
            places.append((y, x, *part.shape[-2:]))
            causal = network.config.decoder_causal
            streams.append(decoded(network.decoder, part, time, partial(noise, places[-1]), causal))
        # Not across the yield: what runs meanwhile is not ours.
        while True:
            with torch.no_grad(), torch.autocast(self.loaded.device.type, enabled=False):
                chunks = [next(s, None) for s in streams]
            frames = [f.float().cpu() for f in chunks if f is not None]
            if not frames:
                return
            yield frames[0] if len(places) == 1 else _joined(frames, places, (h, w), overlap)


def _row(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like).reshape(-1, 1, 1, 1)


def _joined(tiles: list[Tensor], places: list[Place], grid: tuple[int, int], overlap: int) -> Tensor:
    """Blend overlapping tiles [1, 3, n, H, W] of the same frames."""
    blend = Blend(*grid, overlap)
    for tile, place in zip(tiles, places, strict=True):
        blend.add(tile, *place)
    return blend.mean()


class _Noise:
    """Noise injected by blocks of some decoders: one image for all frames, cropped for a tile."""

    def __init__(self, grid: tuple[int, int]) -> None:
        self._grid, self._drawn = grid, dict[int, Tensor]()
        self._generator = torch.Generator().manual_seed(SEED)

    def __call__(self, place: Place, scale: Any, frames: Tensor) -> Tensor:
        top, left, height, width = place
        factor = frames.shape[-2] // height
        if id(scale) not in self._drawn:
            size = [side * factor for side in self._grid]
            self._drawn[id(scale)] = torch.randn(size, generator=self._generator)
        rows, columns = slice(top * factor, (top + height) * factor), slice(left * factor, (left + width) * factor)
        return self._drawn[id(scale)][rows, columns].to(frames)[None, None, None]


def decoded(decoder: Any, z: Tensor, time: Tensor | None, noise: Noise, causal: bool) -> Frames:
    """Decode z [1, C, T, h, w] to pixels in about -1..1: one frame, then 8 at a time.

    Args:
        decoder: The network.
        z: Latents.
        time: Timestep [1] of timestep-conditioned decoders, else None.
        noise: Noise for blocks that inject it.
        causal: Convolutions see past frames only.
    """
    time = None if time is None else time * decoder.timestep_scale_multiplier
    x = convolved(decoder.conv_in, iter(z.split(1, 2)), causal)
    x = _residuals(decoder.mid_block, x, time, noise, causal)
    for level in decoder.up_blocks:
        x = x if level.conv_in is None else _residual(level.conv_in, x, None, noise, causal)
        for sampler in level.upsamplers or ():
            x = upsampled(sampler, x, causal)
        x = _residuals(level, x, time, noise, causal)
    x = map(partial(_modulated, decoder, _embedded(decoder, time, z)), x)
    last = convolved(decoder.conv_out, x, causal)
    pixels = (_unpatched(frames, decoder.patch_size) for frames in last)
    return regrouped(pixels, prod(s.stride[0] for level in decoder.up_blocks for s in level.upsamplers or ()))


def regrouped(frames: Frames, size: int) -> Frames:
    """Split a stream into chunks of ``count`` frames; the first chunk has one."""
    waiting, ready, wanted = _Waiting(), 0, 1
    for x in frames:
        waiting.put(x)
        ready += x.shape[2]
        while ready >= wanted:
            yield waiting.take(wanted)
            ready, wanted = ready - wanted, size


def convolved(module: Any, frames: Frames, causal: bool) -> Frames:
    """A stream through a convolution of temporal stride 1, with the ends repeated as in the module."""
    reach = module.kernel_size[0] - 1
    before = reach if causal else reach // 2
    tail: Tensor | None = None
    for x in frames:
        x = torch.cat([x[:, :, :1]] * before + [x] if tail is None else [tail, x], 2)
        if x.shape[2] > reach:
            yield module.conv(x)
        tail = x[:, :, max(0, x.shape[2] - reach) :].clone()
    if tail is not None and reach > before:
        yield module.conv(torch.cat([tail] + [tail[:, :, -1:]] * (reach - before), 2))


class _Waiting:
    """Buffers frames of a skip connection until the main path delivers them."""

    def __init__(self) -> None:
        self._parts = deque[Tensor]()

    def put(self, frames: Tensor) -> None:
        self._parts.append(frames)

    def take(self, count: int) -> Tensor:
        """The next ``count`` frames."""
        taken: list[Tensor] = []
        while (missing := count - sum(t.shape[2] for t in taken)) > 0:
            part = self._parts.popleft()
            taken.append(part[:, :, :missing])
            if part.shape[2] > missing:
                self._parts.appendleft(part[:, :, missing:])
        return torch.cat(taken, 2)


def _embedded(module: Any, time: Tensor | None, like: Tensor) -> Tensor | None:
    """The timestep embedding, [1, D, 1, 1, 1]; None without a timestep."""
    if time is None or module.time_embedder is None:
        return None
    embedding: Tensor = module.time_embedder(
        timestep=time.flatten(), resolution=None, aspect_ratio=None, batch_size=1, hidden_dtype=like.dtype
    )
    return embedding.reshape(1, -1, 1, 1, 1)


def _residuals(group: Any, frames: Frames, time: Tensor | None, noise: Noise, causal: bool) -> Frames:
    """A stream through the residual blocks of a group, which share one timestep embedding."""
    first = next(frames, None)
    if first is None:
        return
    embedded = _embedded(group, time, first)
    stream: Frames = _chained(first, frames)
    for block in group.resnets:
        stream = _residual(block, stream, embedded, noise, causal)
    yield from stream


def _chained(first: Tensor, frames: Frames) -> Frames:
    yield first
    yield from frames


def _residual(block: Any, frames: Frames, embedded: Tensor | None, noise: Noise, causal: bool) -> Frames:
    """A stream through a residual block."""
    shift, scale = [0.0, 0.0], [0.0, 0.0]
    if block.scale_shift_table is not None and embedded is not None:
        table = embedded.unflatten(1, (4, -1)) + block.scale_shift_table[None, ..., None, None, None]
        shift[0], scale[0], shift[1], scale[1] = table.unbind(1)
    waiting = _Waiting()

    def entered() -> Frames:
        for x in frames:
            around = x if block.norm3 is None else _by_channel(block.norm3, x)
            waiting.put(around if block.conv_shortcut is None else block.conv_shortcut(around))
            yield silu(_by_channel(block.norm1, x) * (1 + scale[0]) + shift[0])

    def middle() -> Frames:
        for x in convolved(block.conv1, entered(), causal):
            x = _noised(x, block.per_channel_scale1, noise)
            yield silu(_by_channel(block.norm2, x) * (1 + scale[1]) + shift[1])

    for x in convolved(block.conv2, middle(), causal):
        yield _noised(x, block.per_channel_scale2, noise) + waiting.take(x.shape[2])


def _by_channel(norm: Any, x: Tensor) -> Tensor:
    """Norm over channels; LTX-2's norm takes channels first."""
    normed: Tensor = norm(x) if hasattr(norm, "channel_dim") else norm(x.movedim(1, -1)).movedim(-1, 1)
    return normed


def _noised(x: Tensor, scale: Any, noise: Noise) -> Tensor:
    if scale is None:
        return x
    noised: Tensor = x + noise(scale, x) * scale[None, :, None]
    return noised


def upsampled(sampler: Any, frames: Frames, causal: bool) -> Frames:
    """A stream through an upsampler: channels to frames, rows and columns; the surplus first frames are dropped."""
    waiting, cut = _Waiting(), sampler.stride[0] - 1

    def entered() -> Frames:
        for x in frames:
            waiting.put(x)
            yield x

    for x in convolved(sampler.conv, entered(), causal):
        around, up = waiting.take(x.shape[2]), _spread(x, sampler.stride)
        if sampler.residual:
            wide = _spread(around, sampler.stride)
            up = up + wide.repeat(1, up.shape[1] // wide.shape[1], 1, 1, 1)
        if up.shape[2] > cut:
            yield up[:, :, cut:]
        cut = max(0, cut - up.shape[2])


def _spread(x: Tensor, stride: tuple[int, int, int]) -> Tensor:
    """[1, C * a * b * c, n, h, w] -> [1, C, n * a, h * b, w * c]."""
    x = x.unflatten(1, (-1, *stride)).permute(0, 1, 5, 2, 6, 3, 7, 4)
    return x.flatten(6, 7).flatten(4, 5).flatten(2, 3)


def _modulated(decoder: Any, embedded: Tensor | None, x: Tensor) -> Tensor:
    """Final norm and modulation before the last convolution."""
    x = _by_channel(decoder.norm_out, x)
    if embedded is not None:
        table = embedded.unflatten(1, (2, -1)) + decoder.scale_shift_table[None, ..., None, None, None]
        x = x * (1 + table[:, 1]) + table[:, 0]
    return silu(x)


def _unpatched(x: Tensor, patch: int) -> Tensor:
    """[1, 3 * patch * patch, n, h, w] -> [1, 3, n, h * patch, w * patch]; columns vary before rows."""
    cells: Tensor = x.unflatten(1, (-1, patch, patch))
    return cells.permute(0, 1, 4, 5, 3, 6, 2).flatten(5, 6).flatten(3, 4)
