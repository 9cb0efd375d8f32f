"""EasyCache: reuse the last computed difference between input and output of the network in some steps.

EasyCache (Zhou and others 2025, "Less is Enough: Training-Free Video Diffusion Acceleration via Runtime-Adaptive
Caching", arXiv 2507.02860). With x the network's input and v its output, |.| the mean of absolute values, and j < i the
last two steps that were computed:

    d = v_i - x_i                                what is reused: v_n is taken to be x_n + d
    k = |v_i - v_j| / |x_i - x_j|                how fast the output changes with the input
    e_n = e_(n-1) + k |x_n - x_(n-1)| / |v_i|    expected relative change of the output since step i

Step n is reused while e_n is below the threshold; a computed one sets e to 0. Off unless a node asks for it: the
results are others. How far off is measured where it costs nothing: a step that is computed after reused ones is
compared with what reuse would have given there, one step farther than what was reused.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..sampling.model_sampling import ModelSampling


@dataclass(frozen=True, slots=True)
class StepCache:
    """Settings for reusing steps."""

    threshold: float
    """Expected relative change of the output below which a step is reused; 0: never."""
    start_percent: float = 0.15
    """Fraction of sampling before which every step is computed."""
    end_percent: float = 0.95
    """Fraction of sampling after which every step is computed."""
    verbose: bool = False
    """Also report runs in which nothing was reused."""

    def run(self, sampling: ModelSampling) -> CachedRun:
        """The state for one sampling run; nothing is shared between runs."""
        ends = (self.start_percent, self.end_percent)
        first, last = (math.inf if p <= 0 else sampling.percent_to_sigma(p) for p in ends)
        return CachedRun(self.threshold, first, last)


@dataclass(slots=True)
class _Call:
    """Input and output of one call of the network, [B, C, ...] float32."""

    x: Tensor
    v: Tensor


@dataclass(slots=True)
class CachedRun:
    """State of one run: the last computed step of all conditionings."""

    threshold: float
    first: float
    """Noise level from which on steps may be reused."""
    last: float
    """Noise level below which they may not."""
    steps: int = 0
    """Steps requested so far; samplers of higher order request several per step."""
    reused: int = 0
    expected: list[float] = field(default_factory=list)
    """e of each reused step."""
    measured: list[float] = field(default_factory=list)
    """Relative error of reuse at each step that was computed after reused ones, |x + d - v| / |v|."""
    _before: Mapping[Hashable, _Call] = field(default_factory=dict)
    _now: dict[Hashable, _Call] = field(default_factory=dict)
    _x: Tensor | None = None
    _rate: float | None = None
    _size: float = 0.0
    _change: float = 0.0
    _waiting: bool = False

    def begin(self, x: Tensor, sigma: float, keys: frozenset[Hashable]) -> bool:
        """Whether to reuse this step.

        Args:
            x: The state, without concatenated channels.
            sigma: Its noise level.
            keys: Keys of the step's calls, e.g. positive and negative.
        """
        self.steps += 1
        known = self._x is not None and self._x.shape == x.shape and keys == self._before.keys()
        if known and self._rate is not None and self._size and self.last <= sigma <= self.first:
            assert self._x is not None
            self._change += self._rate * _mean(x - self._x) / self._size
            if self._change < self.threshold:
                self._x = x
                self.reused += 1
                self.expected.append(self._change)
                self._waiting = True
                return True
        self._x, self._change, self._now = x, 0.0, {}
        return False

    def reuse(self, key: Hashable, x: Tensor) -> Tensor:
        """The reused output for input x of a call."""
        before = self._before[key]
        return x.float() + (before.v - before.x)

    def learn(self, key: Hashable, x: Tensor, v: Tensor) -> None:
        """Store a computed call."""
        self._now[key] = _Call(x.float(), v.float())

    def end(self) -> None:
        """Finish a computed step: measure change rate and error."""
        now, before = self._now, self._before
        self._size = _mean(*(call.v for call in now.values()))
        if now.keys() == before.keys():
            moved = _mean(*(now[k].x - before[k].x for k in now))
            self._rate = _mean(*(now[k].v - before[k].v for k in now)) / moved if moved else None
            if self._waiting and self._size:
                off = (now[k].x + (before[k].v - before[k].x) - now[k].v for k in now)
                self.measured.append(_mean(*off) / self._size)
        else:
            self._rate = None
        self._before, self._waiting = now, False

    def report(self) -> dict[str, Any]:
        """Run record entry."""
        return {
            "threshold": self.threshold,
            "steps": self.steps,
            "reused": self.reused,
            "speed_up": round(self.steps / max(1, self.steps - self.reused), 3),
            "expected_error": _largest(self.expected),
            "measured_error": _largest(self.measured),
        }

    def __str__(self) -> str:
        report = self.report()
        text = f"EasyCache: {self.reused} of {self.steps} steps are reused ({report['speed_up']:g} times as fast)"
        if not self.reused:
            return text
        text += f"; their outputs are expected to be off by {report['expected_error']:.1%} at most"
        if self.measured:
            text += f", {report['measured_error']:.1%} was measured a step later"
        return text


def _mean(*tensors: Tensor) -> float:
    """Mean absolute value over all tensors."""
    total = sum(float(t.abs().sum(dtype=torch.float64 if t.device.type == "cpu" else None)) for t in tensors)
    return total / sum(t.numel() for t in tensors)


def _largest(values: list[float]) -> float | None:
    return round(max(values), 6) if values else None
