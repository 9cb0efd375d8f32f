"""Values as JSON has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pipegraph.limits import GRAPH_DEPTH

from .errors import shown

_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def plain(value: Any, depth: int = 0) -> Any:
    """A copy of a JSON value; ValueError with a sentence if it is none."""
    kind = type(value)
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    if kind in _SCALARS:
        return value
    if depth >= GRAPH_DEPTH:
        raise ValueError(f"nested deeper than {GRAPH_DEPTH} levels")
    if kind in (list, tuple):
        return [plain(v, depth + 1) for v in value]
    if isinstance(value, Mapping) and all(type(k) is str for k in value):
        return {k: plain(v, depth + 1) for k, v in value.items()}
    raise ValueError(f"{shown(value)} is no JSON value")
