"""What a node may ask of the runtime, with real files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from pipegraph.runtime.files import scratch, write_new
from pipegraph.runtime.node import NodeEvent

T = TypeVar("T")
torch.set_num_threads(1)


@dataclass
class Context:
    """A RunContext of one node."""

    output_dir: Path
    temp_dir: Path
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    node_id: str = "9"
    device: str = "cpu"
    dtype: str = "auto"
    quantize: str = ""

    def warn(self, message: str) -> None:
        raise AssertionError(message)

    def note(self, key: str, value: Any) -> None:
        raise AssertionError(key)

    def scratch(self) -> Path:
        return scratch(self.output_dir)

    def write(self, name: str, data: bytes | Path, *, temporary: bool = False) -> Path:
        return write_new(self.temp_dir if temporary else self.output_dir, name, data)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path / "output", tmp_path / "temp")


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
        events = []
        while True:
            try:
                events.append(next(node))
            except StopIteration as end:
                return events, end.value

    return run
