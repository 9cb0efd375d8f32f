"""What a node may ask of the runtime, with real files."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from pipegraph.generators import finish
from pipegraph.runtime.node import NodeEvent

from ..context import Context

T = TypeVar("T")
torch.set_num_threads(1)


class Strict(Context):
    """Takes no warning and no note."""

    def warn(self, message: str) -> None:
        raise AssertionError(message)

    def note(self, key: str, value: Any) -> None:
        raise AssertionError(key)


STRICT = Strict(Path(), Path())


@pytest.fixture
def context(tmp_path: Path) -> Strict:
    return Strict(tmp_path / "output", tmp_path / "temp")


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of input pictures."""
    folder = tmp_path / "input"
    folder.mkdir()
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(folder))
    return folder


@pytest.fixture
def drain() -> Callable[[Generator[NodeEvent, None, T]], tuple[list[NodeEvent], T]]:
    """Run a node that streams: its events and what it returns."""

    def run(node: Generator[NodeEvent, None, T]) -> tuple[list[NodeEvent], T]:
        events: list[NodeEvent] = []
        result = finish(node, events.append)
        return events, result

    return run
