"""Changed graph files raise the project's own errors and nothing else, soon and in little memory."""

from __future__ import annotations

import io
import json
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from pipegraph.cli import main
from pipegraph.graphs import ready_made, write
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.schema import Link
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.hashes import FileHashes
from pipegraph.runtime.plan import plan

from .mutator import Mutator

SECONDS = 2.0
"""CPU time that one file may take."""
GROWTH = 200 << 20
"""Bytes of memory that a file may take besides three times its size."""


def documents(catalog: Catalog) -> list[Any]:
    """The ready-made graphs in both forms."""
    found: list[Any] = []
    for name in ready_made.names():
        graph = load(name)

        def index(link: Link, nodes: Any = graph.nodes) -> int:
            outputs = catalog.entries[nodes[link.node].type].output_index
            return outputs[link.output] if isinstance(link.output, str) else link.output

        found += [json.loads(ready_made.find(name) or b""), write.api(graph, index=index)]
    return found


@contextmanager
def limited() -> Iterator[None]:
    """Fail if this takes more CPU time than a file may, and end what does not end."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before, start = signal.signal(signal.SIGVTALRM, stop), time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 5 * SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert time.process_time() - start < SECONDS


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run(seed: int, count: int, seconds: float, folder: Path) -> int:
    """Check so many changed files, or as many as fit into the time; how many passed as sound."""
    catalog, hashes = Catalog.load(), FileHashes(folder / "hashes.json")
    mutator = Mutator(seed, documents(catalog), [*catalog.entries, "Nope", ""])
    sound, largest, end, before = 0, 0, time.monotonic() + seconds, peak()
    for number in range(count):
        data = mutator.make()
        largest = max(largest, len(data))
        try:
            with limited(), suppress(GraphError):
                plan(check(loads(data, "graph.json", partial=True), catalog), hashes=hashes)
                sound += 1
            if number % 50 == 0:
                with limited():
                    validate(data, folder / "graph.json")
        except BaseException:
            (folder / "mutant.json").write_bytes(data)
            print(f"seed {seed}, file {number}: {folder / 'mutant.json'}")
            raise
        if time.monotonic() > end:
            print(f"{number} files in {seconds} s")
            break
    assert peak() - before < GROWTH + 3 * largest
    return sound


def validate(data: bytes, file: Path) -> None:
    """The command line says yes or no."""
    file.write_bytes(data)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), pytest.raises(SystemExit) as left:
        main(["validate", str(file)])
    assert left.value.code in (0, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hub").mkdir()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    return tmp_path


def test_some_changed_files(folder: Path) -> None:
    assert run(seed=1, count=500, seconds=60, folder=folder) > 10


@pytest.mark.slow
def test_100_000_changed_files(folder: Path) -> None:
    assert run(seed=2, count=100_000, seconds=1800, folder=folder) > 2000
