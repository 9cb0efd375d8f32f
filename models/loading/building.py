"""Make networks without memory for their weights, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from .lock import LOCK

_TYPED: Final = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn)


class _Floats(TorchFunctionMode):
    """What torch makes without a dtype has this one, in this thread; ``set_default_dtype`` would change all threads."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        typed = func in _TYPED or (func is torch.tensor and args and isinstance(args[0], float))
        if typed and options.get("dtype") is None:
            options["dtype"] = self.dtype
        return func(*args, **options)


@contextmanager
def empty_networks(dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """What is made inside a ``with`` lies on the meta device; its floats have ``dtype`` unless their code says else."""
    with LOCK, torch.device("meta"), _Floats(dtype):
        yield
