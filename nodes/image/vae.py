"""Between pictures and latents."""

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
    """Decode latents to pictures; of a latent of clip and sound, the clip.

    A result that is not finite in half precision is made again in float32; one that is not finite then is an error.

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
    """Decode latents to pictures in overlapping tiles, which takes less memory.

    Args:
        samples: The latents.
        tile_size: Side of a tile in pixels.
        overlap: How far tiles overlap, in pixels; at most a quarter of a tile.
        temporal_size: Frames a tile is long; not used by VAEs that decode frame by frame, as Wan's does.
        temporal_overlap: Frames by which tiles overlap in time; likewise.
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
    """Encode pictures to latents; sides are cut at the centre to multiples of a latent cell (8 pixels).

    Args:
        pixels: The pictures; of more than three channels the first three are taken.
    """
    from pipegraph.models.vae.image import fit_to_grid

    fitted = fit_to_grid(pixels[..., :3], vae.latent.downscale)
    if fitted.shape != pixels[..., :3].shape:
        ctx.warn(f"{pixels.shape[2]}x{pixels.shape[1]} cut to {fitted.shape[2]}x{fitted.shape[1]}")
    return {"samples": vae.encode(fitted, ctx.warn)}


@node("VAEDecodeAudio", category="latent/audio", title="VAE Decode Audio")
def vae_decode_audio(samples: Latent, vae: Vae) -> Audio:
    """Decode latents to sound; of a latent of clip and sound, the sound.

    Args:
        samples: The latents.
        vae: The model's VAE of sound.
    """
    sound = getattr(vae, "sound", None)
    if sound is None:
        raise ValueError("this VAE is of pictures: connect the model's VAE of sound")
    heard: dict[str, Any] = sound(_part(samples, 1))
    return heard


def _part(samples: Latent, which: int) -> Any:
    """The samples of a latent; of one of clip and sound, those of the one or the other."""
    if "shapes" not in samples:
        return samples["samples"]
    from pipegraph.models.families.ltx.ltx2 import separated

    return separated(samples["samples"], samples["shapes"])[which]


def _progress(steps: Generator[tuple[int, int], None, Image], unit: str) -> Generator[NodeEvent, None, Image]:
    """A decoder's steps as events of a node, with its result."""
    return converted(steps, lambda step: Progress(*step, unit))
