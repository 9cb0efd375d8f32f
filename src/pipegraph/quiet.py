"""Settings of other libraries: no talk over our output, no hub that nobody asked for, no spinning threads."""

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
"""Environment variables those libraries read when they are imported."""


def quiet() -> None:
    """Set what the user has not set. Call it before the libraries are imported; for a program's own process only."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
