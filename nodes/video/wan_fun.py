"""Clips of Wan's Fun models: between two pictures, along another clip, seen by a camera that moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, StartImage, VideoCount
from ..utils.amounts import latents
from ..wire import ClipVisionOutput, Image, WanCamera
from .latent import Height, Length, Width
from .wan import Begun, begun, empty, fitted, wan_first_last_frame_to_video

if TYPE_CHECKING:
    from torch import Tensor

Pose = Literal[
    "Static",
    "Pan Up",
    "Pan Down",
    "Pan Left",
    "Pan Right",
    "Zoom In",
    "Zoom Out",
    "Anti Clockwise (ACW)",
    "ClockWise (CW)",
]
Share = Annotated[float, Ge(0), Le(1), Step(0.01)]
Focus = Annotated[float, Ge(0.000000001), Le(1), Step(0.000000001)]


@outputs
class CameraOutputs:
    """How a camera moves, and the size of the clip that it is told for."""

    camera_embedding: WanCamera
    width: int
    height: int
    length: int


@node("WanFunInpaintToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_fun_inpaint_to_video(
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
    end_image: Image | None = None,
) -> Begun:
    """Let a clip begin, end, or begin and end with given pictures, for Wan's Fun InP models.

    Args:
        clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
        end_image: The last frames; scaled likewise.
    """
    return wan_first_last_frame_to_video(
        positive,
        negative,
        vae,
        ctx,
        width,
        height,
        length,
        batch_size,
        clip_vision_start_image=clip_vision_output,
        start_image=start_image,
        end_image=end_image,
    )


@node("WanFunControlToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_fun_control_to_video(
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
    control_video: Image | None = None,
) -> Begun:
    """Let a clip follow another one, for Wan 2.1's Fun Control models.

    Args:
        clip_vision_output: What a vision model sees in the first picture.
        control_video: The clip to follow: edges, depths or poses, a frame each; what lacks is made freely.
    """
    size = (width, height, length)
    extras = {
        "concat_latent_image": _beginning(vae, start_image, size, ctx),
        "control_latent": _beginning(vae, control_video, size, ctx),
        "clip_vision_output": clip_vision_output,
    }
    return begun(positive, negative, extras, vae, *size, batch_size)


@node("Wan22FunControlToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan22_fun_control_to_video(
    positive: PositiveConditioning,
    negative: NegativeConditioning,
    vae: ModelVae,
    ctx: RunContext,
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    batch_size: VideoCount = 1,
    ref_image: Image | None = None,
    control_video: Image | None = None,
) -> Begun:
    """Let a clip follow another one and show what is in a picture, for Wan 2.2's Fun Control models.

    Args:
        width: Of the frames, in pixels; a multiple of 32 for the 5B model.
        height: Of the frames, in pixels; a multiple of 32 for the 5B model.
        ref_image: What is to be seen; scaled to cover the size and cut at the centre. Of several the first counts.
        control_video: The clip to follow: edges, depths or poses, a frame each; what lacks is made freely.
    """
    picture = None
    if ref_image is not None:
        picture = vae.encode(fitted(ref_image, width, height, 1, ctx), ctx.warn)
    extras = {
        "control_latent": _beginning(vae, control_video, (width, height, length), ctx),
        "reference_latent": picture,
    }
    return begun(positive, negative, extras, vae, width, height, length, batch_size)


@node("WanCameraEmbedding", category="camera")
def wan_camera_embedding(
    camera_pose: Pose = "Static",
    width: Width = 832,
    height: Height = 480,
    length: Length = 81,
    speed: Annotated[float, Ge(0), Le(10), Step(0.1)] = 1.0,
    fx: Focus = 0.5,
    fy: Focus = 0.5,
    cx: Share = 0.5,
    cy: Share = 0.5,
) -> CameraOutputs:
    """Say how the camera moves, evenly and from the first frame to the last.

    Args:
        camera_pose: Where it goes or how it turns.
        speed: How far; 1 is a turn by 60 degrees.
        fx: Focal length in widths of a picture of 16:9.
        fy: Focal length in heights of a picture of 16:9.
        cx: Where the camera looks, in widths from the left.
        cy: Where the camera looks, in heights from the top.
    """
    from pipegraph.models.families.wan.fun import camera_rays

    rays = camera_rays(camera_pose, width, height, length, speed, (fx, fy), (cx, cy))
    return CameraOutputs(rays, width, height, length)


@node("WanCameraImageToVideo", category="conditioning/video_models", size=latents(16, 8, 4))
def wan_camera_image_to_video(
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
    camera_conditions: WanCamera | None = None,
) -> Begun:
    """Let a clip begin with a picture and be seen by a camera that moves, for Wan's Fun Camera models.

    Args:
        clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
        camera_conditions: How the camera moves, of a clip of the same size and length.
    """
    import torch

    extras: dict[str, Any] = {"clip_vision_output": clip_vision_output, "camera": camera_conditions}
    if start_image is not None:
        given = _beginning(vae, start_image, (width, height, length), ctx)
        mask = torch.ones(1, 4, *given.shape[2:])
        # One a frame, and three more before the first: its latent cell is as long as the others'.
        count = min(len(start_image), length) + 3
        mask[:, :, : count // 4] = 0
        mask[:, : count % 4, count // 4 : count // 4 + 1] = 0
        extras |= {"concat_latent_image": given, "concat_mask": mask}
    return begun(positive, negative, extras, vae, width, height, length, batch_size)


def _beginning(vae: Any, image: Tensor | None, size: tuple[int, int, int], ctx: RunContext) -> Any:
    """The latent of a clip that begins with pictures, width x height x length; 0 to the network after them."""
    if image is None:
        return None
    width, height, length = size
    found = vae.encode(fitted(image, width, height, length, ctx), ctx.warn)
    latent = vae.latent.process_out(empty(vae, *size))
    latent[:, :, : found.shape[2]] = found
    return latent
