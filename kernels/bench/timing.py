"""Times of calls: medians of interleaved rounds, by events on a GPU and by the processor's clock on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Call = Callable[[], Any]
_GRAPHED = 10
"""Calls in a CUDA graph."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of one call."""

    median: float
    p10: float
    p90: float


def rotate(calls: Sequence[Call]) -> Call:
    """One call after the other, so that what they read is not in the cache from the time before."""
    at = -1

    def call() -> Any:
        nonlocal at
        at = (at + 1) % len(calls)
        return calls[at]()

    return call


def interleaved(
    calls: dict[str, Call], device: torch.device, *, graph: bool = False, most_ms: float = 400
) -> dict[str, Times]:
    """Time calls in turns, so that a warm or busy moment hits all alike.

    Args:
        calls: By name; each must have run before (compiled, checked).
        device: Device to run on.
        graph: Time them inside a CUDA graph: without what a launch costs the host.
        most_ms: About how long each is measured.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    once = _on_cpu
    scale = 1
    if device.type == "cuda":
        once = _on_gpu
        if graph:
            calls, scale = {name: _graphed(call) for name, call in calls.items()}, _GRAPHED
    slowest = max(once(call) for call in calls.values())  # also warms up
    for _ in range(max(5, min(60, int(most_ms / max(slowest, 1e-3))))):
        for name, call in calls.items():
            times[name].append(once(call) / scale)
    return {name: _summary(sorted(samples)) for name, samples in times.items()}


def _summary(samples: list[float]) -> Times:
    last = len(samples) - 1
    return Times(samples[len(samples) // 2], samples[round(0.1 * last)], samples[round(0.9 * last)])


def _on_cpu(call: Call) -> float:
    start = time.process_time_ns()  # a busy machine does not add to it
    call()
    return max(time.process_time_ns() - start, 1) / 1e6


def _on_gpu(call: Call) -> float:
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def _graphed(call: Call) -> Call:
    """Several calls captured in a CUDA graph; the call that replays it."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_GRAPHED):
            call()
    return graph.replay
