"""Conditioning with latents: reference images, inpainting, InstructPix2Pix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipegraph.runtime.node import Doc, RunContext, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning
from ..wire import Conditioning, Image, Latent, Mask
from .conditioning import with_entries

if TYPE_CHECKING:
    from torch import Tensor

Pixels = Annotated[Image, Doc("Images; sides are cropped at the centre to whole latent cells.")]


@outputs
class Edited:
    """Both conditionings with a latent, and a latent to start from."""

    positive: Conditioning
    negative: Conditioning
    latent: Latent


@node("ReferenceLatent", category="advanced/conditioning/edit_models")
def reference_latent(conditioning: Conditioning, latent: Latent | None = None) -> Conditioning:
    """Add a reference image for an edit model; chain nodes for several images.

    Args:
        conditioning: Conditioning to change.
        latent: Image encoded by the model's VAE; without it nothing changes.
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
    """Set the positions of reference images in an edit model.

    Args:
        conditioning: Conditioning to change.
        reference_latents_method: offset: side by side; index: one after the other; uxo/uno: diagonal, for USO and UNO;
            index_timestep_zero: as index, with timestep 0.
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
    """Condition an inpainting model on the masked image and the mask.

    Args:
        mask: 1 where to inpaint, at any size.
        noise_mask: Change only the masked area; else the model may change the whole image.
    """
    from pipegraph.models.media.image_ops import resize_mask
    from pipegraph.models.vae.image import fit_to_grid

    pixels = pixels[..., :3]
    mask = resize_mask(mask.reshape(-1, *mask.shape[-2:]), pixels.shape[2], pixels.shape[1])
    cell = vae.latent.downscale
    cropped, painted = fit_to_grid(pixels, cell), fit_to_grid(mask[..., None], cell)
    _warn_cropped(ctx, pixels, cropped)
    # The masked area is gray.
    concat = vae.encode((cropped - 0.5) * (1 - painted.round()) + 0.5, ctx.warn)
    latent: dict[str, Any] = {"samples": vae.encode(cropped, ctx.warn)}
    painted = painted.movedim(-1, 1)
    if noise_mask:
        latent["noise_mask"] = painted
    extras = {"concat_latent_image": concat, "concat_mask": painted}
    return Edited(with_entries(positive, extras), with_entries(negative, extras), latent)


@node("InstructPixToPixConditioning", category="conditioning/instructpix2pix")
def instruct_pix_to_pix_conditioning(
    ctx: RunContext,
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    pixels: Pixels,
) -> Edited:
    """Condition a model on an image by concatenated latents (InstructPix2Pix, FLUX Canny and Depth)."""
    import torch

    from pipegraph.models.vae.image import fit_to_grid

    pixels = pixels[..., :3]
    cropped = fit_to_grid(pixels, vae.latent.downscale)
    _warn_cropped(ctx, pixels, cropped)
    concat = vae.encode(cropped, ctx.warn)
    extras = {"concat_latent_image": concat}
    latent = {"samples": torch.zeros_like(concat)}
    return Edited(with_entries(positive, extras), with_entries(negative, extras), latent)


def _warn_cropped(ctx: RunContext, pixels: Tensor, cropped: Tensor) -> None:
    """Warn if sides were cropped."""
    if cropped.shape != pixels.shape:
        ctx.warn(f"{pixels.shape[2]}x{pixels.shape[1]} cut to {cropped.shape[2]}x{cropped.shape[1]}")
