"""What host functions of Triton kernels share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def current(device: torch.device) -> Any:
    """Make the device of the tensors the current one, on which Triton launches."""
    return torch.cuda.device(device if device.type == "cuda" else -1)


def rows(x: Tensor) -> Tensor:
    """``x`` with the elements of its last dimension side by side in memory."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
