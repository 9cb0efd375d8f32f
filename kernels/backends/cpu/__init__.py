"""Back ends for a few rows on a CPU, compiled by numba. Importing this package loads nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

FEW: Final = 16
"""Rows that they are chosen for by rank; torch's way is better for more."""

FEW_PLAIN: Final = 8
"""The same for products with a plain float32 weight of at least ``LARGE`` elements."""
LARGE: Final = 1 << 18

ATTENDED: Final = 1 << 22
"""Queries x numbers of a head x tokens of the cache that one thread attends to sooner than torch begins."""


def missing() -> str:
    """Why they cannot run; empty if they can."""
    return "" if find_spec("numba") else "numba is not installed"
