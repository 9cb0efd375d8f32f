"""A node that fails with its own number."""

from __future__ import annotations

from typing import Annotated

import pipegraph as pg


@pg.node("FailWith", category="test")
def fail_with(seed: Annotated[int, pg.Seed()]) -> int:
    """Fail.

    Args:
        seed: Stands in the message.
    """
    raise ValueError(f"failed with {seed}")
