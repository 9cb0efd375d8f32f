"""Encode images to latents and decode latents."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any

from annotated_types import Ge, Le, MultipleOf

from pipegraph.generators import converted
from pipegraph.runtime.node import NodeEvent, Progress, RunContext, node

from ..ports import ModelVae
from ..wire import Audio, Image, Latent, Vae

TileSize = Annotated[int, Ge(64), Le(4096), MultipleOf(32)]
Overlap = Annotated[int, Ge(0), Le(4096), MultipleOf(32)]
Frames = Annotated[int, Ge(8), Le(4096), MultipleOf(4)]
FrameOverlap = Annotated[int, Ge(4), Le(4096), MultipleOf(4)]


@node("VAEDecode", category="latent", title="VAE Decode")
def vae_decode(samples: Latent, vae: ModelVae, ctx: RunContext) -> Generator[NodeEvent, None, Image]:
    """Decode latents to images; from a joint latent of video and audio, the video.

    If a result in half precision is not finite, decoding is repeated in float32; a second failure is an error.

    Args:
        samples: The latents.
    """
    steps = vae.decode_steps(_part(samples, 0), ctx.warn)
    return (yield from _progress(steps, "picture"))


@node("VAEDecodeTiled", category="latent", title="VAE Decode (Tiled)")
def vae_decode_tiled(
    samples: Latent,
    vae: ModelVae,
    ctx: RunContext,
    tile_size: TileSize = 512,
    overlap: Overlap = 64,
    temporal_size: Frames = 64,
    temporal_overlap: FrameOverlap = 8,
) -> Generator[NodeEvent, None, Image]:
    """Decode latents to images in overlapping tiles, which takes less memory.

    Args:
        samples: The latents.
        tile_size: Side of a tile in pixels.
        overlap: Overlap of tiles in pixels; at most a quarter of a tile.
        temporal_size: Frames per tile; not used by VAEs that decode frame by frame, such as Wan's.
        temporal_overlap: Overlap of tiles in frames; likewise.
    """
    if overlap > tile_size // 4:
        ctx.warn(f"overlap {overlap} is more than a quarter of tile_size {tile_size}; {tile_size // 4} is used")
        overlap = tile_size // 4
    cell = vae.latent.downscale
    vae = vae.in_time(temporal_size, temporal_overlap)
    steps = vae.decode_tiled_steps(_part(samples, 0), tile_size // cell, overlap // cell, ctx.warn)
    return (yield from _progress(steps, "tile"))


@node("VAEEncode", category="latent", title="VAE Encode")
def vae_encode(pixels: Image, vae: ModelVae, ctx: RunContext) -> Latent:
    """Encode images to latents; sides are cropped at the centre to multiples of a latent cell (8 pixels).

    Args:
        pixels: The images; only the first three channels are used.
    """
    from pipegraph.models.vae.image import fit_to_grid

    cropped = fit_to_grid(pixels[..., :3], vae.latent.downscale)
    if cropped.shape != pixels[..., :3].shape:
        ctx.warn(f"{pixels.shape[2]}x{pixels.shape[1]} cut to {cropped.shape[2]}x{cropped.shape[1]}")
    return {"samples": vae.encode(cropped, ctx.warn)}


@node("VAEEncodeTiled", category="latent", title="VAE Encode (Tiled)")
def vae_encode_tiled(
    pixels: Image,
    vae: ModelVae,
    ctx: RunContext,
    tile_size: Annotated[int, Ge(64), Le(4096), MultipleOf(64)] = 512,
    overlap: Overlap = 64,
    temporal_size: Frames = 64,
    temporal_overlap: FrameOverlap = 8,
) -> Generator[NodeEvent, None, Latent]:
    """Encode images in overlapping tiles, which takes less memory. Sides are cropped as in VAEEncode.

    Args:
        pixels: Images; only the first three channels are used.
        tile_size: Side of a tile in pixels.
        overlap: Overlap of tiles in pixels; at most a quarter of a tile.
        temporal_size: Not used: a video is encoded at its whole length.
        temporal_overlap: Not used.
    """
    from pipegraph.models.vae.image import fit_to_grid
    from pipegraph.models.vae.tiled import encode_tiled

    fitted = fit_to_grid(pixels[..., :3], vae.latent.downscale)
    if fitted.shape != pixels[..., :3].shape:
        ctx.warn(f"{pixels.shape[2]}x{pixels.shape[1]} cut to {fitted.shape[2]}x{fitted.shape[1]}")
    if overlap > tile_size // 4:
        ctx.warn(f"overlap {overlap} is more than a quarter of tile_size {tile_size}; {tile_size // 4} is used")
    steps = encode_tiled(vae, fitted, tile_size, min(overlap, tile_size // 4), ctx.warn)
    samples = yield from converted(steps, lambda step: Progress(*step, "tile"))
    return {"samples": samples}


@node("VAEDecodeAudio", category="latent/audio", title="VAE Decode Audio")
def vae_decode_audio(samples: Latent, vae: Vae) -> Audio:
    """Decode latents to audio; from a joint latent of video and audio, the audio.

    Args:
        samples: The latents.
        vae: The model's audio VAE.
    """
    decode = getattr(vae, "sound", None)
    if decode is None:
        raise ValueError("this is an image VAE: connect the model's audio VAE")
    audio: dict[str, Any] = decode(_part(samples, 1))
    return audio


def _part(samples: Latent, which: int) -> Any:
    """The samples of a latent; of a joint latent, video (0) or audio (1)."""
    if "shapes" not in samples:
        return samples["samples"]
    from pipegraph.models.families.ltx.ltx2 import separated

    return separated(samples["samples"], samples["shapes"])[which]


def _progress(steps: Generator[tuple[int, int], None, Image], unit: str) -> Generator[NodeEvent, None, Image]:
    """Convert a decoder's steps to progress events; return its result."""
    return converted(steps, lambda step: Progress(*step, unit))
