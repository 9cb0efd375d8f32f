"""What a node may ask of the runtime, with real files and folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipegraph.runtime.files import scratch, write_new


@dataclass
class Context:
    """A RunContext of one node that collects warnings and notes."""

    output_dir: Path
    temp_dir: Path
    reproduce: Mapping[str, Any] = field(default_factory=dict)
    node_id: str = "9"
    device: str = "cpu"
    dtype: str = "auto"
    quantize: str = ""
    warnings: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def note(self, key: str, value: Any) -> None:
        self.notes[key] = value

    def progress(self, done: int, total: int, unit: str = "it") -> None: ...

    def scratch(self) -> Path:
        return scratch(self.output_dir)

    def write(self, name: str, data: bytes | Path, *, temporary: bool = False) -> Path:
        return write_new(self.temp_dir if temporary else self.output_dir, name, data)
