"""MiniMax-H3's text encoder (Qwen3-VL): encodes a prompt with images, videos and audio.

Each medium has a line before the prompt: ``<Picture 1>: `` with the image, ``<Audio 1>: `` alone, ``<Video 1>: `` with
pairs of frames and their times in seconds. Vision tokens with their start and end marks are video tokens for the
network; all others are text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from ...llm.network.vision import check_vision
from .layout import TEXT, VIDEO

if TYPE_CHECKING:
    from ...text.encoder import Encoder, TextEncoder

RATE: Final = 2
"""Frames per second of a 24 fps video that the encoder reads."""


@dataclass(frozen=True, eq=False)
class Shown:
    """An image, video or audio that accompanies a prompt."""

    kind: str
    """``Picture``, ``Audio`` or ``Video``."""
    frames: Tensor | None = None
    """Image [1, H, W, 3] or video [n, H, W, 3] at 24 fps, in 0..1; None for audio."""


@torch.no_grad()
def conditioning(text_encoder: TextEncoder, prompt: str, shown: Sequence[Shown]) -> list[list[Any]]:
    """Encode a prompt with media to CONDITIONING.

    Raises:
        ValueError: this is no text encoder of MiniMax-H3.
    """
    encoder = next(iter(text_encoder.encoders.values()), None)
    if text_encoder.family.id != "minimax_h3" or encoder is None:
        raise ValueError(f"{text_encoder.name} is no text encoder of MiniMax-H3: load it with CLIPLoader, type minimax")
    tokens = text_encoder.tokenize(prompt)
    visible = [medium for medium in shown if medium.kind == "Picture" or medium.frames is not None]
    if not shown:
        return text_encoder.encode(tokens)
    line = _Line(encoder)
    for medium in shown:
        line.add(medium)
    [own] = tokens.values()
    line.text(own.ids)
    ids = torch.tensor([line.ids], device=encoder.loaded.device)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if visible:
        inputs |= {k: v.to(ids.device) for k, v in line.pixels().items()}
        inputs["mm_token_type_ids"] = torch.tensor([line.types], device=ids.device)
    with encoder.running() as network:
        states = encoder.read(network.model, **inputs)
    return [[states, {"token_kinds": torch.tensor(line.kinds)}]]


class _Line:
    """Collects the tokens of media and prompt."""

    def __init__(self, encoder: Encoder) -> None:
        self.ids: list[int] = []
        self.kinds: list[int] = []
        self.types: list[int] = []
        """transformers' token types: text, image, video."""
        self._llm = encoder.llm
        self._counts: dict[str, int] = {}
        self._pixels: dict[str, list[Tensor]] = {}

    def text(self, ids: Sequence[int]) -> None:
        self.ids += ids
        self.kinds += [TEXT] * len(ids)
        self.types += [0] * len(ids)

    def add(self, medium: Shown) -> None:
        """Append the line of one medium."""
        self._counts[medium.kind] = self._counts.get(medium.kind, 0) + 1
        self._written(f"<{medium.kind} {self._counts[medium.kind]}>: ")
        if medium.frames is None:
            return
        if medium.kind == "Picture":
            self._add_frames(medium.frames[:1], "image", 1)
            return
        frames = medium.frames[:: 24 // RATE]
        times = [i / RATE for i in range(len(frames))]
        if len(frames) % 2:  # the tower reads two at a time
            frames, times = torch.cat([frames, frames[-1:]]), [*times, times[-1]]
        pairs = [(a + b) / 2 for a, b in list(pairwise(times))[::2]]
        self._add_frames(frames, "video", 2, [f"<{time:.1f} seconds>" for time in pairs])

    def pixels(self) -> Mapping[str, Tensor]:
        """Input of the vision tower: patches of all media."""
        return {name: torch.cat(parts) for name, parts in self._pixels.items()}

    def _written(self, text: str) -> None:
        assert self._llm.tokenizer is not None
        self.text(self._llm.tokenizer.encode(text, control=True))

    def _add_frames(self, frames: Tensor, kind: str, type: int, before: Sequence[str] = ("",)) -> None:
        vision, tokenizer = check_vision(self._llm), self._llm.tokenizer
        assert tokenizer is not None
        config = vision.config
        inputs, grid = _patches(vision.processor, frames)
        names = ("pixel_values", "image_grid_thw") if type == 1 else ("pixel_values_videos", "video_grid_thw")
        for name, part in zip(names, (inputs, grid), strict=True):
            self._pixels.setdefault(name, []).append(part)
        spots = int(grid[0, 1:].prod()) // vision.processor.merge_size**2
        pad = config.image_token_id if type == 1 else config.video_token_id
        for label in before:
            if label:
                self._written(label)
            self.ids += [config.vision_start_token_id, *[pad] * spots, config.vision_end_token_id]
            self.kinds += [VIDEO] * (spots + 2)
            self.types += [0, *[type] * spots, 0]


def _patches(processor: Any, frames: Tensor) -> tuple[Tensor, Tensor]:
    """Patches [n, D] of an image, or of frame pairs of a video, and their grid (time, rows, columns)."""
    from PIL import Image

    arrays = (frames[..., :3].clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    read = [processor(images=[Image.fromarray(a)], return_tensors="pt") for a in arrays]
    grid, values = read[0]["image_grid_thw"], [r["pixel_values"] for r in read]
    if len(values) == 1:
        return values[0], grid
    # A picture's patches hold it twice in time; of a pair, the first half is the first frame's.
    pairs = []
    for first, second in zip(values[::2], values[1::2], strict=True):
        shape = (len(first), 3, processor.temporal_patch_size, -1)
        a, b = first.view(shape), second.view(shape)
        pairs.append(torch.stack([a[:, :, 0], b[:, :, 1]], 2).flatten(1))
    return torch.cat(pairs), torch.tensor([[len(pairs), *grid[0, 1:].tolist()]])
