"""Transfer functions between encoded values and linear light.

sRGB is IEC 61966-2-1; HLG is ITU-R BT.2100, table 5.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

_A: Final = 0.17883277
_B: Final = 1 - 4 * _A
_C: Final = 0.5 - _A * math.log(4 * _A)


def srgb_to_linear(values: Tensor) -> Tensor:
    """Linear light of sRGB values; negative values are mirrored."""
    size = values.abs()
    return torch.where(size <= 0.04045, size / 12.92, ((size + 0.055) / 1.055) ** 2.4).copysign(values)


def linear_to_srgb(light: Tensor) -> Tensor:
    """Linear light to sRGB; negative values are mirrored."""
    size = light.abs()
    return torch.where(size <= 0.0031308, size * 12.92, 1.055 * size ** (1 / 2.4) - 0.055).copysign(light)


def hlg_to_linear(values: Tensor) -> Tensor:
    """HLG 0..1 to scene light 0..1."""
    values = values.clamp_min(0)
    return torch.where(values <= 0.5, values**2 / 3, (((values - _C) / _A).exp() + _B) / 12)
