"""Wan image to video, first and last frame to video, and decoding of videos while they are saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipegraph.runtime.node import RunContext, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, StartImage, VideoCount
from ..utils.amounts import latents
from ..wire import Audio, ClipVisionOutput, Conditioning, Image, Latent, Vae, Video
from .components import Fps
from .latent import Height, Length, Width

if TYPE_CHECKING:
    from torch import Tensor

    from pipegraph.models.clip_vision import VisionStates


@outputs
class VideoConditioning:
    """Conditionings with the images, and an empty latent of the video's size."""

    positive: Conditioning
    negative: Conditioning
    latent: Latent


@node("WanImageToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_image_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    ctx: RunContext,
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    batch_size: VideoCount = 1,
    clip_vision_output: ClipVisionOutput | None = None,
    start_image: StartImage | None = None,
) -> VideoConditioning:
    """Start a video with images, for Wan's image-to-video models.

    Args:
        clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
    """
    extras: dict[str, Any] = {"clip_vision_output": clip_vision_output}
    if start_image is None:
        return conditioned(positive, negative, extras, vae, width, height, length, batch_size)
    frames, start = grey(width, height, length), fit_frames(start_image, width, height, length, ctx)
    frames[: len(start)] = start
    latent = vae.encode(frames, ctx.warn)
    mask = latent.new_ones(1, 1, *latent.shape[2:])
    mask[:, :, : (len(start) - 1) // 4 + 1] = 0
    extras |= {"concat_latent_image": latent, "concat_mask": mask}
    return conditioned(positive, negative, extras, vae, width, height, length, batch_size)


@node("WanFirstLastFrameToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_first_last_frame_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    ctx: RunContext,
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    batch_size: VideoCount = 1,
    clip_vision_start_image: ClipVisionOutput | None = None,
    clip_vision_end_image: ClipVisionOutput | None = None,
    start_image: StartImage | None = None,
    end_image: Image | None = None,
) -> VideoConditioning:
    """Start and end a video with images, for Wan's image-to-video models.

    Args:
        clip_vision_start_image: CLIP vision output of the first image, for Wan 2.1.
        clip_vision_end_image: CLIP vision output of the last image.
        end_image: Last frames; scaled likewise.
    """
    import torch

    frames = grey(width, height, length)
    cells = (length - 1) // 4 + 1
    # One mask value per frame, and three more before the first, whose latent frame holds one frame.
    mask = torch.ones(4 * cells, height // vae.latent.downscale, width // vae.latent.downscale)
    if start_image is not None:
        start = fit_frames(start_image, width, height, length, ctx)
        frames[: len(start)] = start
        mask[: len(start) + 3] = 0
    if end_image is not None:
        end = fit_frames(end_image, width, height, length, ctx, last=True)
        frames[-len(end) :] = end
        mask[-len(end) :] = 0
    extras: dict[str, Any] = {"clip_vision_output": _both(clip_vision_start_image, clip_vision_end_image)}
    if start_image is not None or end_image is not None:
        by_cell = mask.reshape(1, cells, 4, *mask.shape[1:]).transpose(1, 2)
        extras |= {"concat_latent_image": vae.encode(frames, ctx.warn), "concat_mask": by_cell}
    return conditioned(positive, negative, extras, vae, width, height, length, batch_size)


@node("VAEDecodeVideo", category="latent/video", title="VAE Decode (Video)")
def vae_decode_video(samples: Latent, vae: Vae, ctx: RunContext, fps: Fps = 16.0, audio: Audio | None = None) -> Video:
    """Decode a video latent while the video is saved: memory does not grow with its length.

    Reading the frames twice decodes them twice. The videos of a batch are joined in order.

    Args:
        samples: The latent.
        vae: The VAE of a video model.
        fps: Frames a second.
        audio: Audio; cut or padded with silence to the video's length.
    """
    from pipegraph.models.media.video import Video as VideoValue
    from pipegraph.models.media.video import rate, silent
    from pipegraph.models.vae.video import LatentFrames, VideoVae

    if not isinstance(vae, VideoVae):
        raise ValueError("this is an image VAE: use VAEDecode and CreateVideo")
    frames = LatentFrames(vae, samples["samples"], ctx.warn)
    return VideoValue(frames, rate(fps), (lambda: audio) if audio is not None else silent)


def _both(first: VisionStates | None, last: VisionStates | None) -> VisionStates | None:
    """Concatenate the CLIP vision outputs of two images."""
    import torch

    from pipegraph.models.clip_vision import VisionStates

    if first is None or last is None:
        return first or last
    if first.last.shape != last.last.shape:
        raise ValueError(
            f"CLIP vision outputs are {list(first.last.shape)} for the first images and "
            f"{list(last.last.shape)} for the last: encode as many of both, with the same model"
        )
    return VisionStates(torch.cat([first.last, last.last], 1), torch.cat([first.penultimate, last.penultimate], 1))


def grey(width: int, height: int, length: int) -> Tensor:
    """Grey frames [length, H, W, 3]: 0 to the VAE."""
    import torch

    return torch.full((length, height, width, 3), 0.5)


def fit_frames(image: Tensor, width: int, height: int, length: int, ctx: RunContext, *, last: bool = False) -> Tensor:
    """Scale images to the video's size; at most ``length`` of them."""
    from pipegraph.models.media.image_ops import resize

    if len(image) > length:
        which = "last" if last else "first"
        ctx.warn(f"{len(image)} images, but the video has {length} frames: the {which} are used")
        image = image[-length:] if last else image[:length]
    return resize(image[..., :3], width, height, "bilinear", "center")


def conditioned(
    positive: Any,
    negative: Any,
    extras: dict[str, Any],
    vae: Any,
    width: int,
    height: int,
    length: int,
    batch_size: int,
) -> VideoConditioning:
    """Add entries to both conditionings, and make an empty latent [batch_size, C, T, h, w] for the VAE."""
    return VideoConditioning(
        *with_entries(positive, negative, extras), {"samples": empty(vae, width, height, length, batch_size)}
    )


def empty(vae: Any, width: int, height: int, length: int, batch_size: int = 1) -> Tensor:
    """An empty video latent.

    Raises:
        ValueError: not a VAE of Wan, or sides that are no multiple of a token.
    """
    import torch

    facts = vae.latent
    if facts.frames != 4:
        raise ValueError("this is no VAE of Wan (4 frames per latent frame): load wan_2.1_vae")
    token = facts.downscale * 2
    if width % token or height % token:
        near = (f"{max(token, round(n / token) * token)}" for n in (width, height))
        raise ValueError(
            f"sides must be multiples of {token} pixels for this VAE's model: {' x '.join(near)}, not "
            f"{width} x {height}"
        )
    return torch.zeros(
        batch_size, facts.channels, (length - 1) // 4 + 1, height // facts.downscale, width // facts.downscale
    )


def with_entries(positive: Any, negative: Any, extras: dict[str, Any]) -> tuple[Any, Any]:
    """Add the entries that are not None to both conditionings."""
    present = {k: v for k, v in extras.items() if v is not None}
    first, second = ([[states, {**entries, **present}] for states, entries in side] for side in (positive, negative))
    return first, second
