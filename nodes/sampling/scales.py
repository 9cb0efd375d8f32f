"""Change how the predictions of guidance are combined: kept lengths, kept contrast, another scale for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import NotBelow, Step, Wire, node

from ..wire import Latent, Model
from .guidance import Percent
from .shared import Cfg

if TYPE_CHECKING:
    from pipegraph.models.sampling.guidance import Guidance
    from pipegraph.models.sampling.guidance_scales import LatentOperation as _LatentOperation
else:
    _LatentOperation = Any

LatentOperation = Annotated[_LatentOperation, Wire("LATENT_OPERATION")]


def _with(model: Model, change: Guidance) -> Model:
    return replace(model, guidance=(*model.guidance, change))


@node("CFGNorm", category="advanced/guidance", title="CFGNorm", output="patched_model")
def cfg_norm(
    model: Model, strength: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0, pre_cfg: bool = False
) -> Model:
    """Keep guidance from making predictions too long, place by place over the channels.

    Args:
        model: The model to guide; at cfg 1 nothing changes.
        strength: The guided prediction is multiplied by it; with pre_cfg, how much of the change is mixed in.
        pre_cfg: Give the predicted noise the length of the positive one, longer or shorter; else only shorten the
            predicted picture to the positive one.
    """
    from pipegraph.models.sampling.guidance_scales import NormAfter, NormBefore

    return _with(model, NormBefore(strength) if pre_cfg else NormAfter(strength))


@node("RescaleCFG", category="advanced/model", title="RescaleCFG")
def rescale_cfg(model: Model, multiplier: Annotated[float, Ge(0), Le(1), Step(0.01)] = 0.7) -> Model:
    """Give the contrast (standard deviation) of the positive prediction back to the guided one.

    Args:
        model: The model to guide; at cfg 1 nothing changes.
        multiplier: How much of it: 0 none, 1 all.
    """
    from pipegraph.models.sampling.guidance_scales import Rescaled

    return _with(model, Rescaled(multiplier))


@node("CFGOverride", category="advanced/guidance", title="CFGOverride")
def cfg_override(
    model: Model,
    cfg: Cfg = 1.0,
    start_percent: Percent = 0.0,
    end_percent: Annotated[Percent, NotBelow("start_percent")] = 1.0,
) -> Model:
    """Guide by another scale for a part of the way; at 1 that part costs half as much.

    Args:
        model: The model to guide; where the guider's own cfg is 1, nothing changes.
        start_percent: Part of the way from noise to picture where it begins.
        end_percent: Where it ends.
    """
    from pipegraph.models.sampling.guidance import Part
    from pipegraph.models.sampling.guidance_scales import Rescheduled

    return _with(model, Rescheduled(cfg, Part(start_percent, end_percent)))


@node("LatentOperationTonemapReinhard", category="latent/advanced/operations")
def latent_operation_tonemap_reinhard(
    multiplier: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0,
) -> LatentOperation:
    """Compress large values of a latent by Reinhard's curve; what is small stays as it is.

    Args:
        multiplier: The largest length that can come out, in units of the mean length and 5 deviations of it.
    """
    from pipegraph.models.sampling.guidance_scales import TonemapReinhard

    if not multiplier:
        raise ValueError("a multiplier of 0 makes every value 0: give more, 1 is usual")
    return TonemapReinhard(multiplier)


@node("LatentApplyOperation", category="latent/advanced/operations")
def latent_apply_operation(samples: Latent, operation: LatentOperation) -> Latent:
    """Change a latent by an operation.

    Args:
        samples: The latent.
        operation: What to do with it.
    """
    return {**samples, "samples": operation(samples["samples"])}


@node("LatentApplyOperationCFG", category="latent/advanced/operations", title="LatentApplyOperationCFG")
def latent_apply_operation_cfg(model: Model, operation: LatentOperation) -> Model:
    """Change what guidance adds, the positive prediction less the negative one, by an operation in each step.

    Args:
        model: The model to guide; at cfg 1 the operation changes the whole prediction.
        operation: What to do.
    """
    from pipegraph.models.sampling.guidance_scales import Operated

    return _with(model, Operated(operation))
