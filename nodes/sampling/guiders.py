"""Guiders and patches for editing pictures: three conditionings, gray masks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node

from ..ports import Denoiser
from ..wire import Conditioning, Guider, Model
from .shared import Cfg, Negative, used_negative


@node("DualCFGGuider", category="sampling/custom_sampling/guiders", title="DualCFGGuider")
def dual_cfg_guider(
    ctx: RunContext,
    model: Denoiser,
    cond1: Conditioning,
    cond2: Conditioning,
    negative: Negative,
    cfg_conds: Cfg = 8.0,
    cfg_cond2_negative: Cfg = 8.0,
    style: Literal["regular", "nested"] = "regular",
) -> Guider:
    """Guide by three conditionings, as models that edit pictures want it: all, the picture alone, nothing.

    Args:
        cond1: Text and picture.
        cond2: The picture alone.
        negative: Neither.
        cfg_conds: How far to go from the second to the first.
        cfg_cond2_negative: How far to go from the negative to the second.
        style: regular adds the two ways; nested goes the first way, then from the negative to its end.
    """
    from pipegraph.models.sampling.guiders import Guider, Third

    if style == "nested":
        return Guider(model, cond1, cond2, cfg_conds, Third(negative.get(), cfg_cond2_negative, nested=True))
    outer = used_negative(ctx, negative, cfg_cond2_negative)
    if outer is None and math.isclose(cfg_conds, 1.0):
        return Guider(model, cond1)
    return Guider(model, cond2, outer, cfg_cond2_negative, Third(cond1, cfg_conds))


@node("DifferentialDiffusion", category="advanced/model", title="Differential Diffusion")
def differential_diffusion(model: Model, strength: Annotated[float, Ge(0), Le(1), Step(0.0001)] = 1.0) -> Model:
    """Let a gray mask say how much of a place is painted anew: what is darker is left as it is for longer.

    Args:
        model: The model; without a noise mask on the latent nothing changes.
        strength: How much of this is mixed with the mask as it is.
    """
    from pipegraph.models.sampling.differential import Differential

    return replace(model, differential=Differential(strength))
