"""CPU time of ``pipegraph --help``, beside a bare interpreter with common imports and click's own import.

python benchmarks/cli.py [RUNS]
"""

from __future__ import annotations

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

LIMIT = 1.5
"""``--help`` may cost this many times the common imports, plus what importing click costs."""
COMMON = "import argparse, json, hashlib, pathlib, logging"
HELP = "import sys; from pipegraph.cli import main; sys.exit(main(['--help']))"


def cpu_ms(code: str) -> float:
    """User and system time of one fresh interpreter that runs ``code``, in ms."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(runs: int = 11) -> dict[str, float]:
    """Medians in ms, taken in turn so that a busy moment hits all alike."""
    codes = {"common": COMMON, "common+click": COMMON + ", click", "help": HELP}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(runs):
        for name, code in codes.items():
            times[name].append(cpu_ms(code))
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    ms = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
    allowed = LIMIT * ms["common"] + ms["common+click"] - ms["common"]
    for name, value in ms.items():
        print(f"{name:<14} {value:6.1f} ms")
    print(f"{'allowed':<14} {allowed:6.1f} ms  ({LIMIT} x common + click)")
    sys.exit(ms["help"] > allowed)


if __name__ == "__main__":
    main()
