"""What the engine costs a node: CPU time of trivial nodes, in one process.

    python benchmarks/engine.py

Prints microseconds a node for a first run, a cached re-run (parse, validate, plan, key, hit: the whole path from the
text of the file), and a run with one leaf changed; for wide graphs, chains and ladders: the least of several tries, as
other work on the machine only adds to it. Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipegraph.graphs.load import loads
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.events import Event
from pipegraph.runtime.node import node
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Result, Runner


@node("Add", category="benchmark")
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


@node("Show", category="benchmark", output_node=True)
def show(value: int) -> int:
    """End a branch.

    Args:
        value: What to show.
    """
    return value


CATALOG = Catalog.of(add, show)


def wide(n: int, leaf: int = 0) -> str:
    """Branches of ten nodes, each with an end; ``leaf`` changes the first."""
    nodes: dict[str, Any] = {}
    for branch in range(n // 10):
        value: Any = leaf if branch == 0 else 1000 * branch
        for i in range(9):
            nodes[f"{branch}:{i}"] = {"class_type": "Add", "inputs": {"a": value, "b": i}}
            value = [f"{branch}:{i}", 0]
        nodes[f"{branch}:end"] = {"class_type": "Show", "inputs": {"value": value}}
    return json.dumps(nodes)


def chain(n: int, leaf: int = 0) -> str:
    """One branch of n nodes."""
    nodes: dict[str, Any] = {"0": {"class_type": "Add", "inputs": {"a": leaf}}}
    for i in range(1, n - 1):
        nodes[str(i)] = {"class_type": "Add", "inputs": {"a": [str(i - 1), 0]}}
    nodes["end"] = {"class_type": "Show", "inputs": {"value": [str(n - 2), 0]}}
    return json.dumps(nodes)


def ladder(n: int, leaf: int = 0) -> str:
    """Each node reads the one before twice: 2^n paths."""
    nodes: dict[str, Any] = {"0": {"class_type": "Add", "inputs": {"a": leaf}}}
    for i in range(1, n - 1):
        nodes[str(i)] = {"class_type": "Add", "inputs": {"a": [str(i - 1), 0], "b": [str(i - 1), 0]}}
    nodes["end"] = {"class_type": "Show", "inputs": {"value": [str(n - 2), 0]}}
    return json.dumps(nodes)


def run(text: str, runner: Runner, folder: Path) -> Result:
    """The whole path from text to result, with a listener."""
    events: list[Event] = []
    return runner.run(plan(check(loads(text), CATALOG)), output_dir=folder, on_event=events.append)


def measure(shape: Callable[[int, int], str], n: int, folder: Path, repeats: int) -> dict[str, float]:
    """The least CPU microseconds a node of several tries, by kind of run."""
    found: dict[str, list[float]] = {"first": [], "cached": [], "changed": []}
    text, other = shape(n, 0), shape(n, 1)
    for _ in range(repeats):
        runner = Runner()
        for kind, document in (("first", text), ("cached", text), ("changed", other)):
            gc.collect()
            start = time.process_time()
            result = run(document, runner, folder)
            found[kind].append((time.process_time() - start) / n * 1e6)
            assert kind != "cached" or not result.timings
    return {kind: min(times) for kind, times in found.items()}


def main() -> int:
    """Print the table and compare it with the goals."""
    table: dict[tuple[str, int], dict[str, float]] = {}
    print(f"{'graph':<12}{'first run':>12}{'cached':>12}{'changed':>12}   CPU us a node")
    with tempfile.TemporaryDirectory() as folder:
        for shape in (wide, chain, ladder):
            for n, repeats in ((100, 60), (1000, 12), (5000, 6)):
                row = table[shape.__name__, n] = measure(shape, n, Path(folder), repeats)
                cells = "".join(f"{row[kind]:>12.1f}" for kind in ("first", "cached", "changed"))
                print(f"{shape.__name__:<6}{n:>6}{cells}")
    goals = [
        ("cached re-run of wide 1000", table["wide", 1000]["cached"], 40.0, "us a node"),
        ("first run of wide 1000", table["wide", 1000]["first"], 50.0, "us a node"),
        *(
            (f"{kind} {name}, 5000 against 100", table[name, 5000][kind] / table[name, 100][kind], 1.5, "times")
            for name in ("wide", "chain")
            for kind in ("first", "cached")
        ),
    ]
    missed = 0
    for name, value, limit, unit in goals:
        missed += value > limit
        print(f"{'ok  ' if value <= limit else 'MISS'} {name}: {value:.2f} {unit} (goal: at most {limit:g})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
