"""Attention of Wan's networks and VAEs on the kernel layer."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from pipegraph.kernels.ops.attention import attention


def install(network: Any) -> None:
    """Replace an autoencoder's attention by the kernel layer's, in place."""
    for block in network.modules():
        if type(block).__name__ == "WanAttentionBlock":
            block.forward = partial(_attend, block)


def mark_self_attention(network: Any) -> None:
    """Mark self-attention of the video for the kernel layer."""
    for module in network.modules():
        if type(module).__name__ == "WanAttention" and not module.is_cross_attention:
            module.attends = "video"


def _attend(block: Any, x: Tensor) -> Tensor:
    """Forward of an attention block: each frame of x [B, C, T, H, W] attends to itself."""
    frames = x.movedim(2, 1).flatten(0, 1)
    q, k, v = block.to_qkv(block.norm(frames)).flatten(2).mT[:, None].chunk(3, dim=-1)
    y = block.proj(attention(q, k, v)[:, 0].mT.reshape(frames.shape))
    residual: Tensor = y.unflatten(0, (x.shape[0], x.shape[2])).movedim(1, 2)
    return x + residual
