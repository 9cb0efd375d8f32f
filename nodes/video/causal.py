"""Generate videos chunk by chunk with causal video models (Self Forcing, CausVid, Causal Forcing)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Extra, RunContext, node, outputs

from ..ports import ModelVae, VideoCount
from ..utils.amounts import latents
from ..wire import Audio, Guider, Image, Latent, Model, Noise, Sampler, Sigmas, Vae, Video
from .components import Fps
from .latent import AnyHeight, AnyLength, AnyWidth, Height, Length, Width, empty_hunyuan_latent_video

Cells = Annotated[int, Ge(0), Le(4096)]
MoreCells = Annotated[Cells, Extra()]


@outputs
class Started:
    """A model with a first frame, and an empty latent of the video's size."""

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
    """Make an empty video latent.

    Args:
        width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
        height: Frame height in pixels, likewise.
        length: Number of frames: 1, 5, 9, ..., other numbers are rounded down. The (length - 1) / 4 + 1 latent frames
            must be whole blocks.
    """
    return empty_hunyuan_latent_video(ctx, width, height, length, batch_size)


@node("SamplerARVideo", category="sampling/custom_sampling/samplers", title="Sampler AR Video")
def sampler_ar_video(
    num_frame_per_block: Annotated[int, Ge(1), Le(64)] = 1, window: MoreCells = 0, sink: MoreCells = 0
) -> Sampler:
    """Sample a video block by block with a causal Wan model; each block attends to the blocks before it.

    Every block runs through all sigmas, which end at 0; each step renoises the prediction (as `lcm`).

    Args:
        num_frame_per_block: Latent frames per block, as in training: 3 for Self Forcing and CausVid, 1 for framewise
            models.
        window: Latent frames a block attends to, including its own and the sink; 0: all. With a window, time and
            memory per block do not grow with the video's length.
        sink: First latent frames that every block attends to.
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
    """Start the videos of a causal text-to-video model with an image; for SamplerARVideo.

    Args:
        model: The model.
        vae: The model's VAE.
        start_image: First frame; scaled to cover the size and cropped at the centre.
        length: Number of frames, the first included: 1, 5, 9, ...
    """
    from pipegraph.models.media.image_ops import resize

    if len(start_image) > 1:
        ctx.warn(f"{len(start_image)} images: the video starts with the first")
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
    """Sample a causal model's video while it is saved: each block is sampled, decoded and passed on before the next.

    Reading the video twice computes it twice. A longer video starts like a shorter one of the same seed. (Frames differ
    from SamplerCustomAdvanced's of that seed, which draws the noise of the whole video at once.)

    Args:
        noise: Noise source.
        guider: Model and conditioning, without a negative (cfg 1).
        sampler: Sampler from SamplerARVideo.
        sigmas: Noise levels of each block, decreasing to 0.
        latent_image: Latent to start from; an empty one sets the size only.
        fps: Frames a second.
        audio: Audio; cut or padded with silence to the video's length.
    """
    from pipegraph.models.causal.rollout import RolloutSampler
    from pipegraph.models.causal.stream import RolloutFrames
    from pipegraph.models.media.video import Video as VideoValue
    from pipegraph.models.media.video import rate, silent
    from pipegraph.models.vae.video import VideoVae

    if not isinstance(sampler, RolloutSampler):
        raise ValueError(
            f"{sampler.name} samples a whole video at once: connect SamplerARVideo, or use "
            "SamplerCustomAdvanced and VAEDecodeVideo"
        )
    if not isinstance(vae, VideoVae):
        raise ValueError("this is an image VAE: connect the VAE of a video model")
    if latent_image.get("noise_mask") is not None:
        raise ValueError("a causal model samples a video from its start: noise masks are not supported")
    frames = RolloutFrames(guider, noise, sampler.rollout, sigmas, latent_image["samples"], vae)
    return VideoValue(frames, rate(fps), (lambda: audio) if audio is not None else silent)
