"""Sliding tile attention for video networks, with a measurement of its error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Self

from torch import Tensor

from pipegraph.kernels.hooks.diffusers import attended, self_attention
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.tiled_attention import Size, tiled_attention, tiles_of

from ..model import Model
from ..sampling.findings import findings

_NAME: Final = "sliding tiles"


@dataclass
class Loss:
    """Measured error of the first call of a run against full attention."""

    share: float
    """Computed share of all pairs of video tokens."""
    errors: list[float] = field(default_factory=list)
    """Relative error (Frobenius norm) of each self-attention, in the order of the layers."""

    def __str__(self) -> str:
        worst = max(range(len(self.errors)), key=self.errors.__getitem__)
        mean = sum(self.errors) / len(self.errors)
        return (
            f"sliding tiles: self-attention computes {self.share:.1%} of the pairs of the video's tokens; at the first "
            f"step its results are off by {mean:.2%} (at most {self.errors[worst]:.2%}, in layer {worst})"
        )


@dataclass(frozen=True)
class SlidingTiles:
    """A patch of models, see :mod:`pipegraph.kernels.ops.tiled_attention`; created by ``of``."""

    tile: Size
    window: Size
    text: bool
    """Text tokens follow the video tokens in the sequence."""

    @classmethod
    def of(cls, network: Any, tile: Size, window: Size) -> Self:
        """The patch for a network.

        Raises:
            ValueError: it cannot be patched.
        """
        if getattr(network, "_parallel_config", None) is not None:
            raise ValueError("sliding tiles and --parallel cannot be used together: several processes share the tokens")
        kinds = {attended(part) for part in network.modules()} - {""}
        if len(kinds) != 1:
            name = type(network).__name__
            raise ValueError(f"sliding tiles are for networks of Wan and HunyuanVideo; this is a {name}")
        return cls(tile, window, kinds == {"video and text"})

    @contextmanager
    def around(self, model: Model, state: Tensor) -> Iterator[None]:
        """Restrict self-attention of one call to windows; the first call of a run is measured."""
        config = model.loaded.network.config
        patch = (config.patch_size_t, *[config.patch_size] * 2) if self.text else config.patch_size
        grid: Size = tuple(-(-n // p) for n, p in zip(state.shape[2:], patch, strict=True))
        messages, loss = findings(), None
        if messages is not None and _NAME not in messages:
            loss = messages[_NAME] = Loss(tiles_of(grid, self.tile, self.window).share)

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            text = max(0, q.shape[2] - prod(grid)) if self.text else 0
            out = tiled_attention(q, k, v, grid, self.tile, self.window, text=text, scale=scale)
            if loss is not None:
                whole = attention(q, k, v, scale=scale).float()
                loss.errors.append(float((out.float() - whole).norm() / whole.norm()))
            return out.transpose(1, 2)

        with self_attention(attend):
            yield
