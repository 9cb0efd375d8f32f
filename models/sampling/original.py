"""What a latent was before noise was added, which a run that leaves noise in hands on to the next sampler.

A sampler that goes on with a ``noise_mask`` has to keep the original, and the noise that it is kept with at each level,
not the noisy latent. A LATENT with noise left in it has therefore ``original``:

    {"samples": the latent without noise, "noise": the noise of the first run, "noised": the samples they have led to}

It counts only as long as the samples are those: a node in between may have changed them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

KEY = "original"


def original_of(latent: Mapping[str, Any]) -> Mapping[str, Tensor] | None:
    """The original of a LATENT, None if it has none or the samples are others by now."""
    original: Mapping[str, Tensor] | None = latent.get(KEY)
    return original if original is not None and torch.equal(original["noised"], latent["samples"]) else None


def with_samples(latent: Mapping[str, Any], samples: Tensor, original: Mapping[str, Tensor] | None) -> dict[str, Any]:
    """A LATENT with other samples and their original."""
    result = {k: v for k, v in latent.items() if k != KEY} | {"samples": samples}
    return result if original is None else {**result, KEY: original}


def each(latent: Mapping[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """A LATENT whose samples are changed, and its original in the same way."""
    original = original_of(latent)
    changed = original and {name: change(value) for name, value in original.items()}
    return with_samples(latent, change(latent["samples"]), changed)
