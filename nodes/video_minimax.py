"""MiniMax-H3: clips with sound, from a prompt, first and last pictures, and references.

A clip has 17n + 5 frames, 24 a second; its sides are multiples of 32 pixels. Other numbers are refused before anything
runs. The latent holds the clip and its sound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from annotated_types import Ge, Le, MultipleOf

from pipegraph.runtime.node import Auto, OneMoreThan, RunContext, Step, node, outputs

from .conditioning import Prompt
from .wire import Clip, Conditioning, Image, Latent, Model, Vae

if TYPE_CHECKING:
    from torch import Tensor

Width = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("width")]
Height = Annotated[int, Ge(32), Le(16384), MultipleOf(32), Step(32), Auto("height")]
Length = Annotated[int, Ge(5), Le(3600), OneMoreThan(17, by=5), Step(17), Auto("length")]
Shift = Annotated[float, Ge(0.01), Le(100), Step(0.01)]
TRAINED: Final = (124, 362)
"""Frames of the clips that the networks were trained on."""


@outputs
class Started:
    """What a clip is to show, and its empty latent."""

    positive: Conditioning
    LATENT: Latent


@node("EmptyMiniMaxH3LatentAV", category="latent/minimax", title="Empty MiniMax H3 AV Latent")
def empty_minimax_h3_latent(ctx: RunContext, width: Width = 1344, height: Height = 768, length: Length = 124) -> Latent:
    """Make an empty latent of a clip and its sound: nothing to start from but a size.

    Args:
        width: Of the frames, in pixels.
        height: Of the frames, in pixels.
        length: How many frames, 24 a second: 5, 22, 39, ...
    """
    return _empty(width, height, length, ctx)


@node("MiniMaxH3ImageToVideo", category="conditioning/minimax", title="MiniMax H3 Image to Video")
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
        width: Of the frames, in pixels.
        height: Of the frames, in pixels.
        length: How many frames, 24 a second: 5, 22, 39, ...
        first_frame: What the clip begins with; scaled to the size.
        last_frame: What it ends with; scaled to cover the size and cut at the centre.
    """
    from pipegraph.models.families.minimax import noised
    from pipegraph.models.images import resize
    from pipegraph.models.text_minimax import Shown, conditioning

    given: list[tuple[int, Tensor]] = []
    if first_frame is not None:
        given.append((0, resize(first_frame[:1, ..., :3], width, height, "lanczos")))
    if last_frame is not None:
        given.append((length - 1, resize(last_frame[:1, ..., :3], width, height, "lanczos", "center")))
    positive = conditioning(clip, prompt, [Shown("Picture", picture) for _, picture in given])
    guides = [{"frame": at, "latent": noised(_of_clips(vae).given(picture, ctx.warn))} for at, picture in given]
    return Started(_told(positive, minimax_guides=guides), _empty(width, height, length, ctx))


@node("MiniMaxH3SigmaShift", category="advanced/model", title="ModelSamplingMiniMaxH3")
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

    from pipegraph.models.families.ltx2 import joined
    from pipegraph.models.families.minimax import CELL, CHANNELS, SOUND_CHANNELS
    from pipegraph.models.families.minimax_layout import SIDES, cells, sound_cells

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


def _of_clips(vae: Any) -> Any:
    from pipegraph.models.video.minimax import MiniMaxVae

    if not isinstance(vae, MiniMaxVae):
        raise ValueError("this VAE is not MiniMax-H3's of clips (minimax_h3_video_vae_...): connect that one")
    return vae
