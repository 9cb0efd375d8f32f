"""Output of a run: bars on a terminal, plain lines in a pipe, JSON lines for programs.

Progress goes to stderr; stdout holds results: paths of files, and texts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import click

from pipegraph.runtime.errors import visible
from pipegraph.runtime.events import Event

from .show import echo, json_line, safe, write
from .streams import results

QUIET_SECONDS = 5.0
"""Least seconds between progress lines of one node."""
SHORT_SECONDS = 0.05
"""Nodes that took less get no line."""


class Listener(Protocol):
    """Takes the events of a run; used as a context around it."""

    def __call__(self, event: Event) -> None: ...


def listener(as_json: bool, verbose: bool = False) -> AbstractContextManager[Listener]:
    """The listener for the kind of output; ``verbose`` shows the value of each ``auto``."""
    if as_json:
        return nullcontext(_json)
    return Bars(verbose) if sys.stderr.isatty() else nullcontext(Plain(verbose))


def _json(event: Event) -> None:
    json_line(event.as_dict())


class Plain:
    """Lines, for logs and pipes."""

    def __init__(self, verbose: bool = False) -> None:
        self.verbose = verbose
        self.todo: set[str] = set()
        self.finished = 0
        self.speed = Speed()
        self.last_line = time.monotonic()
        self.tokens = 0
        self.texts: dict[int, str] = {}
        """Texts of the running node, by sequence."""

    def __call__(self, event: Event) -> None:
        data = event.data
        if self.texts and event.kind != "token":
            self.end_texts()
        match event.kind:
            case "plan":
                self.todo.update(data["todo"])
                self.say(plan_line(data))
                for line in resolved_lines(data) if self.verbose else ():
                    self.say(line)
            case "hashing":
                self.say(f"reading {data['path'].name} ({data['bytes'] / 1e9:.1f} GB) to hash it")
            case "started":
                self.speed, self.tokens = Speed(), 0
                self.todo.add(event.node)  # a lazy input may request nodes that were not planned
            case "progress":
                self.progress(event)
            case "finished":
                self.finished += 1
                if data["seconds"] >= SHORT_SECONDS:
                    count = f"[{self.finished}/{len(self.todo)}]"
                    self.say(f"{count} {name_of(event)}  {data['seconds']:.2f} s{self.speed.words('  (', ')')}")
            case "token":
                self.token(event)
            case "text":
                write(f"{data['text']}\n")
            case "warning":
                self.say(f"{click.style('warning', fg='yellow')}: {data['message']}")
            case "saved" if data.get("temporary"):
                self.say(f"preview {data['path']}")
            case "saved":
                self.saved(Path(data["path"]))
            case "done" if data["status"] == "done":
                self.say(f"done in {data['seconds']:.2f} s")

    def progress(self, event: Event) -> None:
        self.speed.add(event)
        done, total = event.data["done"], event.data["total"]
        if done < total and time.monotonic() - self.last_line >= QUIET_SECONDS:
            self.say(f"  {name_of(event)} {done}/{total}{self.speed.words('  ')}")

    def token(self, event: Event) -> None:
        """Show the first sequence as it is generated; the others are buffered until it is done."""
        sequence, text = event.data["sequence"], event.data["text"]
        self.tokens += event.data["id"] >= 0
        self.speed.add(event._replace(data={"done": self.tokens, "unit": "tok"}))
        self.texts[sequence] = self.texts.get(sequence, "") + text
        if sequence == 0 and text:
            write(text)

    def end_texts(self) -> None:
        """End the line, and show the other sequences of the batch."""
        first, *others = (text for _, text in sorted(self.texts.items()))
        self.texts = {}
        if not first.endswith("\n"):
            write("\n")
        for text in others:
            write(f"\n{text}\n")

    def saved(self, path: Path) -> None:
        echo(path)

    def say(self, line: str) -> None:
        self.last_line = time.monotonic()
        echo(line, err=True)


class Bars(Plain):
    """Two bars on a terminal: nodes of the graph, and steps of the running node; finished nodes scroll above."""

    def __init__(self, verbose: bool = False) -> None:
        super().__init__(verbose)
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.console = Console(stderr=True, highlight=False)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            TextColumn("{task.fields[count]}", markup=False),
        )
        self.bars = Progress(*columns, console=self.console)
        self.live = Live(self.bars, console=self.console, transient=True, refresh_per_second=8)
        self.nodes = self.bars.add_task("starting", total=None, count="")
        self.node = self.bars.add_task("", total=None, count="", visible=False)

    def __enter__(self) -> Bars:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.live.stop()

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if event.kind == "started":
            self.bars.reset(self.node, total=None, description=name_of(event), count="", visible=True)
        elif event.kind in ("plan", "finished"):
            count = f"{self.finished}/{len(self.todo)} nodes"
            self.bars.update(
                self.nodes, description="graph", total=len(self.todo), completed=self.finished, count=count
            )
        elif event.kind == "done":
            self.bars.update(self.node, visible=False)

    def token(self, event: Event) -> None:
        """Text replaces the bars while it is generated."""
        if not self.texts:
            self.live.stop()
        super().token(event)

    def end_texts(self) -> None:
        super().end_texts()
        self.live.start()

    def progress(self, event: Event) -> None:
        self.speed.add(event)
        done, total = event.data["done"], event.data["total"]
        left = f", {(total - done) / self.speed.rate:.0f} s left" if self.speed.rate else ""
        count = f"{done}/{total}{self.speed.words('  ')}{left}"
        self.bars.update(self.node, completed=done, total=total, count=count)
        self.live.refresh()

    def saved(self, path: Path) -> None:
        if results().isatty():
            self.say(f"saved {path}")
        else:
            echo(path)

    def say(self, line: str) -> None:
        from rich.text import Text

        self.console.print(Text.from_ansi(safe(line)), soft_wrap=True)


class Speed:
    """Steps per second of one node. Time before the first step (loading, warm-up) is not counted."""

    def __init__(self) -> None:
        self.first: tuple[int, float] | None = None
        self.rate = 0.0
        self.unit = "it"

    def add(self, event: Event) -> None:
        done, self.unit = event.data["done"], event.data.get("unit", "it")
        if self.first is None:
            self.first = (done, event.seconds)
        elif event.seconds > self.first[1]:
            self.rate = (done - self.first[0]) / (event.seconds - self.first[1])

    def words(self, before: str, after: str = "") -> str:
        """``5.31 it/s``, or seconds a step where steps are slow; empty before the second step."""
        if not self.rate:
            return ""
        slow = self.rate < 1
        text = f"{1 / self.rate:.2f} s/{self.unit}" if slow else f"{self.rate:.2f} {self.unit}/s"
        return before + text + after


def name_of(event: Event) -> str:
    return visible(f"{event.title} ({event.node})" if event.title else event.node, lines=False)


def plan_line(data: Mapping[str, Any]) -> str:
    cached, todo = len(data["cached"]), len(data["todo"])
    most = f" to {todo + len(data['maybe'])}" if data["maybe"] else ""
    return f"{todo}{most} nodes to run" + (f", {cached} from the cache" if cached else "")


def resolved_lines(data: Mapping[str, Any]) -> list[str]:
    """The value of each ``auto``, one line per source."""
    by_source: dict[str, dict[str, str]] = {}
    for r in data["resolved"]:
        by_source.setdefault(r["source"], {}).setdefault(r["input"], str(r["value"]))
    return [
        f"auto: {', '.join(f'{key} {value}' for key, value in values.items())}  (from {source})"
        for source, values in by_source.items()
    ]
