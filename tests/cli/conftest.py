"""Calling the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipegraph.cli import main


class Done(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """Each line of stdout, which must all be JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Done]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """``call("run", "graph.json")`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str | Path) -> Done:
        with pytest.raises(SystemExit) as left:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Done(int(left.value.code or 0), out, err)

    return run


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """``write({"nodes": ...})`` makes a native graph file."""

    def make(document: dict[str, Any], name: str = "graph.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"pipegraph": 1, **document}))
        return path

    return make
