"""Scale the positions of a Wan network, as ChronoEdit wants it."""

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
    """Let a Wan network take the tokens of a clip to lie farther apart, or elsewhere, than they do.

    A token at p is taken to be at shift + scale p. The last such node counts.

    Args:
        model: The model to change, of Wan.
        scale_x: Of the columns.
        shift_x: In tokens to the right.
        scale_y: Of the rows.
        shift_y: In tokens down.
        scale_t: Of time: 7 for ChronoEdit, whose two latent frames are first and last of a longer clip.
        shift_t: In latent frames.
    """
    from pipegraph.models.families.wan.positions import ScaledPositions

    positions = ScaledPositions.of(model.loaded.network, (scale_t, scale_y, scale_x), (shift_t, shift_y, shift_x))
    others = tuple(p for p in model.patches if not isinstance(p, ScaledPositions))
    return replace(model, patches=(*others, positions))
