"""Guider with three conditionings, and differential diffusion."""

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
    """Guidance with three conditionings, for image editing models: text and image, image only, none.

    Args:
        cond1: Text and image.
        cond2: Image only.
        negative: Neither.
        cfg_conds: Guidance scale from cond2 to cond1.
        cfg_cond2_negative: Guidance scale from negative to cond2.
        style: regular: both terms are added; nested: the second scale applies to the result of the first.
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
    """Use a soft noise mask: darker areas start to change later (Differential Diffusion).

    Args:
        model: Model to patch; without a noise mask on the latent nothing changes.
        strength: Blend factor with the plain mask.
    """
    from pipegraph.models.sampling.differential import Differential

    return replace(model, differential=Differential(strength))
