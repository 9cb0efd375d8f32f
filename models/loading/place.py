"""Device, dtype and weight format of networks."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Place:
    """Device, dtype and weight format of networks."""

    device: torch.device
    dtype: torch.dtype
    quantize: str = ""
    """Weight format of diffusion networks and text encoders (``quantize.FORMATS``); empty: unchanged."""

    @classmethod
    def of(cls, device: str, dtype: str, quantize: str = "") -> Place:
        """From run settings, e.g. ``cuda:0`` and ``auto``."""
        where = torch.device(device)
        return cls(where, compute_dtype(dtype, where), quantize)


def compute_dtype(name: str, device: torch.device) -> torch.dtype:
    """Compute dtype for ``fp32``, ``fp16``, ``bf16`` or ``auto``.

    ``auto``: float32 on the CPU, float16 where a GPU has no bfloat16 of its own, else bfloat16.
    """
    if name != "auto":
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    if device.type == "cpu":
        return torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    if device.type == "mps" and not torch.backends.mps.is_macos_or_newer(14, 0):
        return torch.float16
    return torch.bfloat16
