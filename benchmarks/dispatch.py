"""Overhead of dispatch per call: CPU time of an op whose back end does nothing.

python benchmarks/dispatch.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pipegraph.kernels.dispatch import Backend, register, use
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.linear import linear

LIMIT = 3.0
"""Microseconds per call on an idle machine."""


def nothing(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


def measure(call: Callable[[], Any], repeats: int = 200, calls: int = 500) -> float:
    """Least CPU time per call in microseconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time_ns() - start) / calls / 1000)
    return best


def main() -> None:
    q, x, w = torch.ones(1, 2, 3, 8), torch.ones(3, 8), torch.ones(5, 8)
    for op in ("attention", "linear"):
        register(Backend(op, "nothing", nothing, rank=lambda s: -1))
    with use(attention="nothing", linear="nothing"):
        times = {
            "attention": measure(lambda: attention(q, q, q)),
            "linear": measure(lambda: linear(x, w)),
            "a bare call": measure(lambda: nothing(q, q, q)),
        }
    for name, us in times.items():
        print(f"{name:12} {us:6.2f} us")
    assert max(times.values()) <= LIMIT, f"more than {LIMIT} us"


if __name__ == "__main__":
    main()
