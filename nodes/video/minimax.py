"""MiniMax-H3: videos with audio, from a prompt, first and last images, and references.

A video has 17n + 5 frames, 24 a second; its sides are multiples of 32 pixels. For an empty latent other sizes are
rounded down, as in ComfyUI; elsewhere they are an error before the run. The latent holds video and audio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, Grows, OneMoreThan, RunContext, Step, Wire, node, outputs

from ..image.latent import cut_sizes
from ..ports import FRAME_HEIGHT, FRAME_WIDTH, PositiveConditioning
from ..text.conditioning import Prompt
from ..utils.amounts import latents
from ..wire import Audio, Clip, Conditioning, Image, Latent, Model, Vae

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("width"), FRAME_WIDTH]
Height = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("height"), FRAME_HEIGHT]
Length = Annotated[int, Ge(5), Le(3600), OneMoreThan(17, by=5), Step(17), Auto("length")]
Shift = Annotated[float, Ge(0.01), Le(100), Step(0.01)]
ReferenceImages = Annotated[Mapping[str, Any], Wire("IMAGE"), Grows(tuple(f"ref_image_{i}" for i in range(9)))]
ReferenceVideos = Annotated[Mapping[str, Any], Wire("IMAGE"), Grows(tuple(f"ref_video_{i}" for i in range(3)))]
Soundtracks = Annotated[Mapping[str, Any], Wire("AUDIO"), Grows(tuple(f"ref_video_audio_{i}" for i in range(3)))]
Sounds = Annotated[Mapping[str, Any], Wire("AUDIO"), Grows(tuple(f"ref_audio_{i}" for i in range(3)))]
TRAINED: Final = (124, 362)
"""Shortest and longest training videos, in frames."""


@outputs
class Started:
    """Conditioning and an empty latent of the video."""

    positive: Conditioning
    LATENT: Latent


@node("EmptyMiniMaxH3LatentAV", category="latent/minimax", title="Empty MiniMax H3 AV Latent", size=latents(24, 16, 4))
def empty_minimax_h3_latent(
    ctx: RunContext,
    width: Annotated[int, Ge(32), Le(16384), Step(32), Auto("width")] = 1344,
    height: Annotated[int, Ge(32), Le(16384), Step(32), Auto("height")] = 768,
    length: Annotated[int, Ge(5), Le(3600), Step(17), Auto("length")] = 124,
) -> Latent:
    """Make an empty joint latent of video and audio.

    Args:
        width: Frame width in pixels; rounded down to a multiple of 32, with a warning.
        height: Frame height in pixels, likewise.
        length: Number of frames, 24 a second: 5, 22, 39, ...; other numbers are rounded down, with a warning.
    """
    width, height, length = cut_sizes(ctx, width=(width, 32, 32), height=(height, 32, 32), length=(length, 17, 5))
    return _empty(width, height, length, ctx)


@node(
    "MiniMaxH3ImageToVideo", category="conditioning/minimax", title="MiniMax H3 Image to Video", size=latents(24, 16, 4)
)
def minimax_h3_image_to_video(
    clip: Clip,
    vae: Vae,
    prompt: Prompt,
    ctx: RunContext,
    width: Width = 1344,
    height: Height = 768,
    length: Length = 124,
    first_frame: Image | None = None,
    last_frame: Image | None = None,
) -> Started:
    """Set up a video with audio from a prompt, optionally with a first or last image.

    Args:
        clip: Text encoder, which also reads the images.
        vae: Video VAE.
        prompt: Prompt for video and audio; images are `<Picture 1>`, `<Picture 2>` in it.
        length: Number of frames, 24 a second: 5, 22, 39, ...
        first_frame: First frame; scaled to the size.
        last_frame: Last frame; scaled to cover the size and cropped at the centre.
    """
    from pipegraph.models.families.minimax.text import Shown, conditioning
    from pipegraph.models.media.image_ops import resize

    frames: list[tuple[int, Tensor]] = []
    if first_frame is not None:
        frames.append((0, resize(first_frame[:1, ..., :3], width, height, "lanczos")))
    if last_frame is not None:
        frames.append((length - 1, resize(last_frame[:1, ..., :3], width, height, "lanczos", "center")))
    positive = conditioning(clip, prompt, [Shown("Picture", image) for _, image in frames])
    guides = [{"frame": index, **_latents(ctx, vae, image, None, None)} for index, image in frames]
    return Started(_with_entries(positive, minimax_guides=guides), _empty(width, height, length, ctx))


@node(
    "MiniMaxH3ReferenceToVideo",
    category="conditioning/minimax",
    title="MiniMax H3 Reference to Video",
    size=latents(24, 16, 4),
)
def minimax_h3_reference_to_video(
    clip: Clip,
    prompt: Prompt,
    ctx: RunContext,
    width: Width = 1344,
    height: Height = 768,
    length: Length = 124,
    ref_image_size: Literal["match", "max"] = "match",
    vae: Vae | None = None,
    audio_vae: Vae | None = None,
    *,
    ref_images: ReferenceImages,
    ref_videos: ReferenceVideos,
    ref_video_audios: Soundtracks,
    ref_audios: Sounds,
) -> Started:
    """Set up a video with audio from references, for MiniMax-H3's reference models (ref2va).

    Args:
        clip: Text encoder, which also reads the images and videos.
        prompt: Prompt for video and audio; references are `<Picture 1>`, `<Video 1>`, `<Audio 1>` in it. Audio of
            videos is numbered before other audio.
        length: Number of frames, 24 a second: 5, 22, 39, ...
        ref_image_size: Largest reference: the video's area (match), or 2048 pixels on the shorter side (max).
        vae: Video VAE; without it only the text encoder reads image references.
        audio_vae: Audio VAE; without it audio references are not used.
        ref_images: Images: `ref_images.ref_image_0`, ...
        ref_videos: Frames of videos, 24 a second, at least 5 frames: `ref_videos.ref_video_0`, ...
        ref_video_audios: Audio of the videos, by number.
        ref_audios: Other audio.
    """
    from pipegraph.models.families.minimax.text import Shown, conditioning

    shown: list[Shown] = []
    references: list[dict[str, Any]] = []
    for image in _in_order(ref_images):
        resized = _as_reference(image[:1, ..., :3], width * height, ref_image_size)
        shown.append(Shown("Picture", resized))
        references.append(_latents(ctx, vae, resized, audio_vae, None))
    for name in sorted(ref_videos, key=_number):
        frames = _as_video(ref_videos[name][..., :3], length, ctx)
        sound = ref_video_audios.get(f"ref_video_audio_{_number(name)}")
        shown += [Shown("Audio")] * (sound is not None) + [Shown("Video", frames)]
        references.append(_latents(ctx, vae, frames, audio_vae, sound))
    for sound in _in_order(ref_audios):
        shown.append(Shown("Audio"))
        references.append(_latents(ctx, None, None, audio_vae, sound))
    positive = conditioning(clip, prompt, shown)
    return Started(
        _with_entries(positive, minimax_references=[r for r in references if r]), _empty(width, height, length, ctx)
    )


@node("MiniMaxH3AddGuide", category="conditioning/minimax", title="Add Guide for MiniMax H3")
def minimax_h3_add_guide(
    positive: PositiveConditioning,
    latent: Latent,
    ctx: RunContext,
    frame_idx: Annotated[int, Ge(-9999), Le(9999)] = 0,
    vae: Vae | None = None,
    audio_vae: Vae | None = None,
    image: Image | None = None,
    audio: Audio | None = None,
) -> Conditioning:
    """Guide a video with an image, a short video or audio at a frame.

    Args:
        latent: Joint latent of the video.
        frame_idx: First frame of the guide; negative from the end.
        vae: Video VAE, for images.
        audio_vae: Audio VAE, for audio.
        image: An image, or 5, 22, 39, ... frames; scaled to cover the size and cropped at the centre.
        audio: Audio, cut at the video's end.
    """
    from pipegraph.models.families.minimax.layout import PER_FRAME, frames_of
    from pipegraph.models.families.minimax.networks import CELL
    from pipegraph.models.media.image_ops import resize

    shapes = latent.get("shapes")
    if shapes is None or (image is None and audio is None):
        raise ValueError("MiniMaxH3AddGuide needs a joint latent of video and audio, and an image or audio as guide")
    (_, cells, h, w), (*_, sound_cells) = shapes
    frames = frames_of(cells)
    at = frame_idx if frame_idx >= 0 else frames + frame_idx
    if image is not None:
        image = resize(_whole(image[..., :3], ctx), w * CELL, h * CELL, "lanczos", "center")
    if not 0 <= at <= frames - (1 if image is None else len(image)):
        raise ValueError(
            f"the video has {frames} frames: a guide of {1 if image is None else len(image)} frames does "
            f"not fit at {frame_idx}"
        )
    if (image is not None and vae is None) or (audio is not None and audio_vae is None):
        raise ValueError("an image needs vae, audio needs audio_vae")
    guide = _latents(ctx, vae, image, audio_vae, audio)
    if "sound" in guide:
        guide["sound"] = guide["sound"][..., : int(sound_cells - PER_FRAME * at)]
    return _with_entries(positive, minimax_guides=[{"frame": at, **guide}])


def _check_family(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Check that the model has a separate noise level for audio."""
    if "network" in model and model["network"].family.id != "minimax_h3":
        yield "model", f"{model['network'].family.title} has one noise level; MiniMaxH3SigmaShift is for MiniMax-H3"


