"""The memory of a process, in KiB."""

from __future__ import annotations

import resource
from pathlib import Path


def peak() -> int:
    """Most that this process had resident so far.

    Not what getrusage says, where there is better: that begins with the memory of the process which started this one.
    """
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def resident() -> int:
    """What it has now; 0 where that is not known."""
    return _status("VmRSS")


def _status(name: str) -> int:
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.is_file() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)
