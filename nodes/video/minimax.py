"""MiniMax-H3: clips with sound, from a prompt, first and last pictures, and references.

A clip has 17n + 5 frames, 24 a second; its sides are multiples of 32 pixels. For an empty latent other numbers are cut,
as in ComfyUI; elsewhere they are refused before anything runs. The latent holds the clip and its sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, Grows, OneMoreThan, RunContext, Step, Wire, node, outputs

from ..image.latent import cut_sizes
from ..ports import FRAME_SIDE, PositiveConditioning
from ..text.conditioning import Prompt
from ..utils.amounts import latents
from ..wire import Audio, Clip, Conditioning, Image, Latent, Model, Vae

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("width"), FRAME_SIDE]
Height = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("height"), FRAME_SIDE]
Length = Annotated[int, Ge(5), Le(3600), OneMoreThan(17, by=5), Step(17), Auto("length")]
Shift = Annotated[float, Ge(0.01), Le(100), Step(0.01)]
Pictures = Annotated[Mapping[str, Any], Wire("IMAGE"), Grows(tuple(f"ref_image_{i}" for i in range(9)))]
Videos = Annotated[Mapping[str, Any], Wire("IMAGE"), Grows(tuple(f"ref_video_{i}" for i in range(3)))]
Soundtracks = Annotated[Mapping[str, Any], Wire("AUDIO"), Grows(tuple(f"ref_video_audio_{i}" for i in range(3)))]
Sounds = Annotated[Mapping[str, Any], Wire("AUDIO"), Grows(tuple(f"ref_audio_{i}" for i in range(3)))]
TRAINED: Final = (124, 362)
"""Frames of the clips that the networks were trained on."""


@outputs
class Started:
    """What a clip is to show, and its empty latent."""

    positive: Conditioning
    LATENT: Latent


@node("EmptyMiniMaxH3LatentAV", category="latent/minimax", title="Empty MiniMax H3 AV Latent", size=latents(24, 16, 4))
def empty_minimax_h3_latent(
    ctx: RunContext,
    width: Annotated[int, Ge(32), Le(16384), Step(32), Auto("width")] = 1344,
    height: Annotated[int, Ge(32), Le(16384), Step(32), Auto("height")] = 768,
    length: Annotated[int, Ge(5), Le(3600), Step(17), Auto("length")] = 124,
) -> Latent:
    """Make an empty latent of a clip and its sound: nothing to start from but a size.

    Args:
        width: Of the frames, in pixels; cut to a multiple of 32, with a warning.
        height: Of the frames, in pixels, likewise.
        length: How many frames, 24 a second: 5, 22, 39, ...; other numbers are cut, with a warning.
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
    """Begin a clip with sound: from a prompt alone, or with a first or last picture, or both.

    Args:
        clip: The text encoder, which sees the pictures too.
        vae: The VAE of the clip.
        prompt: What is to be seen and heard; pictures are `<Picture 1>`, `<Picture 2>` in it.
        length: How many frames, 24 a second: 5, 22, 39, ...
        first_frame: What the clip begins with; scaled to the size.
        last_frame: What it ends with; scaled to cover the size and cut at the centre.
    """
    from pipegraph.models.families.minimax.text import Shown, conditioning
    from pipegraph.models.media.image_ops import resize

    given: list[tuple[int, Tensor]] = []
    if first_frame is not None:
        given.append((0, resize(first_frame[:1, ..., :3], width, height, "lanczos")))
    if last_frame is not None:
        given.append((length - 1, resize(last_frame[:1, ..., :3], width, height, "lanczos", "center")))
    positive = conditioning(clip, prompt, [Shown("Picture", picture) for _, picture in given])
    guides = [{"frame": at, **_latents(ctx, vae, picture, None, None)} for at, picture in given]
    return Started(_told(positive, minimax_guides=guides), _empty(width, height, length, ctx))


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
    ref_images: Pictures,
    ref_videos: Videos,
    ref_video_audios: Soundtracks,
    ref_audios: Sounds,
) -> Started:
    """Begin a clip with sound after references, for MiniMax-H3's models of references (ref2va).

    Args:
        clip: The text encoder, which sees the pictures and videos too.
        prompt: What is to be seen and heard; references are `<Picture 1>`, `<Video 1>`, `<Audio 1>` in it. The sound
            of a video counts before the sounds that stand alone.
        length: How many frames, 24 a second: 5, 22, 39, ...
        ref_image_size: Pictures are made no larger than the clip's area, or than 2048 pixels on the shorter side (max).
        vae: The VAE of the clip; without it only the text encoder sees references.
        audio_vae: The VAE of the sound; without it references are not heard.
        ref_images: Pictures: `ref_images.ref_image_0`, ...
        ref_videos: Frames of videos, 24 a second, of 5 frames at least: `ref_videos.ref_video_0`, ...
        ref_video_audios: Their sounds, by the same number.
        ref_audios: Sounds that stand alone.
    """
    from pipegraph.models.families.minimax.text import Shown, conditioning

    shown: list[Shown] = []
    given: list[dict[str, Any]] = []
    for picture in _in_order(ref_images):
        fitted = _as_reference(picture[:1, ..., :3], width * height, ref_image_size)
        shown.append(Shown("Picture", fitted))
        given.append(_latents(ctx, vae, fitted, audio_vae, None))
    for name in sorted(ref_videos, key=_number):
        frames = _as_video(ref_videos[name][..., :3], length, ctx)
        sound = ref_video_audios.get(f"ref_video_audio_{_number(name)}")
        shown += [Shown("Audio")] * (sound is not None) + [Shown("Video", frames)]
        given.append(_latents(ctx, vae, frames, audio_vae, sound))
    for sound in _in_order(ref_audios):
        shown.append(Shown("Audio"))
        given.append(_latents(ctx, None, None, audio_vae, sound))
    positive = conditioning(clip, prompt, shown)
    return Started(_told(positive, minimax_references=[g for g in given if g]), _empty(width, height, length, ctx))


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
    """Lead a clip by a picture, a short clip or a sound at a frame.

    Args:
        latent: The clip's.
        frame_idx: Where it begins; negative from the end.
        vae: The VAE of the clip, for pictures.
        audio_vae: The VAE of the sound, for sound.
        image: A picture, or 5, 22, 39, ... frames; scaled to cover the size and cut at the centre.
        audio: A sound, cut at the clip's end.
    """
    from pipegraph.models.families.minimax.layout import PER_FRAME, frames_of
    from pipegraph.models.families.minimax.networks import CELL
    from pipegraph.models.media.image_ops import resize

    shapes = latent.get("shapes")
    if shapes is None or (image is None and audio is None):
        raise ValueError("MiniMaxH3AddGuide takes a latent of clip and sound, and a picture or a sound to lead it by")
    (_, cells, h, w), (*_, sound_cells) = shapes
    frames = frames_of(cells)
    at = frame_idx if frame_idx >= 0 else frames + frame_idx
    if image is not None:
        image = resize(_whole(image[..., :3], ctx), w * CELL, h * CELL, "lanczos", "center")
    if not 0 <= at <= frames - (1 if image is None else len(image)):
        raise ValueError(
            f"the clip has {frames} frames: a guide of {1 if image is None else len(image)} frames does "
            f"not fit at {frame_idx}"
        )
    if (image is not None and vae is None) or (audio is not None and audio_vae is None):
        raise ValueError("a picture needs vae, a sound needs audio_vae")
    found = _latents(ctx, vae, image, audio_vae, audio)
    if "sound" in found:
        found["sound"] = found["sound"][..., : int(sound_cells - PER_FRAME * at)]
    return _told(positive, minimax_guides=[{"frame": at, **found}])


