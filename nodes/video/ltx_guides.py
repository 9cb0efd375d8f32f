"""Frames that lead an LTX-Video clip (guides), and the upscaling of its latents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.models import paths
from pipegraph.models.checkpoints.parts import part
from pipegraph.models.families.ltx.vae_networks import FRAMES
from pipegraph.models.families.ltx.video import cell_places
from pipegraph.runtime.node import FileInput, RunContext, node

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning
from ..wire import Conditioning, Image, Latent, LatentUpscaleModel
from .ltx import Led, Strength, encoded, noise_mask, told

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = 2
"""Latent frames of a guide that stand behind the clip; the further ones replace the clip's own."""


@node("LTXVAddGuide", category="conditioning/video_models", title="LTXVAddGuide")
def ltxv_add_guide(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    latent: Latent,
    image: Image,
    ctx: RunContext,
    frame_idx: Annotated[int, Ge(-9999), Le(9999)] = 0,
    strength: Strength = 1.0,
) -> Led:
    """Lead a clip of LTX-Video by given frames at a time.

    Up to two latent frames of them stand behind the clip, where the network sees them at their time; LTXVCropGuides
    takes them away again after sampling. What a longer guide has beyond replaces the clip's own.

    Args:
        latent: The clip.
        image: One picture, or 8n + 1 frames; scaled to cover the size and cut at the centre.
        frame_idx: Where they begin, negative from the end; several frames begin at 0 or at 8n + 1.
        strength: How closely they are followed.
    """
    import torch

    samples = latent["samples"]
    z = encoded(vae, image, samples, ctx)
    cells = samples.shape[2] - guide_cells(positive, samples)
    begin = _begin(frame_idx, len(image), cells, ctx)
    at = -(-begin // FRAMES)
    if at + z.shape[2] > cells:
        raise ValueError(
            f"a guide of {len(image)} frames that begins at frame {begin} goes beyond the clip's "
            f"{1 + (cells - 1) * FRAMES} frames"
        )
    apart, rest = z[:, :, :PREFIX], z[:, :, PREFIX:]
    places = cell_places(apart.shape[2], *samples.shape[-2:], causal=begin == 0)
    places[:, 0] += begin
    before = _guides(positive)
    places = places if before is None else torch.cat([before, places], 2)
    mask, kept = noise_mask(latent).clone(), torch.tensor(1 - strength)
    samples = samples.clone()
    samples[:, :, at + PREFIX : at + PREFIX + rest.shape[2]] = rest
    mask[:, :, at + PREFIX : at + PREFIX + rest.shape[2]] = kept
    samples = torch.cat([samples, apart.expand(len(samples), -1, -1, -1, -1)], 2)
    mask = torch.cat([mask, kept.expand(len(mask), 1, apart.shape[2], *mask.shape[-2:])], 2)
    first, second = (told(side, keyframe_idxs=places) for side in (positive, negative))
    return Led(first, second, {**latent, "samples": samples, "noise_mask": mask})


@node("LTXVCropGuides", category="conditioning/video_models", title="LTXVCropGuides")
def ltxv_crop_guides(positive: Conditioning, negative: Conditioning, latent: Latent) -> Led:
    """Take the guides of LTXVAddGuide away again, after sampling.

    Args:
        positive: The conditioning with the guides.
        negative: The other one.
        latent: The clip with the guides behind it.
    """
    count = guide_cells(positive, latent["samples"])
    if not count:
        return Led(positive, negative, latent)
    first, second = (told(side, keyframe_idxs=None) for side in (positive, negative))
    cropped = {**latent, "samples": latent["samples"][:, :, :-count].clone()}
    if latent.get("noise_mask") is not None:
        cropped["noise_mask"] = noise_mask(latent)[:, :, :-count].clone()
    return Led(first, second, cropped)


@node("LTXVPreprocess", category="image", title="LTXVPreprocess")
def ltxv_preprocess(image: Image, ctx: RunContext, img_compression: Annotated[int, Ge(0), Le(100)] = 35) -> Image:
    """Let pictures look like frames of a compressed clip, which is what LTX-Video was trained with.

    A clean still makes it give clips that do not move.

    Args:
        image: The pictures; odd sides lose their last row or column.
        img_compression: The quantizer (CRF) of h264: 0 leaves the pictures as they are, beyond 51 is 51.
    """
    from pipegraph.models.media.compress import as_frame

    if not img_compression:
        return image
    h, w = (side // 2 * 2 for side in image.shape[1:3])
    if (h, w) != tuple(image.shape[1:3]):
        ctx.warn(f"{image.shape[2]}x{image.shape[1]} cut to {w}x{h}: frames of h264 have even sides")
    import torch

    return torch.stack([as_frame(picture[:h, :w, :3], min(img_compression, 51)) for picture in image])


def _upscaler_files(name: str) -> list[Path]:
    return list(part(paths.resolve("latent_upscale_models", name), "latent_upscaler").files)


UpscalerName = Annotated[str, FileInput(_upscaler_files, lambda: paths.names("latent_upscale_models"))]


@node("LatentUpscaleModelLoader", category="loaders", title="Load Latent Upscale Model")
def load_latent_upscaler(model_name: UpscalerName, ctx: RunContext) -> LatentUpscaleModel:
    """Load a network that upscales latents.

    Args:
        model_name: A single file, or a component folder.
    """
    from pipegraph.models.families.ltx.upscale import upscaler
    from pipegraph.models.loading.place import Place

    found = part(paths.resolve("latent_upscale_models", model_name), "latent_upscaler")
    return upscaler(found, Place.of(ctx.device, ctx.dtype), model_name)


@node("LTXVLatentUpsampler", category="latent/video", title="LTXVLatentUpsampler")
def ltxv_latent_upsampler(samples: Latent, upscale_model: LatentUpscaleModel, vae: ModelVae) -> Latent:
    """Upscale the latent of an LTX-Video clip, in size or in time, as its network does.

    Args:
        samples: The clip.
        upscale_model: The network.
    """
    rest = {k: v for k, v in samples.items() if k != "noise_mask"}
    return {**rest, "samples": upscale_model.upscale(samples["samples"], vae)}


def _guides(conditioning: Any) -> Tensor | None:
    """The places of a conditioning's guides [1, 3, n]; None without."""
    return next((e["keyframe_idxs"] for _, e in conditioning if e.get("keyframe_idxs") is not None), None)


def guide_cells(conditioning: Any, samples: Tensor) -> int:
    """How many latent frames behind a clip [B, C, T, h, w] are guides."""
    guides = _guides(conditioning)
    return 0 if guides is None else int(guides.shape[2] // (samples.shape[-2] * samples.shape[-1]))


def _begin(frame: int, count: int, cells: int, ctx: RunContext) -> int:
    """The frame that a guide of so many frames begins at."""
    if frame < 0:
        frame = max(0, 1 + (cells - 1) * FRAMES + frame)
    if count > 1 and frame % FRAMES != 1 and frame:
        moved = max(0, (frame - 1) // FRAMES * FRAMES + 1)
        ctx.warn(f"a guide of several frames begins at 0 or at {FRAMES}n + 1: frame {frame} becomes {moved}")
        frame = moved
    return frame
