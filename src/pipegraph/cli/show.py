"""Printing for commands: aligned columns, problems, JSON lines. No slow imports."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from pipegraph.runtime.errors import Problem, visible

from .streams import mute, results

_STYLE: Final = re.compile(r"(\x1b\[(?:0|1|31|33)m)")
"""Reset, bold, red and yellow of ``click.style``."""


def columns(rows: Iterable[Sequence[str]], indent: str = "") -> None:
    """Print rows in aligned columns; the last column wraps at the width of the terminal."""
    rows = [tuple(row) for row in rows]
    if not rows:
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    start = len(indent) + sum(widths) + 2 * len(widths)
    room = max(40, shutil.get_terminal_size((100, 24)).columns - start)
    for row in rows:
        head = indent + "".join(f"{cell:<{width}}  " for cell, width in zip(row[:-1], widths, strict=True))
        lines = textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [""]
        echo((head + lines[0]).rstrip())
        for line in lines[1:]:
            echo(" " * start + line)


def problems(listed: Sequence[Problem], unlisted: int = 0) -> None:
    """Print problems on stderr, and the number of unlisted ones."""
    for problem in listed:
        echo(click.style("error", fg="red", bold=True) + f"[{problem.code}] {problem}", err=True)
    if unlisted:
        echo(f"... and {unlisted:,} more problems", err=True)


def json_line(value: Any) -> None:
    """Print one value as one line of strict JSON on stdout, at once."""
    echo(json.dumps(value, allow_nan=False, default=str).replace("\x7f", "\\u007f"))


def echo(message: Any, err: bool = False) -> None:
    """Print a line; if the reader has gone, as with ``| head``, mute the stream and go on.

    On a terminal, control characters are escaped.
    """
    stream = sys.stderr if err else results()
    try:
        click.echo(safe(str(message)) if err or stream.isatty() else message, file=stream)
    except BrokenPipeError:
        mute(stream)


def safe(text: str) -> str:
    """Escape control characters for a terminal, except the styles that we use."""
    return "".join(part if _STYLE.fullmatch(part) else visible(part) for part in _STYLE.split(text))


def write(text: str) -> None:
    """Print a piece of a result on stdout, at once and without a line break; raw in a pipe or file."""
    stream = results()
    try:
        click.echo(safe(text) if stream.isatty() else text, file=stream, nl=False, color=True)
        stream.flush()
    except BrokenPipeError:
        mute(stream)
