"""Events that a node may yield. Torch-free."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """Yielded by a node: ``done`` of ``total`` steps, tiles or tokens."""

    done: int
    total: int
    unit: str = "it"


@dataclass(frozen=True, slots=True)
class Preview:
    """Yielded by a node: a small preview image, uint8 [H, W, 3] as an array."""

    pixels: Any


@dataclass(frozen=True, slots=True)
class Text:
    """Yielded by a node: a piece of generated text, or a text to show."""

    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """Yielded by a node for each generated token; the pieces of a sequence together are its text."""

    text: str
    """May be empty while a character or a stop string is incomplete."""
    id: int = -1
    """-1: the rest of the text, not a token."""
    sequence: int = 0
    """Index in the batch."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Yielded by a node: a file that was written; ``kind`` is image, video, audio, text or conditioning."""

    path: Path
    kind: str = "image"
    temporary: bool = False


NodeEvent = Progress | Preview | Text | Token | Saved
