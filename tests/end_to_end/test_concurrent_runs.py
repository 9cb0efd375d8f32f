"""Different runs at once in one process: every result is that of the run alone, every failure its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def results(count: int, threads: int, out: Path) -> list[dict[str, str]]:
    """Outcomes of a fresh process, cold and warm."""
    command = [sys.executable, "-m", "tests.end_to_end.concurrent_runs", str(count), str(threads), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    both: list[dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return both


def check(count: int, threads: int, out: Path) -> None:
    (alone, _), (cold, warm) = results(count, 1, out / "alone"), results(count, threads, out / "together")
    assert alone == cold == warm
    failed = {name: outcome for name, outcome in alone.items() if "Error" in outcome}
    assert {name.rpartition(" ")[0] for name in failed} == {"wrong model", "wrong size", "wrong node", "failing node"}
    assert all(f"failed with {n.split()[-1]};" in o for n, o in failed.items() if n.startswith("failing node"))
    assert all("embedded/nothing" in o for n, o in failed.items() if n.startswith("wrong model"))
    assert all("100000" in o for n, o in failed.items() if n.startswith("wrong size"))
    assert len({*alone.values()}) > len(alone) // 2


def test_all_kinds_at_once(tmp_path: Path) -> None:
    check(15, 4, tmp_path)


@pytest.mark.slow
def test_two_hundred_runs_at_once(tmp_path: Path) -> None:
    check(200, 8, tmp_path)
