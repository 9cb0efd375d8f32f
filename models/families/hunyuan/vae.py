"""HunyuanVideo's autoencoders: 1.5's decodes one latent frame at a time, 1.0's in temporal tiles.

1.5's (AutoencoderKLHunyuanVideo15) is causal throughout: each convolution keeps the two frames before, and attention,
at 1/16 of the size, keeps the keys and values of all frames before. So decoding frame by frame is decoding the whole.
1.0's (AutoencoderKLHunyuanVideo) normalizes over all frames, so each frame sees the whole video; temporal tiles are
blended, as in diffusers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pipegraph.kernels.ops.attention import attention

from ...vae.blending import tile_places
from ...vae.video import VideoVae, blended

KeyValues = list[tuple[Tensor, Tensor]]
"""Keys and values [B, 1, frames * H * W, C] of past frames; empty or one pair."""


def attend_by_frame(q: Tensor, k: Tensor, v: Tensor, before: KeyValues | None = None) -> Tensor:
    """Causal attention over frames: each frame attends to itself and all earlier ones.

    Args:
        q: Queries [B, T, H * W, C]; keys and values likewise.
        k: Keys.
        v: Values.
        before: What :data:`KeyValues` says of earlier frames; these frames' are added, in place.
    """
    past: KeyValues = [] if before is None else before
    outputs = []
    for i in range(q.shape[1]):
        past.append((k[:, i : i + 1], v[:, i : i + 1]))
        keys, values = (torch.cat(tensors, 2) for tensors in zip(*past, strict=True))
        past[:] = [(keys, values)]
        outputs.append(attention(q[:, i : i + 1], keys, values))
    return torch.cat(outputs, 1)


def attend_15(block: Any, x: Tensor, before: KeyValues | None = None) -> Tensor:
    """Forward of the attention block of 1.5's autoencoder for x [B, C, T, H, W], without the mask."""
    y = block.norm(x)
    q, k, v = (layer(y).flatten(3).movedim(1, -1) for layer in (block.to_q, block.to_k, block.to_v))
    shown: Tensor = block.proj_out(attend_by_frame(q, k, v, before).movedim(-1, 1).reshape(x.shape))
    return shown + x


def middle_1(block: Any, x: Tensor) -> Tensor:
    """Forward of the middle block of 1.0's autoencoder for x [B, C, T, H, W], without the mask."""
    x = block.resnets[0](x)
    for layer, resnet in zip(block.attentions, block.resnets[1:], strict=True):
        if layer is not None:
            y = layer.group_norm(x.flatten(2)).mT
            q, k, v = (part(y).unflatten(1, (x.shape[2], -1)) for part in (layer.to_q, layer.to_k, layer.to_v))
            y = layer.to_out[0](attend_by_frame(q, k, v).flatten(1, 2)).mT.reshape(x.shape)
            x = (y + x) / layer.rescale_output_factor
        x = resnet(x)
    return x


@dataclass(frozen=True, eq=False)
class HunyuanVideo15Vae(VideoVae):
    """HunyuanVideo 1.5: frame by frame."""

    def _memory(self, network: Any) -> _Memory:
        return _Memory(network)


