"""Change how a model is guided: CFG-Zero*, and away from what the network makes without some layers."""

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
    """Whether the layers can be read."""
    for name in _KINDS:
        if name not in linked and not re.fullmatch(r"\s*(\d+(\s*[,\s]\s*\d+)*)?\s*,?\s*", values[name]):
            yield name, f"layers are numbers with commas between, e.g. 7, 8, 9, not {values[name]!r}"


@node("CFGZeroStar", category="advanced/guidance", title="CFG-Zero*", output="patched_model")
def cfg_zero_star(model: Model) -> Model:
    """Guide by CFG-Zero*: the negative prediction is scaled to lie as near to the positive one as it can.

    Args:
        model: The model to guide; at cfg 1 nothing changes.
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
    """Guide away from what the network makes without some of its layers: firmer structure for one call more a step.

    Args:
        model: The model to guide.
        double_layers: The layers to skip, counted from 0: 7, 8, 9. Networks with one kind of layers have double ones.
        single_layers: The same of the single layers, where there are such.
        scale: How far to go; 0 changes nothing.
        start_percent: Part of the way from noise to picture where it begins.
        end_percent: Where it ends.
        rescaling_scale: How much of the contrast (standard deviation) that the positive prediction has is given back.
    """
    from pipegraph.models.sampling.guidance import Part, SkippedLayers

    skipped = _skipped(model, ctx, double_layers, single_layers)
    if not skipped.layers or not scale:
        return model
    change = SkippedLayers(skipped, Part(start_percent, end_percent), scale, rescaling_scale)
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
    """Let the negative prediction be made without some of the network's layers.

    Args:
        model: The model to guide; at cfg 1 nothing changes.
        double_layers: The layers to skip, counted from 0: 7, 8, 9. Networks with one kind of layers have double ones.
        single_layers: The same of the single layers, where there are such.
        start_percent: Part of the way from noise to picture where it begins.
        end_percent: Where it ends.
    """
    from pipegraph.models.sampling.guidance import Part, SkippedInNegative

    skipped = _skipped(model, ctx, double_layers, single_layers)
    if not skipped.layers:
        return model
    return replace(model, guidance=(*model.guidance, SkippedInNegative(skipped, Part(start_percent, end_percent))))


@node("UNetTemporalAttentionMultiply", category="advanced/attention_experiments")
def unet_temporal_attention_multiply(
    model: Model,
    ctx: RunContext,
    self_structural: Factor = 1.0,
    self_temporal: Factor = 1.0,
    cross_structural: Factor = 1.0,
    cross_temporal: Factor = 1.0,
) -> Model:
    """Scale the attention of a U-Net with layers for time of their own; other networks stay as they are.

    None of the models that pipegraph runs is such a one, and a warning says so. Graphs for Wan have this node.

    Args:
        model: The model.
        self_structural: Of attention within a frame.
        self_temporal: Of attention along time.
        cross_structural: Of attention from a frame to text.
        cross_temporal: Of attention from time to text.
    """
    if {self_structural, self_temporal, cross_structural, cross_temporal} != {1.0}:
        name = type(model.loaded.network).__name__
        ctx.warn(f"{name} is no U-Net with layers for time of their own: its attention stays as it is")
    return model


def _skipped(model: Any, ctx: RunContext, double: str, single: str) -> SkipLayers:
    """The layers that are skipped; what of them the network has not is said."""
    from pipegraph.models.patches.skip_layers import SkipLayers

    numbers = ([int(n) for n in re.findall(r"\d+", layers)] for layers in (double, single))
    patch, told = SkipLayers.of(model.loaded.network, model.family.network.blocks, *numbers)
    for sentence in told:
        ctx.warn(sentence)
    return patch
