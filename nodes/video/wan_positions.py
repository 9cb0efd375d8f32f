"""Scale the rotary positions of a Wan network, for ChronoEdit."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Step, node

from ..wire import Model

Scale = Annotated[float, Ge(0), Le(100), Step(0.1)]
Shift = Annotated[float, Ge(-256), Le(256), Step(0.1)]


@node("ScaleROPE", category="advanced/model_patches", title="Scale RoPE")
def scale_rope(
    model: Model,
    scale_x: Scale = 1.0,
    shift_x: Shift = 0.0,
    scale_y: Scale = 1.0,
    shift_y: Shift = 0.0,
    scale_t: Scale = 1.0,
    shift_t: Shift = 0.0,
) -> Model:
    """Scale and shift the RoPE positions of a Wan network: position p becomes shift + scale p.

    If there are several such nodes, the last one is used.

    Args:
        model: Wan model to patch.
        scale_x: Scale of columns.
        shift_x: Shift to the right in tokens.
        scale_y: Scale of rows.
        shift_y: Shift down in tokens.
        scale_t: Scale of time: 7 for ChronoEdit, whose two latent frames are first and last of a longer video.
        shift_t: Shift in latent frames.
    """
    from pipegraph.models.families.wan.positions import ScaledPositions

    positions = ScaledPositions.of(model.loaded.network, (scale_t, scale_y, scale_x), (shift_t, shift_y, shift_x))
    others = tuple(p for p in model.patches if not isinstance(p, ScaledPositions))
    return replace(model, patches=(*others, positions))
