"""Quantize the weights of a model or of text encoders."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pipegraph.runtime.node import RunContext, node

from ..wire import Clip, Model


@node("QuantizeModel", category="advanced/model", title="Quantize Model")
def quantize_model(model: Model, ctx: RunContext, format: Literal["q8", "fp8", "w4"] = "q8") -> Model:
    """Quantize the linear layers of a diffusion network, except fragile ones.

    LoRAs work before and after this node. To quantize while loading, which needs less memory, use
    `pipegraph run --quantize`.

    Args:
        model: Diffusion model.
        format: q8: int8, rotated, one scale per row; fp8: 8-bit floats, one scale per row; w4: 4 bits, a scale and an
            offset per 32 columns.
    """
    from pipegraph.models.families import facts_of
    from pipegraph.models.quantize import noted, quantized

    network = quantized(model.loaded.network, format, facts_of(model.loaded.network).fragile)
    ctx.note("weights", noted({"model": network}))
    return replace(model, loaded=model.loaded.with_network(network))


@node("QuantizeCLIP", category="advanced/model", title="Quantize CLIP")
def quantize_clip(clip: Clip, ctx: RunContext, format: Literal["q8", "fp8", "w4"] = "q8") -> Clip:
    """Quantize the linear layers of text encoders; embeddings stay as they are.

    Args:
        clip: Text encoders.
        format: As in QuantizeModel.
    """
    from pipegraph.models.families import facts_of
    from pipegraph.models.quantize import noted, quantized

    encoders = {}
    for name, encoder in clip.encoders.items():
        network = encoder.loaded.network
        packed = quantized(network, format, facts_of(network).fragile)
        encoders[name] = replace(encoder, loaded=encoder.loaded.with_network(packed))
    ctx.note("weights", noted({name: e.loaded.network for name, e in encoders.items()}))
    return replace(clip, encoders=encoders)
