"""Lock for importing libraries and creating networks. Torch-free.

transformers and diffusers import their modules on demand, and put functions of torch and of themselves in other places
while they make a network: two threads that do so at once leave the process broken for every later load.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import Any, Final

LOCK: Final = RLock()
"""Held while a library is imported or a network is created."""


def imported(name: str) -> Any:
    """The object named ``module:attribute``; the module is imported under the lock."""
    module, _, attribute = name.partition(":")
    with LOCK:
        return getattr(import_module(module), attribute)
