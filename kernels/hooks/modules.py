"""Layers that call the ops, which ``install`` puts in place of torch's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from pipegraph.context import holding
from pipegraph.kernels.ops.linear import LowRank, PackedWeight, linear

_side_paths: ContextVar[Mapping[nn.Module, LowRank]] = ContextVar("pipegraph_side_paths", default={})  # noqa: B039


class KernelLinear(nn.Linear):
    """``nn.Linear`` on the op ``linear``: the same parameters and state-dict keys, and room for a low-rank side path.

    ``weight`` may be stored in another float dtype than the input has, or be a packed weight (see :meth:`pack`).
    """

    precision = "exact"
    """``fast`` lets back ends quantize the input of this layer."""

    @staticmethod
    def adopt(layer: nn.Linear) -> None:
        """Make a plain ``nn.Linear`` a KernelLinear in place: no weight is touched or copied."""
        layer.__class__ = KernelLinear

    @staticmethod
    def pack(layer: nn.Linear, weight: PackedWeight, precision: str = "exact") -> None:
        """Replace the parameter of a layer by a packed weight, in place.

        ``layer.weight`` is then the packed weight: it moves with the layer from device to device, keeps its format when
        the layer is cast, and its buffers are in the state dict as ``weight.data``, ``weight.scale`` and so on, if it
        has ``buffers``.

        Raises:
            ValueError: the shape is not that of the layer.
        """
        if tuple(weight.shape) != (layer.out_features, layer.in_features):
            raise ValueError(f"a weight {tuple(weight.shape)} does not fit {layer}")
        layer.__class__ = KernelLinear
        layer._parameters.pop("weight", None)
        layer.__dict__["weight"] = weight
        layer.__dict__["precision"] = precision

    def forward(self, input: Tensor) -> Tensor:
        """Map (..., in_features) to (..., out_features)."""
        return linear(input, self.weight, self.bias, low_rank=_side_paths.get().get(self), precision=self.precision)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        packed: Any = self.__dict__.get("weight")
        if packed is not None:
            device = fn(torch.empty(0, dtype=torch.uint8, device=packed.device)).device
            if device != packed.device:
                self.__dict__["weight"] = packed.to(device)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        packed: Any = self.__dict__.get("weight")
        if packed is not None and hasattr(packed, "buffers"):
            destination.update({f"{prefix}weight.{name}": t for name, t in packed.buffers().items()})


class PointConv2d(nn.Conv2d):
    """A 1 x 1 convolution, on a CPU by torch's own code instead of oneDNN's.

    oneDNN splits sums by the number of threads, so that last bits differ; torch's do not, at the same speed.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, out_channels, H, W)."""
        return _points(self, input) if _plain_on_cpu(input, 4) else super().forward(input)


class PointConv3d(nn.Conv3d):
    """The same for video."""

    def forward(self, input: Tensor) -> Tensor:
        """Map (B, C, T, H, W) to (B, out_channels, T, H, W)."""
        return _points(self, input) if _plain_on_cpu(input, 5) else super().forward(input)


def adopt_points(layer: nn.Conv2d | nn.Conv3d) -> None:
    """Replace a plain 1 x 1 convolution in place."""
    if math.prod(layer.kernel_size) == math.prod(layer.stride) == layer.groups == 1 and set(layer.padding) == {0}:
        layer.__class__ = PointConv2d if isinstance(layer, nn.Conv2d) else PointConv3d


def _plain_on_cpu(input: Tensor, axes: int) -> bool:
    return input.device.type == "cpu" and input.dtype == torch.float32 and input.ndim == axes


def _points(layer: nn.Conv2d | nn.Conv3d, input: Tensor) -> Tensor:
    output: Tensor = torch.ops.aten.thnn_conv2d(
        input.flatten(2)[..., None], layer.weight.flatten(1)[..., None, None], [1, 1], layer.bias
    )
    return output.view(len(input), layer.out_channels, *input.shape[2:])


def on_the_side() -> bool:
    """Whether any layer has a side path in this context."""
    return bool(_side_paths.get())


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
    with holding(_side_paths, {**outer, **paths}):
        yield
