"""How the commands print: aligned columns, problems, JSON lines. Imports nothing that is slow."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click

from pipegraph.runtime.errors import Problem


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
        click.echo((head + lines[0]).rstrip())
        for line in lines[1:]:
            click.echo(" " * start + line)


def problems(listed: Sequence[Problem], unlisted: int = 0) -> None:
    """Print problems on stderr, one after the other, and how many there are besides."""
    for problem in listed:
        echo(click.style("error", fg="red", bold=True) + f"[{problem.code}] {problem}", err=True)
    if unlisted:
        echo(f"... and {unlisted:,} more problems", err=True)


def json_line(value: Any) -> None:
    """Print one value as one line of strict JSON on stdout, at once."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    echo(text.encode(errors="backslashreplace").decode())  # a byte of a path that is no UTF-8 becomes a JSON escape


def echo(message: Any, err: bool = False) -> None:
    """Print a line for a reader who may have gone, as with ``| head``: then the stream is muted and work goes on."""
    try:
        click.echo(message, err=err)
    except BrokenPipeError:
        mute(sys.stderr if err else sys.stdout)


def write(text: str) -> None:
    """Print a piece of text on stdout, at once and without a line break; as with ``echo``, the reader may have gone."""
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        mute(sys.stdout)


def mute(stream: TextIO) -> None:
    """Let what is written to a stream, and what it still holds, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
