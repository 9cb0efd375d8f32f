"""Memory sizes: parse, format, and total memory of the machine. Standard library only."""

from __future__ import annotations

import os
import re
from typing import Final

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
UNKNOWN_TOTAL: Final = 12 << 30
"""Assumed if the system does not report its memory."""


def read_size(text: str) -> int:
    """Bytes of ``512M``, ``1.5 GiB`` or ``4000000``; K, M, G and T are powers of 1024.

    Raises:
        ValueError: not a size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.I)
    if match is None:
        raise ValueError(f"a number of bytes like 512M or 1.5GiB is wanted, not {text!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show_size(size: int) -> str:
    """Format bytes in the largest fitting unit, e.g. ``1.5 GiB``."""
    unit = next((u for u in reversed(_UNITS) if size >= _UNITS[u]), "")
    return f"{size / _UNITS[unit]:.1f} {unit}iB" if unit else f"{size} bytes"


def size_setting(variable: str, default: int) -> int:
    """Size from an environment variable, or ``default`` if it is not set.

    Raises:
        ValueError: the variable is not a size.
    """
    text = os.environ.get(variable, "").strip()
    try:
        return read_size(text) if text else default
    except ValueError as e:
        raise ValueError(f"{variable}: {e}") from None


def total_memory() -> int:
    """Total memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN_TOTAL
