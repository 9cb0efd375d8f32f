"""The card of a model: ``card.json`` in its folder, ``x.json`` beside ``x.safetensors``. Torch-free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..paths import resolve
from .headers import read_json


def card_file(path: Path) -> Path:
    """Path of a model's card."""
    return path / "card.json" if path.is_dir() else path.with_suffix(".json")


def read_card(path: Path) -> dict[str, Any]:
    """The card of a model, empty if it has none."""
    file = card_file(path)
    return read_json(file) if file.is_file() else {}


def component(path: Path, name: str) -> Path:
    """The folder of a pipeline component: its own, else that of the card's ``base`` model."""
    own = path / name
    if own.is_dir() or (base := read_card(path).get("base")) is None:
        return own
    return resolve("checkpoints", base) / name
