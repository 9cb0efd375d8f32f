"""Self-attention of video networks to the neighbourhood only, and how much that changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from pipegraph.kernels.attention import attention
from pipegraph.kernels.hooks_diffusers import self_attention
from pipegraph.kernels.tiled_attention import Size, tiled_attention, tiles_of

from ..model import Model
from ..sampling.findings import findings

_NAME: Final = "sliding tiles"


@dataclass
class Loss:
    """What the first call of a run has lost against attention to all tokens."""

    share: float
    """Pairs of tokens that are computed, of all."""
    errors: list[float] = field(default_factory=list)
    """Relative error (Frobenius norm) of each self-attention, in the order of the layers."""

    def __str__(self) -> str:
        worst = max(range(len(self.errors)), key=self.errors.__getitem__)
        mean = sum(self.errors) / len(self.errors)
        return (
            f"sliding tiles: self-attention computes {self.share:.1%} of the pairs of tokens; at the first step its "
            f"results are off by {mean:.2%} (at most {self.errors[worst]:.2%}, in block {worst})"
        )


@dataclass(frozen=True)
class SlidingTiles:
    """A patch of models whose network has the attention of Wan; see :mod:`pipegraph.kernels.tiled_attention`."""

    tile: Size
    window: Size

    @staticmethod
    def refuses(network: Any) -> str:
        """Why a network cannot be patched; empty if it can."""
        if getattr(network, "_parallel_config", None) is not None:
            return "sliding tiles and --parallel cannot be used together: several processes share the tokens"
        attentions = [m for m in network.modules() if type(m).__name__ == "WanAttention"]
        if any(not m.is_cross_attention for m in attentions):
            return ""
        return f"sliding tiles are for networks of the Wan family; this is a {type(network).__name__}"

    @contextmanager
    def around(self, model: Model, state: Tensor) -> Iterator[None]:
        """Let the self-attentions of one call see their windows only; the first call of a run is measured."""
        patch = model.network.config.patch_size
        grid: Size = tuple(-(-n // p) for n, p in zip(state.shape[2:], patch, strict=True))  # type: ignore[assignment]
        found, loss = findings(), None
        if found is not None and _NAME not in found:
            loss = found[_NAME] = Loss(tiles_of(grid, self.tile, self.window).share)

        def attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            out = tiled_attention(q, k, v, grid, self.tile, self.window, scale=scale)
            if loss is not None:
                whole = attention(q, k, v, scale=scale).float()
                loss.errors.append(float((out.float() - whole).norm() / whole.norm()))
            return out.transpose(1, 2)

        with self_attention(attend):
            yield