class _Memory:
    """State of 1.5's decoder within a video: cached inputs of its layers."""

    def __init__(self, network: Any) -> None:
        self._decoder = network.decoder
        self._frames: dict[Any, Tensor] = {}
        self._attended: dict[Any, KeyValues] = {}
        self._first = True

    def decode(self, z: Tensor) -> Tensor:
        """Pixels, about -1..1, of the next latent frame [1, C, 1, h, w]: 1 frame, then 4."""
        decoder = self._decoder
        x = self._conv(decoder.conv_in, z) + z.repeat_interleave(decoder.repeat, dim=1)
        middle = decoder.mid_block
        x = self._resnet(middle.resnets[0], x)
        for block, resnet in zip(middle.attentions, middle.resnets[1:], strict=True):
            x = x if block is None else attend_15(block, x, self._attended.setdefault(block, []))
            x = self._resnet(resnet, x)
        for level in decoder.up_blocks:
            for resnet in level.resnets:
                x = self._resnet(resnet, x)
            for upsampler in level.upsamplers or ():
                x = self._upsample(upsampler, x)
        pixels = self._conv(decoder.conv_out, decoder.conv_act(decoder.norm_out(x)))
        self._first = False
        return pixels

    def _conv(self, layer: Any, x: Tensor) -> Tensor:
        *sides, back, _ = layer.time_causal_padding
        before = self._frames.get(layer, x[:, :, :1].expand(-1, -1, back, -1, -1))
        x = torch.cat([before, x], 2)
        self._frames[layer] = x[:, :, x.shape[2] - back :].clone()
        out: Tensor = layer.conv(F.pad(x, (*sides, 0, 0), mode=layer.pad_mode))
        return out

    def _resnet(self, block: Any, x: Tensor) -> Tensor:
        y = self._conv(block.conv1, block.nonlinearity(block.norm1(x)))
        y = self._conv(block.conv2, block.nonlinearity(block.norm2(y)))
        return y + (x if block.conv_shortcut is None else block.conv_shortcut(x))

    def _upsample(self, layer: Any, x: Tensor) -> Tensor:
        """Move channels to rows, columns and frames; the first latent frame stays one frame."""
        y, unpack = self._conv(layer.conv, x), layer._dcae_upsample_rearrange
        out: Tensor
        if not layer.add_temporal_upsample:
            out = unpack(y, 1, 2, 2) + unpack(x.repeat_interleave(layer.repeats, dim=1), 1, 2, 2)
        elif self._first:
            half = unpack(y, 1, 2, 2)[:, : y.shape[1] // 8]
            out = half + unpack(x, 1, 2, 2).repeat_interleave(layer.repeats // 2, dim=1)
        else:
            out = unpack(y, 2, 2, 2) + unpack(x, 2, 2, 2).repeat_interleave(layer.repeats, dim=1)
        return out


@dataclass(frozen=True, eq=False)
class HunyuanVideoVae(VideoVae):
    """HunyuanVideo 1.0: in temporal tiles."""

    times: tuple[int, int] = (16, 4)
    """Temporal tile length and overlap in frames; diffusers' defaults."""

    def in_time(self, length: int, overlap: int) -> HunyuanVideoVae:
        """A copy with other temporal tiles, rounded to latent frames; the overlap is at most half a tile."""
        cell = self.latent.frames
        length = max(2 * cell, length // cell * cell)
        return replace(self, times=(length, max(cell, min(overlap, length // 2) // cell * cell)))

    @torch.no_grad()
    def _stream(self, network: Any, z: Tensor, tile: int, overlap: int) -> Iterator[Tensor]:
        """Pixels float32 [1, 3, n, H, W] of z [1, C, T, h, w], one temporal tile at a time, on the CPU."""
        places = tile_places(z.shape[-2], z.shape[-1], tile, overlap)
        length, shared = (frames // self.latent.frames for frames in self.times)
        step = length - shared if z.shape[2] > length else z.shape[2]
        tail: Tensor | None = None

        def decode(part: Tensor) -> Tensor:
            with torch.autocast(self.loaded.device.type, enabled=False):
                pixels: Tensor = network.decoder(network.post_quant_conv(part))
            return pixels

        # A tile begins with the latent frame before its own; what has no other is no tile.
        for i in range(0, max(1, z.shape[2] - 1), step):
            pixels = blended(z[:, :, i : i + length + 1], places, tile, overlap, [decode] * len(places))
            if tail is not None:
                pixels = pixels[:, :, 1:]
                share = min(tail.shape[2], pixels.shape[2])
                fade = (torch.arange(share) / max(1, share))[:, None, None]
                pixels[:, :, :share] = tail[:, :, :share] * (1 - fade) + pixels[:, :, :share] * fade
            own = step * self.latent.frames + (tail is None)
            tail = pixels[:, :, own:]
            yield pixels[:, :, :own]
