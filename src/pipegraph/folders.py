"""Folders for data that pipegraph keeps between runs. Every folder may import it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

MEMORY: Final = "memory/"
"""Prefix of names of images that were passed in memory."""


def cache_folder() -> Path:
    """Folder for data that can be recreated: ``$PIPEGRAPH_CACHE``, else the user's cache folder."""
    if folder := os.environ.get("PIPEGRAPH_CACHE"):
        return Path(folder)
    from platformdirs import user_cache_path

    return user_cache_path("pipegraph")


def memory_inputs() -> Path:
    """Folder of images that programs passed in memory, with names that start with ``MEMORY``."""
    return cache_folder() / "inputs"
