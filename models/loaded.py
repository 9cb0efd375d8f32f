"""A loaded network: the one place that knows where its weights are and the dtype it computes in."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Loaded:
    """A loaded network, held by the values on the wires. Its weights belong to the cache and are never edited."""

    network: Any
    """A module of diffusers, transformers or a family. Read its config and layers here; compute in :meth:`resident`."""
    device: torch.device
    """Where it computes."""
    dtype: torch.dtype
    """The dtype it computes in. Weights may be packed, or of float32 in part."""
    name: str = ""
    """What the graph calls it: a file or folder."""

    @property
    def config(self) -> Any:
        """The config of the network's class."""
        return self.network.config

    @property
    def bytes(self) -> int:
        """Bytes of its weights and buffers, packed ones as they are stored."""
        packed: int | None = getattr(self.network, "pipegraph_nbytes", None)
        return (
            sum(t.nbytes for t in (*self.network.parameters(), *self.network.buffers())) if packed is None else packed
        )

    @contextmanager
    def resident(self) -> Iterator[Any]:
        """The network with its weights on ``device``, for the time of the block: no weight may be used outside."""
        yield self.network

    def inputs(self, tensor: Tensor) -> Tensor:
        """A tensor as the network reads it: on its device, in its dtype."""
        return tensor.to(self.device, self.dtype)

    def with_network(self, network: Any) -> Loaded:
        """The same place and name for a changed network, such as one with a LoRA or packed weights."""
        return replace(self, network=network)

    def in_float32(self) -> Loaded:
        """A copy that computes in float32, for results that overflow in half precision."""
        return replace(self, network=copy.deepcopy(self.network).float(), dtype=torch.float32)
