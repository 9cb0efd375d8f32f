"""CPU time of the command line: ``--help`` against common imports, cold runs against ``import torch``.

python benchmarks/cli.py [RUNS]
"""

from __future__ import annotations

import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

LIMIT = 1.5
"""``--help`` may cost this many times the common imports, plus what importing click costs."""
COMMON = "import argparse, json, hashlib, pathlib, logging"
COLD = {
    "flux.json": ["run", "flux.json", "--prompt", "a red apple on the beach", "--seed", "7"],
    "chat.json": ["run", "chat.json", "--model", "embedded/prompt-writer", "--message", "an apple"],
}
COLD_LIMIT = 2.5
"""A cold run may cost this many times ``import torch``."""
CALL = "import sys; from pipegraph.cli import main; sys.argv[1:] = {}; main()"
HELP = "import sys; from pipegraph.cli import main; sys.exit(main(['--help']))"


def cpu_ms(code: str) -> float:
    """User and system time of one fresh interpreter that runs ``code``, in ms."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measure(runs: int = 11) -> dict[str, float]:
    """Medians in ms, taken in turn so that a busy moment hits all alike."""
    with TemporaryDirectory() as folder:
        codes = {"common": COMMON, "common+click": COMMON + ", click", "help": HELP, "import torch": "import torch"}
        codes |= {name: CALL.format([*args, "--out", folder]) for name, args in COLD.items()}
        times: dict[str, list[float]] = {name: [] for name in codes}
        for _ in range(runs):
            for name, code in codes.items():
                times[name].append(cpu_ms(code))
    return {name: median(values) for name, values in times.items()}


def main() -> None:
    ms = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
    allowed = LIMIT * ms["common"] + ms["common+click"] - ms["common"]
    for name, value in ms.items():
        ratio = f"  {value / ms['import torch']:.2f} x import torch" if name in COLD else ""
        print(f"{name:<14} {value:6.0f} ms{ratio}")
    print(f"{'help allowed':<14} {allowed:6.0f} ms  ({LIMIT} x common + click)")
    slow = [name for name in COLD if ms[name] > COLD_LIMIT * ms["import torch"]]
    print(f"cold runs above {COLD_LIMIT} x import torch: {', '.join(slow) or 'none'}")
    sys.exit(ms["help"] > allowed or bool(slow))


if __name__ == "__main__":
    main()
