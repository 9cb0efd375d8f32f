"""Typed graphs of generative media."""

from pathlib import Path

_checkout = Path(__file__).resolve().parents[2]
if (_checkout / "pyproject.toml").is_file():  # not installed from a wheel: the folders are at the root
    __path__.insert(0, str(_checkout))
