"""Ask for one back end of attention while a model's network is called."""

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
    """A patch of models: calls of attention that the back end can serve go to it, the others as without it.

    What the user asks for (``--kernels``, the environment) comes first.
    """

    name: str

    def around(self, model: Model, state: Tensor) -> AbstractContextManager[None]:
        return nullcontext() if "attention" in asked() else use(attention=f"{self.name}?")
