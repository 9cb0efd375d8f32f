"""Damaged pictures, videos and sound are read or refused: with the project's own errors, in bounded time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = 1
pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux tells it")


def found(first: int, count: int, seconds: float) -> list[str]:
    """What went wrong with so many damaged files; one that ends the process, or never ends, is one more line."""
    lines: list[str] = []
    end = first + count
    while first < end:
        command = [sys.executable, "-m", "tests.media.fuzz", str(SEED), str(first), str(end - first)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired as e:
            return [*lines, f"no end after {seconds} s: {(e.stderr or b'')[-20:]!r}"]
        lines += done.stdout.splitlines()
        if not done.returncode:
            return lines
        numbers = [line for line in done.stderr.splitlines() if line.isdecimal()]
        if not numbers:
            return [*lines, done.stderr[-2000:]]
        lines.append(f"{numbers[-1]} ended the process with {done.returncode}")
        first = int(numbers[-1]) + 1
    return lines


def test_some_damaged_files() -> None:
    assert found(0, 200, 60) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_thirty_thousand_damaged_files(part: int) -> None:
    assert found(part * 3000, 3000, 900) == []
