"""Change the edges and the values of masks."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Step, node

from ..wire import Mask

Width = Annotated[int, Ge(0), Le(16384)]


@node("FeatherMask", category="mask")
def feather_mask(mask: Mask, left: Width = 0, top: Width = 0, right: Width = 0, bottom: Width = 0) -> Mask:
    """Let a mask fade out towards its edges.

    Args:
        mask: Mask to change.
        left: Over how many pixels it fades at the left edge.
        top: Likewise at the top.
        right: Likewise at the right edge.
        bottom: Likewise at the bottom.
    """
    import torch

    def ramp(size: int, before: int, after: int) -> torch.Tensor:
        place = torch.arange(1, size + 1)
        rising = (place / min(before, size)).clamp_max(1) if before else torch.ones(size)
        falling = (place.flip(0) / min(after, size)).clamp_max(1) if after else torch.ones(size)
        return rising * falling

    height, width = mask.shape[-2:]
    return mask * ramp(height, top, bottom)[:, None] * ramp(width, left, right)


@node("ThresholdMask", category="mask")
def threshold_mask(mask: Mask, value: Annotated[float, Ge(0), Le(1), Step(0.01)] = 0.5) -> Mask:
    """Make a mask black and white.

    Args:
        mask: Mask to change.
        value: Values above it become 1, others 0.
    """
    return (mask > value).float()
