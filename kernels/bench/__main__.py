"""``python -m pipegraph.kernels.bench``: needs torch and Triton only, for machines with nothing else on them."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path


def main(
    suites: tuple[str, ...], device: str, budget: float, json: Path | None, picture: Path | None, first_check: bool
) -> int:
    """Check, measure, save; 1 if something is wrong. What was asked for is saved even then."""
    from .check import check
    from .plot import plot
    from .run import bench
    from .suites import SUITES

    start = time.monotonic()
    good = check(device) if first_check else True
    result = bench(suites or tuple(SUITES), device, budget - (time.monotonic() - start))
    if json:
        result.save(json)
    if picture:
        plot(result, picture)
    if result.unfinished:
        print(f"the time was up after {len(result.rows)} rows")
    for row in result.wrong:
        print(f"{row.op} {row.shape} {row.backend}: {row.why}", file=sys.stderr)
    return 0 if good and not result.wrong else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m pipegraph.kernels.bench", description=__doc__)
    parser.add_argument("--suite", default="", help="names, comma between them; all by default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=420, help="seconds, checks included")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--check", action="store_true", help="run the conformance kit first")
    options = parser.parse_args()
    names = tuple(filter(None, options.suite.split(",")))
    sys.exit(main(names, options.device, options.budget, options.json, options.plot, options.check))
