"""Back ends for a few rows on a CPU, compiled by numba. Importing this package loads nothing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

FEW: Final = 16
"""Most rows for which they are chosen by rank; torch is faster for more."""

FEW_PLAIN: Final = 8
"""The same for products with a plain float32 weight of at least ``LARGE`` elements."""
LARGE: Final = 1 << 18

ATTENDED: Final = 1 << 22
"""Most queries x head size x cached tokens for which one thread beats torch's overhead."""


def missing() -> str:
    """Why they cannot run, or an empty string."""
    return "" if find_spec("numba") else "numba is not installed"
