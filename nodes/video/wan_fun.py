"""Wan's Fun models: inpainting between images, control video, camera control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import RunContext, Step, node, outputs

from ..ports import ModelVae, NegativeConditioning, PositiveConditioning, StartImage, VideoCount
from ..utils.amounts import latents
from ..wire import ClipVisionOutput, Image, WanCamera
from .latent import Height, Length, Width
from .wan import VideoConditioning, conditioned, empty, fit_frames, wan_first_last_frame_to_video

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
    """A camera motion, and the size of its video."""

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
) -> VideoConditioning:
    """Start a video with images, end it with images, or both, for Wan's Fun InP models.

    Args:
        clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
        end_image: Last frames; scaled likewise.
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
) -> VideoConditioning:
    """Follow a control video, for Wan 2.1's Fun Control models.

    Args:
        clip_vision_output: CLIP vision output of the first image.
        control_video: Edges, depths or poses, one per frame; missing frames at the end are free.
    """
    size = (width, height, length)
    extras = {
        "concat_latent_image": _beginning(vae, start_image, size, ctx),
        "control_latent": _beginning(vae, control_video, size, ctx),
        "clip_vision_output": clip_vision_output,
    }
    return conditioned(positive, negative, extras, vae, *size, batch_size)


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
) -> VideoConditioning:
    """Follow a control video and a reference image, for Wan 2.2's Fun Control models.

    Args:
        width: Frame width in pixels; a multiple of 32 for the 5B model.
        height: Frame height in pixels; a multiple of 32 for the 5B model.
        ref_image: Reference image; scaled to cover the size and cropped at the centre. The first of several is used.
        control_video: Edges, depths or poses, one per frame; missing frames at the end are free.
    """
    reference = None
    if ref_image is not None:
        reference = vae.encode(fit_frames(ref_image, width, height, 1, ctx), ctx.warn)
    extras = {
        "control_latent": _beginning(vae, control_video, (width, height, length), ctx),
        "reference_latent": reference,
    }
    return conditioned(positive, negative, extras, vae, width, height, length, batch_size)


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
    """Make a camera motion, at constant speed from the first frame to the last.

    Args:
        camera_pose: Direction of the motion.
        speed: Amount of motion; 1 is a turn by 60 degrees.
        fx: Focal length in widths of an image of 16:9.
        fy: Focal length in heights of an image of 16:9.
        cx: Principal point in widths from the left.
        cy: Principal point in heights from the top.
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
) -> VideoConditioning:
    """Start a video with an image and move the camera, for Wan's Fun Camera models.

    Args:
        clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
        camera_conditions: Camera motion for the same size and length.
    """
    import torch

    extras: dict[str, Any] = {"clip_vision_output": clip_vision_output, "camera": camera_conditions}
    if start_image is not None:
        start = _beginning(vae, start_image, (width, height, length), ctx)
        mask = torch.ones(1, 4, *start.shape[2:])
        # One mask value per frame, and three more before the first, whose latent frame holds one frame.
        count = min(len(start_image), length) + 3
        mask[:, :, : count // 4] = 0
        mask[:, : count % 4, count // 4 : count // 4 + 1] = 0
        extras |= {"concat_latent_image": start, "concat_mask": mask}
    return conditioned(positive, negative, extras, vae, width, height, length, batch_size)


def _beginning(vae: Any, image: Tensor | None, size: tuple[int, int, int], ctx: RunContext) -> Any:
    """Latent of a video of width x height x length that starts with images; 0 to the network after them."""
    if image is None:
        return None
    width, height, length = size
    start = vae.encode(fit_frames(image, width, height, length, ctx), ctx.warn)
    latent = vae.latent.process_out(empty(vae, *size))
    latent[:, :, : start.shape[2]] = start
    return latent
