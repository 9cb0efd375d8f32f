"""Folders for what pipegraph keeps between runs. Every folder may import it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MEMORY: Final = "memory/"
"""Names of pictures that were given in memory begin so."""


def cache_folder() -> Path:
    """Folder for what can be made again: ``$PIPEGRAPH_CACHE``, else the user's cache folder."""
    if folder := os.environ.get("PIPEGRAPH_CACHE"):
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("pipegraph")


def memory_inputs() -> Path:
    """Folder of the pictures that programs gave in memory, whose names begin with ``MEMORY``."""
    return cache_folder() / "inputs"
