"""Guide frames for LTX-Video, and latent upscaling."""

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
from .ltx import Guided, Strength, encoded, noise_mask, with_entries

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = 2
"""Latent frames of a guide that are appended after the video; further ones replace the video's own."""


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
) -> Guided:
    """Guide an LTX-Video video with frames at a given time.

    The first two latent frames of a guide are appended after the video, with the positions of their time;
    LTXVCropGuides removes them after sampling. Further latent frames replace the video's own.

    Args:
        latent: Video latent.
        image: One image, or 8n + 1 frames; scaled to cover the size and cropped at the centre.
        frame_idx: First frame of the guide, negative from the end; several frames start at 0 or 8n + 1.
        strength: Strength of the guide.
    """
    import torch

    samples = latent["samples"]
    z = encoded(vae, image, samples, ctx)
    cells = samples.shape[2] - guide_cells(positive, samples)
    begin = _begin(frame_idx, len(image), cells, ctx)
    at = -(-begin // FRAMES)
    if at + z.shape[2] > cells:
        raise ValueError(
            f"a guide of {len(image)} frames starting at frame {begin} exceeds the video's "
            f"{1 + (cells - 1) * FRAMES} frames"
        )
    appended, rest = z[:, :, :PREFIX], z[:, :, PREFIX:]
    positions = cell_places(appended.shape[2], *samples.shape[-2:], causal=begin == 0)
    positions[:, 0] += begin
    before = _guides(positive)
    positions = positions if before is None else torch.cat([before, positions], 2)
    mask, noise_level = noise_mask(latent).clone(), torch.tensor(1 - strength)
    samples = samples.clone()
    samples[:, :, at + PREFIX : at + PREFIX + rest.shape[2]] = rest
    mask[:, :, at + PREFIX : at + PREFIX + rest.shape[2]] = noise_level
    samples = torch.cat([samples, appended.expand(len(samples), -1, -1, -1, -1)], 2)
    mask = torch.cat([mask, noise_level.expand(len(mask), 1, appended.shape[2], *mask.shape[-2:])], 2)
    first, second = (with_entries(side, keyframe_idxs=positions) for side in (positive, negative))
    return Guided(first, second, {**latent, "samples": samples, "noise_mask": mask})


@node("LTXVCropGuides", category="conditioning/video_models", title="LTXVCropGuides")
def ltxv_crop_guides(positive: Conditioning, negative: Conditioning, latent: Latent) -> Guided:
    """Remove the guides of LTXVAddGuide after sampling.

    Args:
        positive: Positive conditioning with the guides.
        negative: Negative conditioning with the guides.
        latent: Video latent with the guides appended.
    """
    count = guide_cells(positive, latent["samples"])
    if not count:
        return Guided(positive, negative, latent)
    first, second = (with_entries(side, keyframe_idxs=None) for side in (positive, negative))
    cropped = {**latent, "samples": latent["samples"][:, :, :-count].clone()}
    if latent.get("noise_mask") is not None:
        cropped["noise_mask"] = noise_mask(latent)[:, :, :-count].clone()
    return Guided(first, second, cropped)


@node("LTXVPreprocess", category="image", title="LTXVPreprocess")
def ltxv_preprocess(image: Image, ctx: RunContext, img_compression: Annotated[int, Ge(0), Le(100)] = 35) -> Image:
    """Compress images like video frames, which LTX-Video was trained on.

    Clean stills lead to videos without motion.

    Args:
        image: Images; odd sides lose the last row or column.
        img_compression: CRF of h264: 0 changes nothing, above 51 is 51.
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

    network = part(paths.resolve("latent_upscale_models", model_name), "latent_upscaler")
    return upscaler(network, Place.of(ctx.device, ctx.dtype), model_name)


@node("LTXVLatentUpsampler", category="latent/video", title="LTXVLatentUpsampler")
def ltxv_latent_upsampler(samples: Latent, upscale_model: LatentUpscaleModel, vae: ModelVae) -> Latent:
    """Upscale an LTX-Video latent in size or in time, depending on the upscaler.

    Args:
        samples: Video latent.
        upscale_model: Upscaler.
    """
    rest = {k: v for k, v in samples.items() if k != "noise_mask"}
    return {**rest, "samples": upscale_model.upscale(samples["samples"], vae)}


def _guides(conditioning: Any) -> Tensor | None:
    """Positions of a conditioning's guides [1, 3, n], or None."""
    return next((e["keyframe_idxs"] for _, e in conditioning if e.get("keyframe_idxs") is not None), None)


def guide_cells(conditioning: Any, samples: Tensor) -> int:
    """Number of guide latent frames at the end of a video latent [B, C, T, h, w]."""
    guides = _guides(conditioning)
    return 0 if guides is None else int(guides.shape[2] // (samples.shape[-2] * samples.shape[-1]))


def _begin(frame: int, count: int, cells: int, ctx: RunContext) -> int:
    """First frame of a guide of ``count`` frames."""
    if frame < 0:
        frame = max(0, 1 + (cells - 1) * FRAMES + frame)
    if count > 1 and frame % FRAMES != 1 and frame:
        moved = max(0, (frame - 1) // FRAMES * FRAMES + 1)
        ctx.warn(f"a guide of several frames starts at 0 or {FRAMES}n + 1: frame {frame} becomes {moved}")
        frame = moved
    return frame
