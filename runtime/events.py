"""Numbered events of a run, for progress bars, servers and tests.

Kinds and their data:
    hashing    path, bytes: a large file is read before the plan; number 0, not in the log
    plan       steps (how many), todo, maybe (if a lazy input asks) and cached (lists of node ids), merged, resolved
    started    -                     cached     -
    progress   done, total, unit     preview    pixels
    text       text                  saved      path, kind, temporary
    token      text, id, sequence (text of a language model, token by token)
    warning    message               finished   seconds
    failed     problem               done       status (done, failed, cancelled), seconds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Condition
from types import MappingProxyType
from typing import Any, Final, NamedTuple

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Event(NamedTuple):
    """One thing that happened in a run."""

    number: int
    """Counted from 1 within the run."""
    run: str
    kind: str
    seconds: float
    """Since the run began."""
    node: str = ""
    title: str = ""
    data: Mapping[str, Any] = NOTHING

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON values; a preview by its shape."""
        data: dict[str, Any] = {
            "event": self.kind,
            "number": self.number,
            "run": self.run,
            "at": round(self.seconds, 4),
        }
        if self.node:
            data |= {"node": self.node, "title": self.title}
        for key, value in self.data.items():
            if isinstance(value, Path):
                value = str(value)
            elif key == "pixels":
                key, value = "shape", [int(n) for n in getattr(value, "shape", ())]
            elif key == "seconds":
                value = round(value, 4)
            data[key] = value
        return data


class ListenerFailed(BaseException):
    """A listener raised (``__cause__``). Ends the run; the running node did not fail."""


class EventLog:
    """The events of one run. Writing is done by one thread; any number may read."""

    def __init__(self, run: str, listener: Callable[[Event], None] | None = None) -> None:
        self.run = run
        self.ended = False
        self._events: list[Event] = []
        self._listener = listener
        self._start = time.perf_counter()
        self._last_preview: dict[str, int] = {}
        self._waiting: Condition | None = None

    def emit(self, kind: str, node: str = "", title: str = "", data: Mapping[str, Any] = NOTHING) -> None:
        """Add an event and notify the listener."""
        events = self._events
        event = Event(len(events) + 1, self.run, kind, time.perf_counter() - self._start, node, title, data)
        if kind == "preview":
            self._forget_preview(event)
        events.append(event)
        if kind == "done":
            self.ended = True
        if self._listener:
            self._tell(event)
        if self._waiting:
            with self._waiting:
                self._waiting.notify_all()

    def _tell(self, event: Event) -> None:
        try:
            assert self._listener
            self._listener(event)
        except Exception as e:
            self._listener = None
            raise ListenerFailed from e

    def _forget_preview(self, event: Event) -> None:
        """Keep only the last preview of a node, to save memory in long runs."""
        old = self._last_preview.get(event.node)
        if old is not None:
            self._events[old] = self._events[old]._replace(data=NOTHING)
        self._last_preview[event.node] = event.number - 1

    def since(self, number: int = 0) -> list[Event]:
        """The events after ``number``."""
        return self._events[number:]

    def follow(self, number: int = 0, timeout: float | None = None) -> Iterator[Event]:
        """Yield events after ``number`` as they come, until the run ends or for ``timeout`` seconds nothing comes."""
        self._waiting = self._waiting or Condition()
        while True:
            for event in self.since(number):
                number = event.number
                yield event
            if self.ended and number == len(self._events):
                return
            with self._waiting:
                if len(self._events) == number and not self._waiting.wait(timeout):
                    return
