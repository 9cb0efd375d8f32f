"""MiniMax-H3's layers in ComfyUI's files, where they differ from diffusers' classes.

*Pruned* networks have a table of curves in the place of what embeds the time: c(t), between the nearest of some points
of 0..1, is what the modulations are linear in. The VAE of sound has its weights as they are, not as length and
direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Curves(nn.Module):
    """Timesteps [M] in 0..1 to embeddings [M, D] from a table."""

    def __init__(self, points: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(points, width))

    def forward(self, times: Tensor) -> Tensor:
        last = len(self.table) - 1
        at = times.float().clamp(0, 1) * last
        low = at.long().clamp(max=last - 1)
        return torch.lerp(self.table[low], self.table[low + 1], (at - low)[:, None])


class _Times(nn.Module):
    """Passes timesteps through, in place of diffusers' sinusoidal embedding."""

    def forward(self, times: Tensor) -> Tensor:
        return times


class _Modulation(nn.Module):
    """diffusers' block modulation applied to the embeddings in float32."""

    def __init__(self, inner: nn.Module, like: nn.Module) -> None:
        super().__init__()
        self.linear: Any = inner.linear
        self._like = (like,)  # not a part of this one

    def forward(self, curves: Tensor) -> tuple[Tensor, ...]:
        weight: Any = self._like[0].weight
        rows: Tensor = self.linear(curves.float()).to(weight.dtype)
        return rows.view(len(curves) * 3, -1).chunk(6, -1)


class _LastModulation(nn.Module):
    """diffusers' final norm applied to the embeddings."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm: Any = inner.norm
        self.linear: Any = inner.linear

    def forward(self, x: Tensor, curves: Tensor, which: Tensor) -> Tensor:
        shift, scale = self.linear(curves.float()).to(x.dtype).chunk(2, -1)
        out: Tensor = self.norm(x) * (1 + scale.index_select(0, which)) + shift.index_select(0, which)
        return out


class _SoundAttention:
    """Attention of the audio VAE that calls the qkv layer as a module, unlike diffusers'."""

    _attention_backend: Any = None
    _parallel_config: Any = None

    def __call__(self, attn: Any, x: Tensor) -> Tensor:
        from diffusers.models.attention_dispatch import dispatch_attention_fn

        both = attn.qkv(x) + torch.cat((attn.q_bias, attn.zero_k_bias, attn.v_bias))
        q, k, v = both.unflatten(-1, (3, attn.num_heads, -1)).unbind(2)
        attended = dispatch_attention_fn(q, k, v, is_causal=True, backend=self._attention_backend)
        out: Tensor = attn.proj(nn.functional.adaptive_avg_pool1d(attended.mean(2), attn.out_dim))
        return out


def adapt(network: Any, config: Mapping[str, Any]) -> None:
    """Replace layers of an empty diffusers network by those its config asks for, in place."""
    if points := config.get("curve_points"):
        network.time_proj, network.time_embedder = _Times(), Curves(points, config["time_embed_dim"])
        for block in network.transformer_blocks:
            block.adaln_proj = _Modulation(block.adaln_proj, block.norm1)
        network.norm_out = _LastModulation(network.norm_out)
        network._keep_in_fp32_modules = [*network._keep_in_fp32_modules, "linear"]
    if hasattr(network, "pre_block"):
        network.pre_block.attn.set_processor(_SoundAttention())
    if config.get("statistics_in_file"):
        for name in ("latents_mean", "latents_std"):
            # Not register_buffer: diffusers' class answers to this name with its config.
            network._buffers[name] = torch.empty(config["latent_channels"])
    if config.get("folded"):
        for part in network.modules():
            if hasattr(part, "weight_g"):
                nn.utils.remove_weight_norm(part)
