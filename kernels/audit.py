"""Strict mode: check that no attention and no large matrix product bypasses the kernel layer.

It watches the launches of torch below every Python hook, and checks for each attention and matrix product that a
registered back end is among its callers; launches of Triton kernels count for the back end that made them:

    with strict() as launches:
        network(...)
    assert launches.attention == 4

Slow; for tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .backends.triton import available
from .dispatch import OPS, backends

_FUSED = ("scaled_dot_product", "flash_attention", "efficient_attention", "multi_head_attention", "flex_attention")
_PRODUCTS = frozenset(
    "mm addmm bmm baddbmm addbmm matmul linear einsum mv addmv dot inner bilinear _int_mm _scaled_mm"
    " _weight_int8pack_mm _weight_int4pack_mm".split()
)


class Bypass(AssertionError):
    """Launches bypassed the kernel layer."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One attention or matrix product of torch."""

    aten: str
    shapes: tuple[tuple[int, ...], ...]
    caller: str
    """The nearest line outside torch."""

    def __str__(self) -> str:
        return f"{self.aten} {' '.join(map(str, self.shapes))} at {self.caller}"


@dataclass(slots=True)
class Launches:
    """Launches during an audit."""

    inside: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OPS, 0))
    """Calls of each op's back ends that launched something."""
    escaped: list[Launch] = field(default_factory=list)

    @property
    def attention(self) -> int:
        return self.inside["attention"]

    @property
    def linear(self) -> int:
        return self.inside["linear"]


@contextmanager
def strict(min_flops: int = 1) -> Iterator[Launches]:
    """Count what the layer launches; raise ``Bypass`` at the end if anything escaped it.

    Args:
        min_flops: Matrix products outside the layer below this many multiply-adds are let through.
    """
    with audit(min_flops) as launches:
        yield launches
    if launches.escaped:
        listed = "\n  ".join(map(str, dict.fromkeys(launches.escaped)))
        raise Bypass(f"{len(launches.escaped)} launches bypassed the kernel layer:\n  {listed}")


@contextmanager
def audit(min_flops: int = 1) -> Iterator[Launches]:
    """Like :func:`strict`, but only records what escaped."""
    codes = {b.fn.__code__: op for op in OPS for b in backends(op).values()}
    mode = _Watch(codes, min_flops)
    with mode, _triton_launches(mode):
        yield mode.launches


@contextmanager
def _triton_launches(mode: _Watch) -> Iterator[None]:
    """Watch launches of Triton kernels, which torch does not see."""
    if available.missing() or available.interpreting():
        yield
        return
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def watched(self: Any, *args: Any, **options: Any) -> Any:
        out = run(self, *args, **options)
        mode.judge(f"triton {self.fn.__name__}", [a for a in args if isinstance(a, Tensor)])
        return out

    JITFunction.run = watched
    try:
        yield
    finally:
        JITFunction.run = run


class _Watch(TorchDispatchMode):
    def __init__(self, codes: dict[CodeType, str], min_flops: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.codes, self.min_flops, self.launches = codes, min_flops, Launches()
        self.last: FrameType | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.rpartition("::")[2]
        tensors = [x for x in _flat(args) if isinstance(x, Tensor)]
        out = func(*args, **(kwargs or {}))
        fused = any(part in name for part in _FUSED) or ("softmax" in name and tensors[0].ndim >= 3)
        if fused or (name in _PRODUCTS and out.numel() * tensors[-2].shape[-1] >= self.min_flops):
            self.judge(name, tensors)
        return out

    def judge(self, name: str, tensors: list[Tensor]) -> None:
        """Count a launch for the op whose back end called it, or record that it escaped."""
        frame: FrameType | None = sys._getframe(2)
        caller = ""
        while frame is not None:
            if op := self.codes.get(frame.f_code):
                if frame is not self.last:  # several launches of one call count once
                    self.launches.inside[op] += 1
                    self.last = frame
                return
            if not caller and frame.f_globals.get("__name__", "").partition(".")[0] != "torch":
                caller = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        self.launches.escaped.append(Launch(name, tuple(tuple(t.shape) for t in tensors), caller))


def _flat(args: Any) -> Iterator[Any]:
    for a in args:
        yield from a if isinstance(a, list | tuple) else (a,)
