"""Wan's forward pass on diffusers' modules, extended by inputs that diffusers' ``forward`` lacks.

These are several control videos, a reference image before the video, camera motion, and one image where the network
takes two. Without them it equals diffusers' pass (tests/video/test_wan_vace.py, test_wan_fun.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def forward(
    network: Any,
    x: Tensor,
    timestep: Tensor,
    text: Tensor,
    *,
    vision: Tensor | None = None,
    follow: Sequence[Tensor] = (),
    strength: Tensor | None = None,
    reference: Tensor | None = None,
    camera: Tensor | None = None,
) -> Tensor:
    """Velocity of the video in the state.

    Several control videos work as in ComfyUI: each passes the control blocks on its own, and the hints of a layer are
    added, times their strengths.

    Args:
        network: WanTransformer3DModel or WanVACETransformer3DModel.
        x: State with concatenated channels, [B, C, T, H, W], of whole tokens.
        timestep: [B].
        text: Text states [B, L, D].
        vision: CLIP vision states [B, N, D]; for networks with positions for two images, one image is the first.
        follow: Control videos, each [B, C, T, H, W].
        strength: Their strengths, [B, videos].
        reference: Latent [B, C, H, W] of a reference image, placed in time before the video.
        camera: Output of the network's ``control_adapter``, [B, D, T, H, W] in tokens.
    """
    import torch

    tokens = network.patch_embedding(x)
    if camera is not None:
        tokens = tokens + camera
    grid, frames = tokens.shape[2:], x
    tokens = _rows(tokens)
    if reference is not None:
        tokens = torch.cat([_rows(network.ref_conv(reference)), tokens], 1)
        frames = torch.cat([x[:, :, :1], x], 2)
    positions, embedder = network.rope(frames), network.condition_embedder
    time, modulation, states, _ = embedder(timestep, text)
    if vision is not None:
        states = torch.cat([_of_pictures(embedder.image_embedder, vision), states], 1)
    arguments = (states, modulation.unflatten(1, (6, -1)), positions)
    first, controls = tokens, [_rows(network.vace_patch_embedding(latent)) for latent in follow]
    for layer, block in enumerate(network.blocks):
        tokens = block(tokens, *arguments)
        if controls and layer in network.config.vace_layers:
            control = network.vace_blocks[network.config.vace_layers.index(layer)]
            for i, latent in enumerate(controls):
                hint, controls[i] = control(first, states, latent, *arguments[1:])
                assert strength is not None
                tokens = tokens + hint * strength[:, i, None, None].to(hint)
    shift, scale = (network.scale_shift_table.to(time.device) + time[:, None]).chunk(2, 1)
    tokens = (network.norm_out(tokens.float()) * (1 + scale) + shift).type_as(tokens)
    velocity = network.proj_out(tokens)[:, -grid.numel() :]  # the picture of reference has no place in the result
    return _pixels(velocity, grid, network.config.patch_size)


def _rows(embedded: Tensor) -> Tensor:
    """Flatten the output of a patch embedding [B, D, ...] to tokens [B, N, D]."""
    return embedded.flatten(2).transpose(1, 2).contiguous()


def _of_pictures(embedder: Any, vision: Tensor) -> Tensor:
    """CLIP vision states as tokens that are concatenated to the text."""
    if embedder.pos_embed is not None:
        vision = vision + embedder.pos_embed[:, : vision.shape[1]]
    out: Tensor = embedder.norm2(embedder.ff(embedder.norm1(vision)))
    return out


def _pixels(tokens: Tensor, grid: Sequence[int], patch: Sequence[int]) -> Tensor:
    """Unpatchify tokens [B, N, patch * C] to a state [B, C, T, H, W]."""
    parts: Tensor = tokens.unflatten(2, (*patch, -1)).unflatten(1, tuple(grid))
    return parts.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)
