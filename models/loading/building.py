"""Create networks without memory for their weights, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .lock import LOCK

_TYPED: Final = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)
_RANDOM: Final = (torch.rand, torch.randn)
_INITIALIZERS: Final = (Tensor.normal_, Tensor.uniform_)
_INITIALIZING: Final = ("torch.nn.init", "transformers.initialization")
"""Modules with weight initialization functions; transformers temporarily replaces torch's."""


class _Building(TorchFunctionMode):
    """Overrides torch functions in this thread while a network is created (``set_default_dtype`` is global).

    Tensors of ``torch.empty``, which weights begin as, lie on the meta device and are not initialized. Tables that no
    file holds are computed as always. No random numbers are drawn: they begin weights, and would change the state of
    the process's generator.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func in _INITIALIZERS or getattr(func, "__module__", "") in _INITIALIZING:
            return args[0] if args else options["tensor"]
        typed = func in _TYPED or (func is torch.tensor and args and isinstance(args[0], float))
        if typed and options.get("dtype") is None:
            options["dtype"] = self.dtype
        if func is torch.empty and options.get("device") is None:
            options["device"] = "meta"
        return (torch.zeros if func in _RANDOM else func)(*args, **options)


@contextmanager
def empty_networks(dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """Networks created inside a ``with`` have no memory for weights. Floats default to ``dtype``."""
    with LOCK, _Building(dtype):
        yield
