"""Wan's clips that begin, or begin and end, with given pictures; clips decoded while they are saved."""

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

    from pipegraph.models.clip_vision import Seen


@outputs
class Begun:
    """Conditionings that know the given pictures, and an empty latent of the clip's size."""

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
) -> Begun:
    """Let a clip begin with given pictures, for Wan's image-to-video models.

    Args:
        clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
    """
    extras: dict[str, Any] = {"clip_vision_output": clip_vision_output}
    if start_image is None:
        return begun(positive, negative, extras, vae, width, height, length, batch_size)
    given, start = grey(width, height, length), fitted(start_image, width, height, length, ctx)
    given[: len(start)] = start
    latent = vae.encode(given, ctx.warn)
    mask = latent.new_ones(1, 1, *latent.shape[2:])
    mask[:, :, : (len(start) - 1) // 4 + 1] = 0
    extras |= {"concat_latent_image": latent, "concat_mask": mask}
    return begun(positive, negative, extras, vae, width, height, length, batch_size)


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
) -> Begun:
    """Let a clip begin and end with given pictures, for Wan's image-to-video models.

    Args:
        clip_vision_start_image: What a vision model sees in the first picture, for Wan 2.1.
        clip_vision_end_image: What it sees in the last one.
        end_image: The last frames; scaled likewise.
    """
    import torch

    given = grey(width, height, length)
    cells = (length - 1) // 4 + 1
    # One a frame, and three more before the first: its latent cell is as long as the others'.
    mask = torch.ones(4 * cells, height // vae.latent.downscale, width // vae.latent.downscale)
    if start_image is not None:
        start = fitted(start_image, width, height, length, ctx)
        given[: len(start)] = start
        mask[: len(start) + 3] = 0
    if end_image is not None:
        end = fitted(end_image, width, height, length, ctx, last=True)
        given[-len(end) :] = end
        mask[-len(end) :] = 0
    extras: dict[str, Any] = {"clip_vision_output": _both(clip_vision_start_image, clip_vision_end_image)}
    if start_image is not None or end_image is not None:
        by_cell = mask.reshape(1, cells, 4, *mask.shape[1:]).transpose(1, 2)
        extras |= {"concat_latent_image": vae.encode(given, ctx.warn), "concat_mask": by_cell}
    return begun(positive, negative, extras, vae, width, height, length, batch_size)


@node("VAEDecodeVideo", category="latent/video", title="VAE Decode (Video)")
def vae_decode_video(samples: Latent, vae: Vae, ctx: RunContext, fps: Fps = 16.0, audio: Audio | None = None) -> Video:
    """Decode the latent of a clip while it is saved: memory does not grow with its length.

    What reads the clip's frames twice decodes them twice. Several clips of a batch follow one another.

    Args:
        samples: The latent.
        vae: The model's VAE, of a video model.
        fps: Frames a second.
        audio: Sound; cut, or followed by silence, where its length is another.
    """
    from pipegraph.models.media.video import Video as Clip
    from pipegraph.models.media.video import rate, silent
    from pipegraph.models.vae.video import LatentFrames, VideoVae

    if not isinstance(vae, VideoVae):
        raise ValueError("this VAE is of a model for pictures: use VAEDecode and CreateVideo")
    frames = LatentFrames(vae, samples["samples"], ctx.warn)
    return Clip(frames, rate(fps), (lambda: audio) if audio is not None else silent)


def _both(first: Seen | None, last: Seen | None) -> Seen | None:
    """What a vision model sees in two pictures, one after the other."""
    import torch

    from pipegraph.models.clip_vision import Seen

    if first is None or last is None:
        return first or last
    if first.last.shape != last.last.shape:
        raise ValueError(
            f"CLIP vision saw {list(first.last.shape)} in the first pictures and {list(last.last.shape)} in the last: "
            "give as many of both, to the same model"
        )
    return Seen(torch.cat([first.last, last.last], 1), torch.cat([first.penultimate, last.penultimate], 1))


def grey(width: int, height: int, length: int) -> Tensor:
    """A clip of nothing: middle grey, which is 0 to the VAE."""
    import torch

    return torch.full((length, height, width, 3), 0.5)


def fitted(image: Tensor, width: int, height: int, length: int, ctx: RunContext, *, last: bool = False) -> Tensor:
    """The pictures at the clip's size, no more of them than it has frames."""
    from pipegraph.models.media.image_ops import resize

    if len(image) > length:
        which = "last" if last else "first"
        ctx.warn(f"{len(image)} pictures are given, the clip has {length} frames: the {which} are used")
        image = image[-length:] if last else image[:length]
    return resize(image[..., :3], width, height, "bilinear", "center")


def begun(
    positive: Any,
    negative: Any,
    extras: dict[str, Any],
    vae: Any,
    width: int,
    height: int,
    length: int,
    batch_size: int,
) -> Begun:
    """Both conditionings with more entries, and an empty latent [batch_size, C, T, h, w] as the VAE's are."""
    return Begun(*told_both(positive, negative, extras), {"samples": empty(vae, width, height, length, batch_size)})


def empty(vae: Any, width: int, height: int, length: int, batch_size: int = 1) -> Tensor:
    """An empty latent of a clip.

    Raises:
        ValueError: the VAE is of no Wan model, or its latent frames have no whole tokens at this size.
    """
    import torch

    facts = vae.latent
    if facts.frames != 4:
        raise ValueError("this VAE is of no Wan model, whose latent frames stand for 4 of the clip: load wan_2.1_vae")
    token = facts.downscale * 2
    if width % token or height % token:
        near = (f"{max(token, round(n / token) * token)}" for n in (width, height))
        raise ValueError(
            f"the model of this VAE makes clips of multiples of {token} pixels: {' x '.join(near)}, not "
            f"{width} x {height}"
        )
    return torch.zeros(
        batch_size, facts.channels, (length - 1) // 4 + 1, height // facts.downscale, width // facts.downscale
    )


def told_both(positive: Any, negative: Any, extras: dict[str, Any]) -> tuple[Any, Any]:
    """Both conditionings with more entries, but for those that are None."""
    told = {k: v for k, v in extras.items() if v is not None}
    first, second = ([[states, {**entries, **told}] for states, entries in side] for side in (positive, negative))
    return first, second
