"""Noise, always drawn on the CPU in float32, so a seed gives the same image on every device.

Initial noise is drawn as ComfyUI draws it. Noise of single steps comes from one generator an item, seeded by the run's
seed and the item's number, so that item i of a batch can be made again alone (``batch_index`` of a LATENT).
torch's CPU generator is the Mersenne Twister seeded with the low 32 bits of a seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def _generator(seed: int) -> torch.Generator:
    return torch.Generator("cpu").manual_seed(seed % 2**64)


def initial_noise(seed: int, shape: Sequence[int], items: Sequence[int] | None = None) -> Tensor:
    """Normal noise of ``shape`` [B, ...] from one generator, item after item.

    For items of a multiple of 16 values (every latent of 16 channels) that is ComfyUI's single draw of the whole
    batch, bit for bit. torch redraws the end of other sizes, so there a batch beyond its first item would depend on
    its length; item by item it does not, and equals what ComfyUI draws with a ``batch_index``.

    Args:
        seed: 0 to 2**64 - 1.
        shape: Shape of the batch.
        items: Numbers of the items that are wanted, ``shape[0]`` of them; 0, 1, ... by default.
    """
    items = range(shape[0]) if items is None else items
    if len(items) != shape[0]:
        raise ValueError(f"batch_index has {len(items)} entries for a batch of {shape[0]}")
    generator = _generator(seed)
    drawn = [torch.randn(tuple(shape[1:]), generator=generator) for _ in range(max(items, default=-1) + 1)]
    return torch.stack([drawn[i] for i in items]) if items else torch.empty(tuple(shape))


class ItemNoise:
    """Noise for the steps of a run: one CPU generator per item, so an item does not depend on its batch."""

    def __init__(self, seed: int, items: Sequence[int]) -> None:
        self._generators = [_generator(_item_seed(seed, i)) for i in items]

    def __call__(self, like: Tensor) -> Tensor:
        """Normal noise of the shape, device and type of ``like`` [B, ...]."""
        rows = [torch.randn(like.shape[1:], generator=g) for g in self._generators]
        return torch.stack(rows).to(like.device, like.dtype)


def _item_seed(seed: int, item: int) -> int:
    """Item 0 gets ComfyUI's seed + 1; others a hash, so that their streams are independent."""
    if item == 0:
        return (seed + 1) % 2**64
    digest = hashlib.blake2b(f"pipegraph step noise {seed} {item}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True, slots=True)
class Noise:
    """The value on a NOISE wire."""

    seed: int = 0
    silent: bool = False
    """Zeros instead of initial noise. Step noise is unaffected."""

    def generate_noise(self, latent: Mapping[str, Any]) -> Tensor:
        """Initial noise for a LATENT, float32 on the CPU, of its samples' shape."""
        samples: Tensor = latent["samples"]
        if self.silent:
            return torch.zeros(samples.shape)
        return initial_noise(self.seed, samples.shape, latent.get("batch_index"))
