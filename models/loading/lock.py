"""The lock of importing libraries and of making networks. Torch-free.

transformers and diffusers import their modules on demand, and put functions of torch and of themselves in other places
while they make a network: two threads that do so at once leave the process broken for every later load.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import Any, Final

LOCK: Final = RLock()
"""Held while a library is imported and while a network is made."""


def imported(module: str, name: str) -> Any:
    """Something of a module, which is imported first if need be."""
    with LOCK:
        return getattr(import_module(module), name)
