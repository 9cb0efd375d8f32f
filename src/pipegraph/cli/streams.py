"""The streams that the command line prints to: they take any text, and results are kept apart from what nodes print."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TextIO

_results: TextIO | None = None


def open_streams() -> None:
    """Let stdout and stderr take any text: what they cannot encode is escaped, and a closed one leads nowhere."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # else the next file that is opened takes its number
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def results() -> TextIO:
    """Where results are printed: stdout, also while ``results_apart`` leads what others print there to stderr."""
    return _results or sys.stdout


@contextmanager
def results_apart() -> Iterator[None]:
    """Inside, what nodes and libraries print on stdout goes to stderr, so that it does not stand between results."""
    global _results
    sys.stdout.flush()
    own = _own_stdout()
    _results = own or sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _results.flush()
        _results = None
        if own:
            os.dup2(own.fileno(), 1)
            own.close()


def _own_stdout() -> TextIO | None:
    """A stream of its own to the process's stdout, whose number leads to stderr now; None if stdout is replaced."""
    try:
        if sys.stdout.fileno() != 1:
            return None
    except (OSError, ValueError):  # it is no file
        return None
    stream = open(os.dup(1), "w", encoding=sys.stdout.encoding, errors="backslashreplace")
    os.dup2(2, 1)
    return stream


def mute(stream: TextIO) -> None:
    """Let what is written to a stream, and what it still holds, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
