"""Settings of other libraries: no log output, no access to the hub, no spinning threads."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Final

SETTINGS: Final = {
    "DIFFUSERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    # Threads that spin while they wait make a small network ten times slower when the machine is busy.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""Environment variables that these libraries read on import."""


def quiet() -> None:
    """Set variables that the user has not set. Call it before these imports, in a program's own process only."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