@node("MiniMaxH3SigmaShift", category="advanced/model", title="ModelSamplingMiniMaxH3", check_model=_check_family)
def minimax_h3_sigma_shift(model: Model, shift_video: Shift = 12.0, shift_audio: Shift = 3.0) -> Model:
    """Set the shifts of the noise levels of video and audio.

    Args:
        model: Model to patch.
        shift_video: a in sigma = a t / (1 + (a - 1) t) of the video: above 1 puts more steps at high noise.
        shift_audio: The same for audio.
    """
    from dataclasses import replace

    from pipegraph.models.sampling.joint_flow import JointFlow

    if not isinstance(model.sampling, JointFlow):
        raise ValueError(f"{model.family.title} has one noise level; MiniMaxH3SigmaShift is for MiniMax-H3")
    return model.with_sampling(replace(model.sampling, shift=shift_video, sound_shift=shift_audio))


def _empty(width: int, height: int, length: int, ctx: RunContext) -> dict[str, Any]:
    import torch

    from pipegraph.models.families.ltx.ltx2 import joined
    from pipegraph.models.families.minimax.family import SOUND_CHANNELS
    from pipegraph.models.families.minimax.layout import SIDES, cells, sound_cells
    from pipegraph.models.families.minimax.networks import CELL, CHANNELS

    if not TRAINED[0] <= length <= TRAINED[1]:
        least, most = TRAINED
        ctx.warn(f"{length} frames: MiniMax-H3 was trained on videos of {least} to {most} frames (5 to 15 seconds)")
    shapes = (CHANNELS, cells(length), height // CELL, width // CELL), (SOUND_CHANNELS, SIDES, sound_cells(length))
    return {"samples": joined([torch.zeros(1, *shape) for shape in shapes]), "shapes": shapes}


def _with_entries(positive: list[Any], **entries: list[Any]) -> list[Any]:
    """Append items to list entries of a conditioning."""
    more = {k: v for k, v in entries.items() if v}
    return [
        [states, {**extras, **{k: [*extras.get(k, ()), *v] for k, v in more.items()}}] for states, extras in positive
    ]


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _in_order(inputs: Mapping[str, Any]) -> list[Any]:
    return [inputs[name] for name in sorted(inputs, key=_number)]


def _whole(frames: Tensor, ctx: RunContext) -> Tensor:
    """The first 1 or 17n + 5 frames."""
    count = 1 if len(frames) < 5 else (len(frames) - 5) // 17 * 17 + 5
    if count != len(frames):
        ctx.warn(f"of {len(frames)} frames {count} are used: a video has 17n + 5")
    return frames[:count]


def _as_reference(image: Tensor, area: int, size: str) -> Tensor:
    """Scale a reference image down; sides are multiples of 32."""
    from pipegraph.models.media.image_ops import resize

    h, w = image.shape[1:3]
    scale = min(1.0, (area / (h * w)) ** 0.5 if size == "match" else 2048 / min(h, w))
    width, height = (max(32, round(side * scale / 32) * 32) for side in (w, h))
    return resize(image, width, height, "lanczos")


def _as_video(frames: Tensor, length: int, ctx: RunContext) -> Tensor:
    """Reference frames: at most ``length``, at most 768 x 1344 pixels, sides multiples of 32."""
    from pipegraph.models.media.image_ops import resize

    if len(frames) < 5:
        raise ValueError(f"a reference video needs at least 5 frames (24 a second), got {len(frames)}")
    h, w = frames.shape[1:3]
    scale = min(1.0, 768 / min(h, w), (768 * 1344 / (h * w)) ** 0.5)
    width, height = (max(32, round(side * scale / 32) * 32) for side in (w, h))
    return resize(_whole(frames[:length], ctx), width, height, "lanczos")


def _latents(ctx: RunContext, vae: Any, frames: Tensor | None, audio_vae: Any, audio: Any) -> dict[str, Any]:
    """Latents of frames and audio, as far as VAEs are connected."""
    from pipegraph.models.families.minimax.family import noised
    from pipegraph.models.families.minimax.vae import MiniMaxSoundVae

    latents: dict[str, Any] = {}
    if frames is not None and vae is not None:
        latents["latent"] = noised(_video_vae(vae).encode_condition(frames, ctx.warn))
    if audio is not None and audio_vae is not None:
        if not isinstance(audio_vae, MiniMaxSoundVae):
            raise ValueError("this is not MiniMax-H3's audio VAE (minimax_h3_audio_vae_...)")
        latents["sound"] = audio_vae.heard(audio)
    return latents


def _video_vae(vae: Any) -> Any:
    from pipegraph.models.families.minimax.vae import MiniMaxVae

    if not isinstance(vae, MiniMaxVae):
        raise ValueError("this is not MiniMax-H3's video VAE (minimax_h3_video_vae_...)")
    return vae
