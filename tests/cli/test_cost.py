"""``pipegraph --help`` stays cheap."""

from __future__ import annotations

import runpy
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "cli.py"


def test_help_costs_little_more_than_click() -> None:
    benchmark = runpy.run_path(str(BENCHMARK))
    ms = benchmark["measure"](5)
    allowed = benchmark["LIMIT"] * ms["common"] + ms["common+click"] - ms["common"]
    assert ms["help"] <= allowed, ms
