"""Overhead of the engine per node: CPU time of trivial nodes, in one process.

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
        a: First number.
        b: Second number.
    """
    return a + b


@node("Show", category="benchmark", output_node=True)
def show(value: int) -> int:
    """End a branch.

    Args:
        value: Value to show.
    """
    return value


CATALOG = Catalog.of(add, show)
REPEATS = 4


def wide(n: int, leaf: int = 0) -> str:
    """Branches of ten nodes, each with an end; ``leaf`` changes the first."""
    nodes: dict[str, Any] = {}
    for branch in range(n // 10):
        value: Any = leaf if branch == 0 else leaf // 10 * 10 + 1000 * branch
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


def sample(shape: Callable[[int, int], str], n: int, folder: Path) -> dict[str, float]:
    """CPU microseconds a node, by kind of run, of as many graphs as make 5,000 nodes: samples are alike in length."""
    graphs = [(shape(n, 10**6 * i), shape(n, 10**6 * i + 1)) for i in range(5000 // n)]
    runner = Runner()
    costs: dict[str, float] = {}
    for kind, which in (("first", 0), ("cached", 0), ("changed", 1)):
        gc.collect()
        start = time.process_time()
        for texts in graphs:
            result = run(texts[which], runner, folder)
            assert kind != "cached" or not result.timings
        costs[kind] = (time.process_time() - start) / n / len(graphs) * 1e6
    return costs


def main() -> int:
    """Print the table and compare it with the goals."""
    sizes = (100, 1000, 5000)
    table: dict[tuple[str, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(REPEATS):
            for shape in (wide, chain, ladder):
                for n in sizes:
                    new = sample(shape, n, Path(folder))
                    old = table.setdefault((shape.__name__, n), new)
                    table[shape.__name__, n] = {kind: min(old[kind], new[kind]) for kind in new}
    print(f"{'graph':<12}{'first run':>12}{'cached':>12}{'changed':>12}   CPU us a node")
    for (name, n), row in table.items():
        print(f"{name:<7}{n:>5}" + "".join(f"{row[kind]:>12.1f}" for kind in ("first", "cached", "changed")))
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
