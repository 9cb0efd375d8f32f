"""Layers that call the ops: what ``install`` puts in the place of torch's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor, nn

from .linear import LowRank, linear

_side_paths: ContextVar[Mapping[nn.Module, LowRank]] = ContextVar("pipegraph_side_paths", default={})  # noqa: B039


class KernelLinear(nn.Linear):
    """``nn.Linear`` on the op ``linear``: the same parameters and state-dict keys, and room for a low-rank side path.

    ``weight`` may be stored in another float dtype than the input has.
    """

    @staticmethod
    def adopt(layer: nn.Linear) -> None:
        """Make a plain ``nn.Linear`` a KernelLinear in place: no weight is touched or copied."""
        layer.__class__ = KernelLinear

    def forward(self, input: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)"""
        return linear(input, self.weight, self.bias, low_rank=_side_paths.get().get(self))


@contextmanager
def side_paths(paths: Mapping[nn.Module, LowRank]) -> Iterator[None]:
    """Give layers a low-rank side path inside a ``with``, in this thread (context) only.

    Raises:
        ValueError: a layer has one already, or is no KernelLinear.
    """
    outer = _side_paths.get()
    for layer in paths:
        if not isinstance(layer, KernelLinear):
            raise ValueError(f"{type(layer).__name__} takes no side path: call `install` on the network first")
        if layer in outer:
            raise ValueError("a layer of this network has a side path already: stack them in one `side_paths`")
    token = _side_paths.set({**outer, **paths})
    try:
        yield
    finally:
        _side_paths.reset(token)
