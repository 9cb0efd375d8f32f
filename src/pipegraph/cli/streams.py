"""Output streams of the command line: they take any text, and separate results from the output of nodes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TextIO

_results: TextIO | None = None


def open_streams() -> None:
    """Let stdout and stderr take any text: escape what they cannot encode, open closed ones to /dev/null."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # else the next opened file gets its descriptor
        pass
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif isinstance(stream := getattr(sys, name), TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def results() -> TextIO:
    """The stream of results: stdout, even while ``results_apart`` redirects other output to stderr."""
    return _results or sys.stdout


@contextmanager
def results_apart() -> Iterator[None]:
    """Redirect output of nodes and libraries from stdout to stderr, so that it does not mix with results."""
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
    """A stream to the process's stdout, whose descriptor now leads to stderr; None if stdout is replaced."""
    try:
        if sys.stdout.fileno() != 1:
            return None
    except (OSError, ValueError):  # it is no file
        return None
    stream = open(os.dup(1), "w", encoding=sys.stdout.encoding, errors="backslashreplace")
    os.dup2(2, 1)
    return stream


def mute(stream: TextIO) -> None:
    """Discard the output and the buffer of a stream."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
