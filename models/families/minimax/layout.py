"""MiniMax-H3's token sequence: text, references, audio, video; position and kind of each token.

Facts: diffusers' blocks of MiniMax-H3 (tests/video/test_minimax.py). Time is in cells of the sound, 40 a second, so a
frame is 5/3 long; latent frames are 1, 4, 4, 4, 4 frames long, again and again. Height and width are those of a picture
of area 32 x 32. The video and its sound begin behind the text and the references.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

VIDEO, TEXT, SOUND = 0, 1, 2
"""Kinds of rows."""
SPANS = (1, 4, 4, 4, 4)
"""Length of successive latent frames in frames (repeating)."""
PER_FRAME = 5 / 3
PATCH = 2
SIDES = 2
"""Audio channels."""


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive tokens of one kind."""

    kind: int
    places: Tensor
    """Position (time, height, width) of each token, float64 [n, 3]."""
    rows: Tensor | None = None
    """Known latents, float32 [n, C]; None for text and for tokens to generate."""


def cells(frames: int) -> int:
    """Latent frames for a video of 17n + 5 frames."""
    return (frames - 5) // 17 * 5 + 2


def frames_of(cells: int) -> int:
    """Frames of this many latent frames."""
    return cells // 5 * 17 + sum(SPANS[: cells % 5])


def sound_cells(frames: int) -> int:
    """Latent time steps of the audio of a video."""
    return round(frames / 24 * 40)


def video_rows(latent: Tensor) -> Tensor:
    """Latents [B, C, T, h, w] as rows [B, T * h/2 * w/2, C * 4]."""
    b, c, t, h, w = latent.shape
    parted = latent.reshape(b, c, t, h // PATCH, PATCH, w // PATCH, PATCH)
    return parted.permute(0, 2, 3, 5, 1, 4, 6).reshape(b, -1, c * PATCH * PATCH)


def video_of(rows: Tensor, shape: Sequence[int]) -> Tensor:
    """The inverse of :func:`video_rows`, for latents of ``shape`` [C, T, h, w]."""
    c, t, h, w = shape
    parted = rows.reshape(len(rows), t, h // PATCH, w // PATCH, c, PATCH, PATCH)
    return parted.permute(0, 4, 1, 2, 5, 3, 6).reshape(len(rows), c, t, h, w)


def sound_rows(latent: Tensor) -> Tensor:
    """Latents [B, C, 2, L] as tokens [B, 2 * L, C], channel by channel."""
    return latent.permute(0, 2, 3, 1).flatten(1, 2)


def sound_of(rows: Tensor, shape: Sequence[int]) -> Tensor:
    """The inverse of :func:`sound_rows`, for latents of ``shape`` [C, 2, L]."""
    return rows.reshape(len(rows), *shape[1:], shape[0]).permute(0, 3, 1, 2)


def text_block(kinds: Tensor) -> Block:
    """Text tokens, or image tokens of the text encoder: positions in time only. ``kinds``: of each token, int64 [T]."""
    places = kinds.new_zeros(len(kinds), 3).double()
    places[:, 0] = kinds.new_tensor(range(len(kinds)))
    return Block(TEXT, places)


def video_block(size: Sequence[int], start: float, rows: Tensor | None = None) -> Block:
    """Video of ``size`` (T, h, w) in latent cells, starting at time ``start``."""
    import torch

    t, h, w = size
    sides = [_axis(n, math.sqrt(h * w)) for n in (h, w)]
    begins = start + PER_FRAME * torch.tensor([frames_of(i) for i in range(t)], dtype=torch.float64)
    return Block(VIDEO, torch.stack(torch.meshgrid(begins, *sides, indexing="ij"), -1).flatten(0, 2), rows)


def sound_block(length: int, start: float, sides: Sequence[int], rows: Tensor | None = None) -> Block:
    """Audio: its channels lie at the left and right edge of an image of ``sides`` (h, w) in latent cells."""
    import torch

    h, w = sides
    places, ends = torch.zeros(SIDES, length, 3, dtype=torch.float64), _axis(w, math.sqrt(h * w))
    places[..., 0] = start + torch.arange(length)
    places[0, :, 2], places[1, :, 2] = ends[0], ends[-1]
    return Block(SOUND, places.flatten(0, 1), rows)


def _axis(cells: int, root: float) -> Tensor:
    """Patch positions along one axis, centred in 0..32."""
    import torch

    count, share = cells // PATCH, cells / root
    return ((1 - share) / 2 + torch.arange(count, dtype=torch.float64) * (share / count)) * 32


def references(entries: Sequence[Mapping[str, Any]], sides: Sequence[int], start: float) -> tuple[list[Block], float]:
    """Blocks of references, and the time after them; ``sides``: latent size (h, w) of the generated video."""
    blocks: list[Block] = []
    for entry in entries:
        video, sound = entry.get("latent"), entry.get("sound")
        length = 0 if sound is None else sound.shape[-1]
        if sound is not None:
            grid = sides if video is None else video.shape[-2:]
            blocks.append(sound_block(length, start, grid, sound_rows(sound.float())[0]))
        if video is not None:
            blocks.append(video_block(video.shape[2:], start, video_rows(video.float())[0]))
        picture = video is not None and video.shape[2] == 1
        start += 1 if picture else max(length, 0 if video is None else PER_FRAME * frames_of(video.shape[2]))
    return blocks, start


def guides(entries: Sequence[Mapping[str, Any]], sides: Sequence[int], start: float) -> list[Block]:
    """Blocks of images, videos and audio fixed at frames of the video, which starts at time ``start``."""
    blocks = []
    for entry in entries:
        at = start + PER_FRAME * entry["frame"]
        if (video := entry.get("latent")) is not None:
            blocks.append(video_block(video.shape[2:], at, video_rows(video.float())[0]))
        if (sound := entry.get("sound")) is not None:
            blocks.append(sound_block(sound.shape[-1], at, sides, sound_rows(sound.float())[0]))
    return blocks
