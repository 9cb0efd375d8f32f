"""Guidance patches: CFGNorm, RescaleCFG, CFG override, latent operations."""

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
    """Limit the norm of the guided prediction over channels, per position.

    Args:
        model: Model to patch; at cfg 1 nothing changes.
        strength: Factor of the guided prediction; with pre_cfg, blend factor of the change.
        pre_cfg: Rescale the predicted noise to the norm of the positive prediction; else only shrink the predicted
            image to it.
    """
    from pipegraph.models.sampling.guidance_scales import NormAfter, NormBefore

    return _with(model, NormBefore(strength) if pre_cfg else NormAfter(strength))


@node("RescaleCFG", category="advanced/model", title="RescaleCFG")
def rescale_cfg(model: Model, multiplier: Annotated[float, Ge(0), Le(1), Step(0.01)] = 0.7) -> Model:
    """Rescale the guided prediction to the standard deviation of the positive one.

    Args:
        model: Model to patch; at cfg 1 nothing changes.
        multiplier: Blend factor: 0 none, 1 full.
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
    """Use another guidance scale in a part of the sampling; at 1 that part costs half as much.

    Args:
        model: Model to patch; if the guider's cfg is 1, nothing changes.
        start_percent: Fraction of the sampling at which it starts.
        end_percent: Fraction of the sampling at which it ends.
    """
    from pipegraph.models.sampling.guidance import SamplingRange
    from pipegraph.models.sampling.guidance_scales import Rescheduled

    return _with(model, Rescheduled(cfg, SamplingRange(start_percent, end_percent)))


@node(
    "TemporalScoreRescaling",
    category="model_patches/unet",
    title="TSR - Temporal Score Rescaling",
    output="patched_model",
)
def temporal_score_rescaling(
    model: Model,
    tsr_k: Annotated[float, Ge(0.01), Le(100), Step(0.001)] = 0.95,
    tsr_sigma: Annotated[float, Ge(0.01), Le(100), Step(0.001)] = 1.0,
) -> Model:
    """Rescale the predicted noise towards the end of sampling, for more detail or more smoothness.

    Args:
        model: Model to change.
        tsr_k: Factor at low noise: below 1 more detail, above 1 smoother, 1 changes nothing.
        tsr_sigma: How early: larger is earlier.
    """
    from pipegraph.models.sampling.guidance_scales import Rescored

    return model if tsr_k == 1 else _with(model, Rescored(tsr_k, tsr_sigma))


@node("LatentOperationTonemapReinhard", category="latent/advanced/operations")
def latent_operation_tonemap_reinhard(
    multiplier: Annotated[float, Ge(0), Le(100), Step(0.01)] = 1.0,
) -> LatentOperation:
    """Compress large values of a latent by Reinhard tone mapping.

    Args:
        multiplier: Largest norm, in units of mean norm plus 5 standard deviations.
    """
    from pipegraph.models.sampling.guidance_scales import TonemapReinhard

    if not multiplier:
        raise ValueError("a multiplier of 0 makes every value 0; the usual value is 1")
    return TonemapReinhard(multiplier)


@node("LatentApplyOperation", category="latent/advanced/operations")
def latent_apply_operation(samples: Latent, operation: LatentOperation) -> Latent:
    """Apply an operation to a latent.

    Args:
        samples: The latent.
        operation: The operation.
    """
    return {**samples, "samples": operation(samples["samples"])}


@node("LatentApplyOperationCFG", category="latent/advanced/operations", title="LatentApplyOperationCFG")
def latent_apply_operation_cfg(model: Model, operation: LatentOperation) -> Model:
    """Apply an operation to the guidance term (positive less negative prediction) in each step.

    Args:
        model: Model to patch; at cfg 1 the operation changes the whole prediction.
        operation: The operation.
    """
    from pipegraph.models.sampling.guidance_scales import Operated

    return _with(model, Operated(operation))
