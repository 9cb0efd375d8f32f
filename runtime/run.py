"""Run plans, one or several at a time, over one cache; cancel them by their id.

runner = Runner()
result = runner.run(plan(checked), output_dir="output", on_event=print)
result["image"], result.files, result.record
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from pipegraph.access import granted

from .cache import MemoryCache
from .errors import NoSuchRun, RunFinished
from .events import Event, EventLog
from .execution import Execution, Result
from .plan import Plan

__all__ = ["Result", "Runner"]
ENDED_RUNS: Final = 200
"""Number of ended runs whose events are kept."""


class Runner:
    """Runs plans, one or several at a time, over one cache.

    Args:
        cache: Cache of results; one of the default size if None.
        temp_dir: Folder for previews; a folder in the user's cache if None.
    """

    def __init__(self, *, cache: MemoryCache | None = None, temp_dir: Path | None = None) -> None:
        self.cache = MemoryCache() if cache is None else cache
        self._temp_dir = temp_dir
        self._runs: dict[str, Execution] = {}
        self._ended: OrderedDict[str, EventLog] = OrderedDict()
        self._lock = Lock()

    def run(
        self,
        plan: Plan,
        *,
        output_dir: Path | str = "output",
        on_event: Callable[[Event], None] | None = None,
        run_id: str | None = None,
    ) -> Result:
        """Run a plan to its end.

        Args:
            plan: The plan.
            output_dir: Folder for output files; created when the first is written.
            on_event: Called with each event, in this thread.
            run_id: Name for ``cancel``; generated if None.

        Raises:
            RunError: a node failed.
            Cancelled: ``cancel`` was called, or Ctrl-C pressed.
            ValueError: the id is in use.
        """
        run_id = run_id or f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        run = Execution(plan, self.cache, run_id, Path(output_dir), self._temp_dir, on_event)
        with self._lock:
            if run_id in self._runs or run_id in self._ended:
                raise ValueError(f"the run id {run_id!r} was used already")
            self._runs[run_id] = run
        try:
            with granted(plan.checked.access):
                return run.execute()
        finally:
            with self._lock:
                del self._runs[run_id]
                self._ended[run_id] = run.log
                if len(self._ended) > ENDED_RUNS:
                    self._ended.popitem(last=False)

    def cancel(self, run_id: str) -> None:
        """Stop a run at its next step, tile or token. Other runs go on.

        Raises:
            RunFinished: it has ended.
            NoSuchRun: no run has this id.
        """
        with self._lock:
            if run_id in self._runs:
                self._runs[run_id].cancelled = True
            elif run_id in self._ended:
                raise RunFinished(f"the run {run_id!r} has ended")
            else:
                raise NoSuchRun(f"there is no run {run_id!r}")

    def events(self, run_id: str) -> EventLog:
        """The events of a running or recently ended run; any thread may read and follow them.

        Raises:
            NoSuchRun: unknown run id.
        """
        with self._lock:
            if run_id in self._runs:
                return self._runs[run_id].log
            if run_id in self._ended:
                return self._ended[run_id]
        raise NoSuchRun(f"there is no run {run_id!r}")

    @property
    def running(self) -> list[str]:
        """Ids of the runs going on."""
        return [*self._runs]
