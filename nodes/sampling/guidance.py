"""Guidance patches: CFG-Zero* and skip-layer guidance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Linked, NotBelow, RunContext, Step, node

from ..wire import Model

if TYPE_CHECKING:
    from pipegraph.models.patches.skip_layers import SkipLayers

Percent = Annotated[float, Ge(0), Le(1), Step(0.001)]
Factor = Annotated[float, Ge(0), Le(10), Step(0.01)]
_KINDS = ("double_layers", "single_layers")


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Check the syntax of the layer lists."""
    for name in _KINDS:
        if name not in linked and not re.fullmatch(r"\s*(\d+(\s*[,\s]\s*\d+)*)?\s*,?\s*", values[name]):
            yield name, f"layers are numbers separated by commas, e.g. 7, 8, 9, not {values[name]!r}"


@node("CFGZeroStar", category="advanced/guidance", title="CFG-Zero*", output="patched_model")
def cfg_zero_star(model: Model) -> Model:
    """Use CFG-Zero*: the negative prediction is scaled by its projection on the positive one.

    Args:
        model: Model to patch; at cfg 1 nothing changes.
    """
    from pipegraph.models.sampling.guidance import ZeroStar

    return replace(model, guidance=(*model.guidance, ZeroStar()))


@node("SkipLayerGuidanceDiT", category="advanced/guidance", check=_check)
def skip_layer_guidance_dit(
    model: Model,
    ctx: RunContext,
    double_layers: str = "7, 8, 9",
    single_layers: str = "7, 8, 9",
    scale: Annotated[float, Ge(0), Le(10), Step(0.1)] = 3.0,
    start_percent: Percent = 0.01,
    end_percent: Annotated[Percent, NotBelow("start_percent")] = 0.15,
    rescaling_scale: Factor = 0.0,
) -> Model:
    """Skip-layer guidance: guide away from a prediction without some layers, for one more call per step.

    Args:
        model: Model to patch.
        double_layers: Layers to skip, from 0: 7, 8, 9. Networks with one kind of layers have double layers.
        single_layers: The same for single layers, in networks that have them.
        scale: Guidance scale; 0 changes nothing.
        start_percent: Fraction of the sampling at which it starts.
        end_percent: Fraction of the sampling at which it ends.
        rescaling_scale: Share by which the standard deviation is rescaled to that of the positive prediction.
    """
    from pipegraph.models.sampling.guidance import SamplingRange, SkippedLayers

    skipped = _skipped(model, ctx, double_layers, single_layers)
    if not skipped.layers or not scale:
        return model
    change = SkippedLayers(skipped, SamplingRange(start_percent, end_percent), scale, rescaling_scale)
    return replace(model, guidance=(*model.guidance, change))


@node("SkipLayerGuidanceDiTSimple", category="advanced/guidance", check=_check)
def skip_layer_guidance_dit_simple(
    model: Model,
    ctx: RunContext,
    double_layers: str = "7, 8, 9",
    single_layers: str = "7, 8, 9",
    start_percent: Percent = 0.0,
    end_percent: Annotated[Percent, NotBelow("start_percent")] = 1.0,
) -> Model:
    """Skip some layers in the negative prediction.

    Args:
        model: Model to patch; at cfg 1 nothing changes.
        double_layers: Layers to skip, from 0: 7, 8, 9. Networks with one kind of layers have double layers.
        single_layers: The same for single layers, in networks that have them.
        start_percent: Fraction of the sampling at which it starts.
        end_percent: Fraction of the sampling at which it ends.
    """
    from pipegraph.models.sampling.guidance import SamplingRange, SkippedInNegative

    skipped = _skipped(model, ctx, double_layers, single_layers)
    if not skipped.layers:
        return model
    return replace(
        model, guidance=(*model.guidance, SkippedInNegative(skipped, SamplingRange(start_percent, end_percent)))
    )


@node("UNetTemporalAttentionMultiply", category="advanced/attention_experiments")
def unet_temporal_attention_multiply(
    model: Model,
    ctx: RunContext,
    self_structural: Factor = 1.0,
    self_temporal: Factor = 1.0,
    cross_structural: Factor = 1.0,
    cross_temporal: Factor = 1.0,
) -> Model:
    """Scale the attention of a U-Net with temporal layers; other networks are not changed.

    No supported model has temporal layers, and a warning says so. Graphs for Wan contain this node.

    Args:
        model: The model.
        self_structural: Factor of spatial self-attention.
        self_temporal: Factor of temporal self-attention.
        cross_structural: Factor of spatial cross-attention.
        cross_temporal: Factor of temporal cross-attention.
    """
    if {self_structural, self_temporal, cross_structural, cross_temporal} != {1.0}:
        name = type(model.loaded.network).__name__
        ctx.warn(f"{name} is no U-Net with temporal layers: its attention is not changed")
    return model


def _skipped(model: Any, ctx: RunContext, double: str, single: str) -> SkipLayers:
    """Layers to skip; a warning names those that the network does not have."""
    from pipegraph.models.patches.skip_layers import SkipLayers

    numbers = ([int(n) for n in re.findall(r"\d+", layers)] for layers in (double, single))
    patch, warnings = SkipLayers.of(model.loaded.network, model.family.network.blocks, *numbers)
    for warning in warnings:
        ctx.warn(warning)
    return patch
