"""Latents that go beside the text in a conditioning: pictures to edit, to paint in, to refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipegraph.runtime.node import Doc, RunContext, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning
from ..wire import Conditioning, Image, Latent, Mask
from .conditioning import with_entries

if TYPE_CHECKING:
    from torch import Tensor

Pixels = Annotated[Image, Doc("The pictures; sides are cut at the centre to whole latent cells.")]


@outputs
class Edited:
    """Both conditionings with a latent beside the text, and a latent to start from."""

    positive: Conditioning
    negative: Conditioning
    latent: Latent


@node("ReferenceLatent", category="advanced/conditioning/edit_models")
def reference_latent(conditioning: Conditioning, latent: Latent | None = None) -> Conditioning:
    """Let an edit model look at a picture; several of these nodes in a row give several.

    Args:
        conditioning: What to change.
        latent: The picture, encoded by the model's VAE; without one nothing changes.
    """
    if latent is None:
        return conditioning
    samples = latent["samples"]
    return [
        [states, {**entries, "reference_latents": (*entries.get("reference_latents", ()), samples)}]
        for states, entries in conditioning
    ]


@node(
    "FluxKontextMultiReferenceLatentMethod",
    category="advanced/conditioning/flux",
    title="Edit Model Reference Method",
)
def reference_latent_method(
    conditioning: Conditioning,
    reference_latents_method: Literal["offset", "index", "uxo/uno", "index_timestep_zero"] = "offset",
) -> Conditioning:
    """Say where an edit model places its reference pictures.

    Args:
        conditioning: What to change.
        reference_latents_method: offset side by side; index behind one another; uxo/uno diagonally, as USO and UNO
            were trained; index_timestep_zero behind one another and known to be free of noise.
    """
    method = "uxo" if reference_latents_method == "uxo/uno" else reference_latents_method
    return with_entries(conditioning, {"reference_latents_method": method})


@node("InpaintModelConditioning", category="conditioning/inpaint")
def inpaint_model_conditioning(
    ctx: RunContext,
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    pixels: Pixels,
    mask: Mask,
    noise_mask: bool = True,
) -> Edited:
    """Give an inpainting model the picture without what is to be painted, and the mask.

    Args:
        mask: 1 where to paint, at any size.
        noise_mask: Paint inside the mask only; else the model may change all of the picture.
    """
    from pipegraph.models.media.image_ops import resize_mask
    from pipegraph.models.vae.image import fit_to_grid

    pixels = pixels[..., :3]
    mask = resize_mask(mask.reshape(-1, *mask.shape[-2:]), pixels.shape[2], pixels.shape[1])
    cell = vae.latent.downscale
    fitted, painted = fit_to_grid(pixels, cell), fit_to_grid(mask[..., None], cell)
    _told_cut(ctx, pixels, fitted)
    # What is to be painted is gray, the middle between black and white.
    beside = vae.encode((fitted - 0.5) * (1 - painted.round()) + 0.5, ctx.warn)
    latent: dict[str, Any] = {"samples": vae.encode(fitted, ctx.warn)}
    painted = painted.movedim(-1, 1)
    if noise_mask:
        latent["noise_mask"] = painted
    extras = {"concat_latent_image": beside, "concat_mask": painted}
    return Edited(with_entries(positive, extras), with_entries(negative, extras), latent)


@node("InstructPixToPixConditioning", category="conditioning/instructpix2pix")
def instruct_pix_to_pix_conditioning(
    ctx: RunContext,
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    pixels: Pixels,
) -> Edited:
    """Give a model that reads a picture beside the latent (InstructPix2Pix, FLUX Canny and Depth) that picture."""
    import torch

    from pipegraph.models.vae.image import fit_to_grid

    pixels = pixels[..., :3]
    fitted = fit_to_grid(pixels, vae.latent.downscale)
    _told_cut(ctx, pixels, fitted)
    beside = vae.encode(fitted, ctx.warn)
    extras = {"concat_latent_image": beside}
    latent = {"samples": torch.zeros_like(beside)}
    return Edited(with_entries(positive, extras), with_entries(negative, extras), latent)


def _told_cut(ctx: RunContext, pixels: Tensor, fitted: Tensor) -> None:
    """Say that sides were cut."""
    if fitted.shape != pixels.shape:
        ctx.warn(f"{pixels.shape[2]}x{pixels.shape[1]} cut to {fitted.shape[2]}x{fitted.shape[1]}")
