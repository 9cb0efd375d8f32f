"""No attention and no large matrix product of any ready-made graph goes round the kernel layer."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipegraph as pg
from pipegraph.graphs import ready_made
from pipegraph.kernels.audit import strict

SMALL = 1 << 16
"""Multiply-adds below which other code may multiply matrices (filters of a picture, say); a layer has millions."""


@pytest.mark.parametrize("name", [n for n in ready_made.names() if n.startswith(("flux", "video"))])
def test_every_launch_comes_from_the_layer(name: str, tmp_path: Path) -> None:
    with strict(SMALL) as seen:
        pg.load(name, out=tmp_path).run(seed=1, steps=2)
    assert seen.attention > 10 and seen.linear > 100
