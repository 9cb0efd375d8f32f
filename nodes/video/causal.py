"""Clips made chunk by chunk by causal video models (Self Forcing, CausVid, Causal Forcing)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, node, outputs

from ..ports import ModelVae, VideoCount
from ..utils.amounts import latents
from ..wire import Audio, Guider, Image, Latent, Model, Noise, Sampler, Sigmas, Vae, Video
from .components import Fps
from .latent import AnyHeight, AnyLength, AnyWidth, Height, Length, Width, empty_hunyuan_latent_video

Cells = Annotated[int, Ge(0), Le(4096)]


@outputs
class Started:
    """A model whose clips begin with a picture, and an empty latent of the clip's size."""

    MODEL: Model
    LATENT: Latent


@node("EmptyARVideoLatent", category="latent/video", title="Empty AR Video Latent", size=latents(16, 8, 4))
def empty_ar_video_latent(
    ctx: RunContext,
    width: AnyWidth = 832,
    height: AnyHeight = 480,
    length: AnyLength = 81,
    batch_size: VideoCount = 1,
) -> Latent:
    """Make an empty latent of a clip: nothing to start from but a size.

    Args:
        width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
        height: Of the frames, in pixels, likewise.
        length: How many frames: 1, 5, 9, ..., other numbers are cut; (length - 1) / 4 + 1 latent frames, a whole number
            of blocks.
    """
    return empty_hunyuan_latent_video(ctx, width, height, length, batch_size)


@node("SamplerARVideo", category="sampling/custom_sampling/samplers", title="Sampler AR Video")
def sampler_ar_video(
    num_frame_per_block: Annotated[int, Ge(1), Le(64)] = 1, window: Cells = 0, sink: Cells = 0
) -> Sampler:
    """Make a clip block by block, each seeing the finished ones before it, with a causal Wan model.

    Every block goes through all sigmas, which end at 0; each step is a prediction that is noised again (as `lcm`).

    Args:
        num_frame_per_block: Latent frames made at a time, as the model was trained: 3 for Self Forcing and CausVid, 1
            for framewise models.
        window: Latent frames a block sees at most, its own and the sink's included; 0: all. With a window, time and
            memory a block do not grow with the clip's length.
        sink: First latent frames that every block sees, whatever the window.
    """
    from pipegraph.models.causal.rollout import Rollout

    return Rollout(num_frame_per_block, window, sink).sampler()


@node("ARVideoI2V", category="conditioning/video_models", title="AR Video I2V", size=latents(16, 8, 4))
def ar_video_i2v(
    model: Model,
    vae: Vae,
    start_image: Image,
    ctx: RunContext,
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    batch_size: VideoCount = 1,
) -> Started:
    """Let the clips of a causal model for text to video begin with a picture; for SamplerARVideo.

    Args:
        model: The model.
        vae: Its VAE.
        start_image: The first frame; scaled to cover the size and cut at the centre.
        length: How many frames, the first included: 1, 5, 9, ...
    """
    from pipegraph.models.media.image_ops import resize

    if len(start_image) > 1:
        ctx.warn(f"{len(start_image)} pictures are given: the clip begins with the first")
    first = resize(start_image[:1, ..., :3], width, height, "bilinear", "center")
    started = replace(model, begins_with=vae.encode(first, ctx.warn))
    return Started(started, empty_hunyuan_latent_video(ctx, width, height, length, batch_size))


@node("StreamARVideo", category="sampling/custom_sampling", title="Stream AR Video")
def stream_ar_video(
    noise: Noise,
    guider: Guider,
    sampler: Sampler,
    sigmas: Sigmas,
    latent_image: Latent,
    vae: ModelVae,
    fps: Fps = 16.0,
    audio: Audio | None = None,
) -> Video:
    """Make a clip of a causal model while it is saved: each block is sampled, decoded and handed on before the next.

    What reads the clip twice makes it twice. A longer clip begins as a shorter one of the same seed does. (The frames
    are others than SamplerCustomAdvanced's of that seed, which draws the noise of the whole clip at once.)

    Args:
        noise: What the noise is drawn from.
        guider: The model and what it is to follow, without a negative (cfg 1).
        sampler: Of SamplerARVideo.
        sigmas: The noise levels of each block, falling to 0.
        latent_image: What to start from; an empty latent gives the size.
        fps: Frames a second.
        audio: Sound; cut, or followed by silence, where its length is another.
    """
    from pipegraph.models.causal.rollout import RolloutSampler
    from pipegraph.models.causal.stream import RolloutFrames
    from pipegraph.models.media.video import Video as Clip
    from pipegraph.models.media.video import rate, silent
    from pipegraph.models.vae.video import VideoVae

    if not isinstance(sampler, RolloutSampler):
        raise ValueError(
            f"{sampler.name} makes a whole clip at once: give the sampler of SamplerARVideo, or use "
            "SamplerCustomAdvanced and VAEDecodeVideo"
        )
    if not isinstance(vae, VideoVae):
        raise ValueError("this VAE is of a model for pictures: give that of a video model")
    if latent_image.get("noise_mask") is not None:
        raise ValueError("a causal model makes a clip from its beginning on: a noise mask cannot be used with it")
    frames = RolloutFrames(guider, noise, sampler.rollout, sigmas, latent_image["samples"], vae)
    return Clip(frames, rate(fps), (lambda: audio) if audio is not None else silent)
