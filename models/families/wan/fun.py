"""Layers of Wan's Fun models: reference image and camera motion.

Facts: the shapes and names in the files of alibaba-pai/Wan2.2-Fun-A14B-Control and -Control-Camera, and ComfyUI's
published behaviour. Camera motion is encoded as Plücker coordinates (o x d, d) of the ray through each
pixel, with direction d and camera position o, as in CameraCtrl (arXiv 2404.02101).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CELL: Final = 8
"""Pixels a latent cell is wide."""
POSES: Final = {
    "Static": ((0, 0, 0), (0, 0, 0)),
    "Pan Up": ((0, 0, 0), (0, -1, 0)),
    "Pan Down": ((0, 0, 0), (0, 1, 0)),
    "Pan Left": ((0, 0, 0), (-1, 0, 0)),
    "Pan Right": ((0, 0, 0), (1, 0, 0)),
    "Zoom In": ((0, 0, 0), (0, 0, 2)),
    "Zoom Out": ((0, 0, 0), (0, 0, -2)),
    "Anti Clockwise (ACW)": ((0, 0, -1), (0, 0, 0)),
    "ClockWise (CW)": ((0, 0, 1), (0, 0, 0)),
}
"""Rotation about x, y, z and translation (right, down, into the image) over a video at speed 1."""
_TURN, _WAY = math.pi / 3, 1.5
"""Units of POSES: radians and distance."""
_ASPECT = 1280 / 720
"""Aspect ratio of the images that focal lengths refer to."""


class CameraAdapter(nn.Module):
    """Encodes camera motion to tokens that are added to the video's."""

    def __init__(self, channels: int, width: int, patch: tuple[int, int]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels * CELL**2, width, patch, stride=patch)
        self.residual_blocks = nn.ModuleList([_Residual(width)])

    def forward(self, camera: Tensor) -> Tensor:
        """[B, C, T, H, W] in pixels to [B, D, T, h, w] in tokens."""
        frames = camera.transpose(1, 2)
        x = self.conv(F.pixel_unshuffle(frames.flatten(0, 1), CELL))
        for block in self.residual_blocks:
            x = block(x)
        return x.unflatten(0, frames.shape[:2]).transpose(1, 2)  # type: ignore[no-any-return]


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(F.relu(self.conv1(x)))  # type: ignore[no-any-return]


def extend(network: Any, config: Mapping[str, Any]) -> None:
    """Add the Fun layers of its config to a WanTransformer3DModel, in place."""
    width = config["num_attention_heads"] * config["attention_head_dim"]
    patch = tuple(config["patch_size"][1:])
    if channels := config.get("reference_channels"):
        network.ref_conv = nn.Conv2d(channels, width, patch, stride=patch)
    if channels := config.get("camera_channels"):
        network.control_adapter = CameraAdapter(channels, width, patch)


def camera_rays(
    pose: str,
    width: int,
    height: int,
    length: int,
    speed: float,
    focus: tuple[float, float],
    centre: tuple[float, float],
) -> Tensor:
    """Plücker rays of an evenly moving camera, [1, 24, (length + 3) / 4, height, width].

    The first frame stands for four.

    Args:
        pose: One of POSES.
        width: Frame width in pixels.
        height: Frame height in pixels.
        length: Frames, 4n + 1.
        speed: Factor of translation and rotation.
        focus: Focal lengths in widths and heights of a picture of 16:9.
        centre: Where the camera looks, in widths and heights.
    """
    turn, way = (torch.tensor(v, dtype=torch.float64) for v in POSES[pose])
    done = torch.arange(length, dtype=torch.float64)[:, None] / length * speed
    rotation, origin = _rotation(done * _TURN * turn), done * _WAY * way
    # Pictures of another aspect are cut out of those of 16:9: one focal length, in pixels, follows from the other side.
    wide, high = (height * _ASPECT, height) if width / height < _ASPECT else (width, width / _ASPECT)
    across = (torch.arange(width, dtype=torch.float64) + 0.5 - centre[0] * width) / (focus[0] * wide)
    down = (torch.arange(height, dtype=torch.float64) + 0.5 - centre[1] * height) / (focus[1] * high)
    ray = torch.stack(torch.broadcast_tensors(across, down[:, None], across.new_ones(())), 2)
    ray = ray / ray.norm(dim=2, keepdim=True)
    rays = torch.empty(6, 4, (length + 3) // 4, height, width)
    for frame, (place, turned) in enumerate(zip(origin, rotation, strict=True), 3):
        ray_of = (ray[:, :, None] * turned).sum(3)
        moment = torch.linalg.cross(place.expand_as(ray_of), ray_of)
        rays[:, frame % 4, frame // 4] = torch.cat([moment, ray_of], 2).movedim(2, 0)
    rays[:, :3, 0] = rays[:, 3:, 0]
    return rays.flatten(0, 1)[None]


def _rotation(angles: Tensor) -> Tensor:
    """Rotations [N, 3] about x, then y, then z, as matrices [N, 3, 3]."""
    total = torch.eye(3, dtype=angles.dtype).expand(len(angles), 3, 3)
    for axis in range(3):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        turn = torch.eye(3, dtype=angles.dtype).repeat(len(angles), 1, 1)
        turn[:, first, first] = turn[:, second, second] = angles[:, axis].cos()
        turn[:, second, first] = angles[:, axis].sin()
        turn[:, first, second] = -turn[:, second, first]
        total = turn @ total
    return total
