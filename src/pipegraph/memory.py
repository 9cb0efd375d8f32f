"""Amounts of memory: read from text, shown to people, and what the machine has. Standard library only."""

from __future__ import annotations

import os
import re
from typing import Final

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
UNKNOWN_TOTAL: Final = 12 << 30
"""Assumed where the system does not say how much memory there is."""


def read_size(text: str) -> int:
    """Bytes of ``512M``, ``1.5 GiB`` or ``4000000``; K, M, G and T are powers of 1024.

    Raises:
        ValueError: it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if match is None:
        raise ValueError(f"a number of bytes like 512M or 1.5GiB is wanted, not {text!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_size(size: int) -> str:
    """``size`` bytes in the largest unit of which there is at least one, e.g. ``1.5 GiB``."""
    unit = next((u for u in reversed(_UNITS) if size >= _UNITS[u]), "")
    return f"{size / _UNITS[unit]:.1f} {unit}iB" if unit else f"{size} bytes"


def size_setting(variable: str, default: int) -> int:
    """Bytes that an environment variable names, or ``default`` where it is not set.

    Raises:
        ValueError: the variable is set to no size.
    """
    text = os.environ.get(variable, "").strip()
    try:
        return read_size(text) if text else default
    except ValueError as e:
        raise ValueError(f"{variable}: {e}") from None


def total_memory() -> int:
    """Bytes of memory that this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_TOTAL
