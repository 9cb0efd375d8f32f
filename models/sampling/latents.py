"""LATENT values: batches and resizing. Inputs are never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .original import each

Latent = Mapping[str, Any]


def take(latent: Latent, start: int, length: int) -> dict[str, Any]:
    """Items ``start`` to ``start + length`` of a batch, with the ``batch_index`` that seeds their noise."""
    samples = latent["samples"]
    start = min(start, len(samples) - 1)
    end = min(start + length, len(samples))
    taken = each(latent, lambda x: x[start:end].clone())
    taken["batch_index"] = list(latent.get("batch_index") or range(len(samples)))[start:end]
    mask = latent.get("noise_mask")
    if mask is not None and len(mask) > 1:
        taken["noise_mask"] = mask[[i % len(mask) for i in range(start, end)]]
    return taken


def repeat(latent: Latent, amount: int) -> dict[str, Any]:
    """Repeat a batch ``amount`` times; copies get new indices after the highest, hence different noise."""
    samples = latent["samples"]
    repeated = each(latent, lambda x: x.repeat(amount, *[1] * (x.ndim - 1)))
    mask = latent.get("noise_mask")
    if mask is not None and len(mask) > 1:
        if len(mask) != len(samples):
            mask = mask.repeat(-(-len(samples) // len(mask)), *[1] * (mask.ndim - 1))[: len(samples)]
        repeated["noise_mask"] = mask.repeat(amount, *[1] * (mask.ndim - 1))
    items = latent.get("batch_index")
    if items:
        apart = max(items) - min(items) + 1
        repeated["batch_index"] = [item + copy * apart for copy in range(amount) for item in items]
    return repeated


def resize(samples: Tensor, rows: int, columns: int, method: str, crop: bool = False) -> Tensor:
    """Samples [B, C, ..., H, W] resized to rows x columns; ``crop`` first crops the centre to the new aspect ratio."""
    h, w = samples.shape[-2:]
    if crop and w * rows > h * columns:
        cut = round((w - h * columns / rows) / 2)
        samples = samples[..., cut : w - cut]
    elif crop:
        cut = round((h - w * rows / columns) / 2)
        samples = samples[..., cut : h - cut, :]
    # Video latents [B, C, T, H, W] are resized frame by frame.
    frames = samples.movedim(2, 1).flatten(0, 1) if samples.ndim == 5 else samples
    if method == "bislerp":
        resized = _bislerp(_bislerp(frames, columns).mT, rows).mT
    else:
        resized = nn.functional.interpolate(frames, (rows, columns), mode=method)
    if samples.ndim == 5:
        resized = resized.unflatten(0, (samples.shape[0], samples.shape[2])).movedim(1, 2)
    return resized.contiguous()


def _bislerp(samples: Tensor, size: int) -> Tensor:
    """Resize the last axis of [B, C, H, W] by slerp of channel vectors, with norms interpolated linearly."""
    place = torch.arange(samples.shape[-1], dtype=torch.float32, device=samples.device)
    at = nn.functional.interpolate(place[None, None], size, mode="linear")[0, 0]
    left = at.floor().long()
    right, share = at.ceil().long(), at - left
    a, b = samples[..., left], samples[..., right]
    length_a, length_b = a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True)
    unit_a, unit_b = nn.functional.normalize(a), nn.functional.normalize(b)
    angle = (unit_a * unit_b).sum(1, keepdim=True).acos()
    sine = angle.sin()
    turned = ((1 - share) * angle).sin() / sine * unit_a + (share * angle).sin() / sine * unit_b
    turned = turned * torch.lerp(length_a, length_b, share)
    # Where there is hardly an angle (NaN, if rounding makes its cosine 1.0000001), or no plane to turn in, a straight
    # blend is the limit.
    return torch.where(sine > 1e-4, turned, torch.lerp(a, b, share.expand_as(a)))
