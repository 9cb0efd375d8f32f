"""Prefers one attention backend during calls of a model's network."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipegraph.kernels.dispatch import asked, use

if TYPE_CHECKING:
    from torch import Tensor

    from ..model import Model


@dataclass(frozen=True)
class AttentionBackend:
    """A patch of models: attention calls go to this backend if it supports them.

    The user's choice (``--kernels``, environment) takes precedence.
    """

    name: str

    def around(self, model: Model, state: Tensor) -> AbstractContextManager[None]:
        return nullcontext() if "attention" in asked() else use(attention=f"{self.name}?")
