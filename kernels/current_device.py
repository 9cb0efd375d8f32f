"""The current device of CUDA (and HIP): the device of kernel launches and hardware queries. Torch-free import."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def device_of(key: Any) -> torch.device | None:
    """The device in the key of a call; None if it has none."""
    import torch

    return next((part for part in key if isinstance(part, torch.device)), None) if isinstance(key, tuple) else None


def current(device: torch.device | None) -> AbstractContextManager[Any]:
    """Make a CUDA device the current one inside a ``with``; nothing for devices of other kinds."""
    if device is None or device.type != "cuda":
        return nullcontext()
    import torch

    return torch.cuda.device(device)


def on_device(fn: Callable[..., Any], device: torch.device | None) -> Callable[..., Any]:
    """``fn`` with a CUDA device as the current one while it runs; ``fn`` itself for devices of other kinds."""
    if device is None or device.type != "cuda":
        return fn

    @wraps(fn)
    def run(*args: Any, **options: Any) -> Any:
        with current(device):
            return fn(*args, **options)

    return run


__all__ = ["current", "device_of", "on_device"]
