"""Minimum bytes of node outputs, from the sizes in the graph; 0 if a size comes over a link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

Amount = Callable[[Mapping[str, Any]], int]
_FLOAT32 = 4


def pictures(channels: int = 3) -> Amount:
    """Images or masks of ``width`` and ``height``, ``batch_size`` of them (default 1): float32 [B, H, W, C]."""
    return lambda values: _FLOAT32 * channels * _count(values, "batch_size") * _product(values, "width", "height")


def latents(channels: int, cell: int, frames: int = 0) -> Amount:
    """Latents [B, C, (T,) H, W] for images, or videos of ``length`` frames, of ``width`` and ``height`` pixels.

    Args:
        channels: C.
        cell: Pixels per latent cell.
        frames: Video frames per latent frame after the first; 0 for images.
    """

    def size(values: Mapping[str, Any]) -> int:
        long = (_count(values, "length") - 1) // frames + 1 if frames else 1
        cells = _product(values, "width", "height") // cell**2
        return _FLOAT32 * channels * _count(values, "batch_size") * long * cells

    return size


def _product(values: Mapping[str, Any], *names: str) -> int:
    numbers = [values.get(name) for name in names]
    return prod(n for n in numbers if type(n) is int) if all(type(n) is int for n in numbers) else 0


def _count(values: Mapping[str, Any], name: str) -> int:
    number = values.get(name)
    return number if type(number) is int else 1
