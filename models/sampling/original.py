"""The latent before noise was added, passed on by runs that leave noise in.

A later run with a ``noise_mask`` must protect the clean original with its initial noise, not the noisy latent. A LATENT
with noise left in it therefore has ``original``:

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
    """The original of a LATENT; None without one, or if the samples have changed since."""
    original: Mapping[str, Tensor] | None = latent.get(KEY)
    return original if original is not None and torch.equal(original["noised"], latent["samples"]) else None


def with_samples(latent: Mapping[str, Any], samples: Tensor, original: Mapping[str, Tensor] | None) -> dict[str, Any]:
    """A LATENT with other samples and original."""
    result = {k: v for k, v in latent.items() if k != KEY} | {"samples": samples}
    return result if original is None else {**result, KEY: original}


def each(latent: Mapping[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Apply a function to the samples of a LATENT and to its original."""
    original = original_of(latent)
    changed = original and {name: change(value) for name, value in original.items()}
    return with_samples(latent, change(latent["samples"]), changed)
