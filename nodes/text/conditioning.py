"""Encode text to conditioning, and change conditioning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Auto, Multiline, RunContext, Step, node

from ..wire import Clip, Conditioning

if TYPE_CHECKING:
    from pipegraph.models.text.encoder import TextEncoder

Prompt = Annotated[str, Multiline()]
Side = Annotated[int, Ge(0), Le(16384)]
Crop = Annotated[int, Ge(0), Le(16384)]
Guidance = Annotated[float, Ge(0), Le(100), Step(0.1), Auto("guidance")]


@node("CLIPTextEncode", category="conditioning", title="CLIP Text Encode (Prompt)")
def clip_text_encode(text: Prompt, clip: Clip, ctx: RunContext) -> Conditioning:
    r"""Encode a prompt with all text encoders of a model.

    `(word:1.2)` weights a word, `(word)` weights it by 1.1; `\(` is a literal parenthesis. Unknown words and truncated
    text are named in a warning, and so is `embedding:NAME`, which is read as plain text.

    Args:
        text: The prompt.
        clip: Text encoders.
    """
    return _encode(clip, text, ctx, {"text": text})


@node("CLIPTextEncodeFlux", category="conditioning/flux")
def clip_text_encode_flux(
    clip: Clip, clip_l: Prompt, t5xxl: Prompt, ctx: RunContext, guidance: Guidance = 3.5
) -> Conditioning:
    """Encode one prompt for each of FLUX's text encoders, with the guidance scale.

    Args:
        clip: Text encoders of FLUX.
        clip_l: Prompt for CLIP-L, which gives the overall direction.
        t5xxl: Prompt for T5, which gives the details.
        guidance: Distilled guidance, for models that take it (FLUX.1 dev).
    """
    extras = {"guidance": guidance, "text": f"{clip_l}\n{t5xxl}"}
    return _encode(clip, {"clip_l": clip_l, "t5xxl": t5xxl}, ctx, extras)


@node("CLIPTextEncodeSDXL", category="conditioning")
def clip_text_encode_sdxl(
    clip: Clip,
    text_g: Prompt,
    text_l: Prompt,
    ctx: RunContext,
    width: Side = 1024,
    height: Side = 1024,
    crop_w: Crop = 0,
    crop_h: Crop = 0,
    target_width: Side = 1024,
    target_height: Side = 1024,
) -> Conditioning:
    """Encode one prompt for each of SDXL's text encoders, with SDXL's size conditioning.

    Args:
        clip: Text encoders of SDXL.
        text_g: Prompt for CLIP-G.
        text_l: Prompt for CLIP-L.
        width: Original image width that the network is conditioned on; small images were blurry in training.
        height: Original image height.
        crop_w: Pixels cropped at the left; 0 keeps objects centred.
        crop_h: Pixels cropped at the top.
        target_width: Width of the output.
        target_height: Height of the output.
    """
    sizes = {
        "width": width,
        "height": height,
        "crop_w": crop_w,
        "crop_h": crop_h,
        "target_width": target_width,
        "target_height": target_height,
    }
    texts = {"clip_l": text_l, "clip_g": text_g}
    if texts.keys() != clip.encoders.keys():
        raise ValueError(f"these are no text encoders of SDXL ({', '.join(clip.encoders)}): use CLIPTextEncode")
    return _encode(clip, texts, ctx, {**sizes, "text": f"{text_l}\n{text_g}"})


@node("FluxGuidance", category="conditioning/flux")
def flux_guidance(conditioning: Conditioning, guidance: Guidance = 3.5) -> Conditioning:
    """Set the guidance scale that distilled models (FLUX.1 dev) take as an input; it costs no second pass.

    Args:
        conditioning: Conditioning to change.
        guidance: Higher follows the prompt more closely.
    """
    return with_entries(conditioning, {"guidance": guidance})


@node("ConditioningZeroOut", category="conditioning")
def conditioning_zero_out(conditioning: Conditioning) -> Conditioning:
    """Set text embeddings to zero: the negative of models that were trained so.

    Args:
        conditioning: Conditioning to clear; entries other than text are kept.
    """
    import torch

    cleared = []
    for states, extras in conditioning:
        entries = {k: v for k, v in extras.items() if k != "text"}
        if entries.get("pooled_output") is not None:
            entries["pooled_output"] = torch.zeros_like(entries["pooled_output"])
        cleared.append([torch.zeros_like(states), entries])
    return cleared


@node("ConditioningCombine", category="conditioning")
def conditioning_combine(conditioning_1: Conditioning, conditioning_2: Conditioning) -> Conditioning:
    """Follow two conditionings at once: their predictions are averaged at each step.

    Args:
        conditioning_1: First conditioning.
        conditioning_2: Second conditioning.
    """
    return [*conditioning_1, *conditioning_2]


def _encode(
    clip: TextEncoder, prompts: str | Mapping[str, str], ctx: RunContext, extras: Mapping[str, Any]
) -> list[list[Any]]:
    from pipegraph.models.text.weights import embeddings, weight_faults

    tokens = clip.tokenize(prompts)
    texts = [prompts] if isinstance(prompts, str) else [*dict.fromkeys(prompts.values())]
    if inversions := embeddings("\n".join(texts)):
        ctx.warn(f"{', '.join(inversions)}: textual inversions are not supported (yet); read as plain text")
    for fault in (fault for text in texts if clip.weighs for fault in weight_faults(text)):
        ctx.warn(fault)
    for sentence in clip.remarks(tokens):
        ctx.warn(sentence)
    ctx.note("tokens", {name: t.used for name, t in tokens.items()})
    if cut := {name: t.dropped.strip() for name, t in tokens.items() if t.dropped}:
        ctx.note("not_read", cut)
    return with_entries(clip.encode(tokens), extras)


def with_entries(conditioning: list[Any], extras: Mapping[str, Any]) -> list[list[Any]]:
    """Add entries to each item of a conditioning."""
    return [[states, {**entries, **extras}] for states, entries in conditioning]