def _check_family(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Whether the model has a noise level of its own for sound."""
    if "network" in model and model["network"].family.id != "minimax_h3":
        yield "model", f"{model['network'].family.title} has one noise level; MiniMaxH3SigmaShift is for MiniMax-H3"


@node("MiniMaxH3SigmaShift", category="advanced/model", title="ModelSamplingMiniMaxH3", check_model=_check_family)
def minimax_h3_sigma_shift(model: Model, shift_video: Shift = 12.0, shift_audio: Shift = 3.0) -> Model:
    """Set the shifts of the noise levels of clip and sound.

    Args:
        model: The model to set.
        shift_video: a in sigma = a t / (1 + (a - 1) t) of the clip: above 1 more of the steps lie at high noise.
        shift_audio: The same of the sound.
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
        ctx.warn(f"{length} frames: MiniMax-H3 was trained on clips of {least} to {most} frames (5 to 15 seconds)")
    shapes = (CHANNELS, cells(length), height // CELL, width // CELL), (SOUND_CHANNELS, SIDES, sound_cells(length))
    return {"samples": joined([torch.zeros(1, *shape) for shape in shapes]), "shapes": shapes}


def _told(positive: list[Any], **entries: list[Any]) -> list[Any]:
    """The conditioning with more of what is given, behind what is there."""
    more = {k: v for k, v in entries.items() if v}
    return [
        [states, {**extras, **{k: [*extras.get(k, ()), *v] for k, v in more.items()}}] for states, extras in positive
    ]


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _in_order(given: Mapping[str, Any]) -> list[Any]:
    return [given[name] for name in sorted(given, key=_number)]


def _whole(frames: Tensor, ctx: RunContext) -> Tensor:
    """1 or 17n + 5 of the frames."""
    count = 1 if len(frames) < 5 else (len(frames) - 5) // 17 * 17 + 5
    if count != len(frames):
        ctx.warn(f"of {len(frames)} frames {count} are used: a clip has 17n + 5")
    return frames[:count]


def _as_reference(picture: Tensor, area: int, size: str) -> Tensor:
    """A picture at the size at which it is a reference: never larger than it is, sides of 32n."""
    from pipegraph.models.media.image_ops import resize

    h, w = picture.shape[1:3]
    scale = min(1.0, (area / (h * w)) ** 0.5 if size == "match" else 2048 / min(h, w))
    width, height = (max(32, round(side * scale / 32) * 32) for side in (w, h))
    return resize(picture, width, height, "lanczos")


def _as_video(frames: Tensor, length: int, ctx: RunContext) -> Tensor:
    """Frames as a reference: no more than the clip has, no larger than 768 x 1344 pixels, sides of 32n."""
    from pipegraph.models.media.image_ops import resize

    if len(frames) < 5:
        raise ValueError(f"a video that is a reference has 5 frames at least (24 a second); this one has {len(frames)}")
    h, w = frames.shape[1:3]
    scale = min(1.0, 768 / min(h, w), (768 * 1344 / (h * w)) ** 0.5)
    width, height = (max(32, round(side * scale / 32) * 32) for side in (w, h))
    return resize(_whole(frames[:length], ctx), width, height, "lanczos")


def _latents(ctx: RunContext, vae: Any, frames: Tensor | None, audio_vae: Any, audio: Any) -> dict[str, Any]:
    """What the network is given of frames and a sound, as far as there are VAEs for them."""
    from pipegraph.models.families.minimax.family import noised
    from pipegraph.models.families.minimax.vae import MiniMaxSoundVae

    found: dict[str, Any] = {}
    if frames is not None and vae is not None:
        found["latent"] = noised(_of_clips(vae).given(frames, ctx.warn))
    if audio is not None and audio_vae is not None:
        if not isinstance(audio_vae, MiniMaxSoundVae):
            raise ValueError("this VAE is not MiniMax-H3's of sound (minimax_h3_audio_vae_...): connect that one")
        found["sound"] = audio_vae.heard(audio)
    return found


def _of_clips(vae: Any) -> Any:
    from pipegraph.models.families.minimax.vae import MiniMaxVae

    if not isinstance(vae, MiniMaxVae):
        raise ValueError("this VAE is not MiniMax-H3's of clips (minimax_h3_video_vae_...): connect that one")
    return vae
