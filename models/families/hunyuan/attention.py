"""Attention of HunyuanVideo's networks and autoencoders on the kernel layer, without masks.

diffusers tells attention of padding by masks, in 1.5 by one of queries times keys, which for a video takes gigabytes.
Text comes without padding here, so all tokens attend to all.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from diffusers.models.attention_processor import AttnProcessor2_0
from diffusers.models.transformers.transformer_hunyuan_video import HunyuanVideoAttnProcessor2_0
from diffusers.models.transformers.transformer_hunyuan_video15 import HunyuanVideo15AttnProcessor2_0
from torch import Tensor

from pipegraph.kernels.hooks.diffusers import LayerAttnProcessor

from .vae import attend_15, middle_1

_WHOLE = {"HunyuanVideo15AttnBlock": attend_15, "HunyuanVideoMidBlock3D": middle_1}
"""Replacements for attention blocks of autoencoders."""


class JointAttention(HunyuanVideoAttnProcessor2_0):  # type: ignore[misc]
    """Joint attention of video and text in both versions; the mask is ignored."""

    attends = "video and text"
    """Read by ``hooks.diffusers.attended``."""

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        image_rotary_emb: Any = None,
    ) -> Any:
        """Hidden states of video and text [B, S, C] in and out."""
        return super().__call__(attn, hidden_states, encoder_hidden_states, None, image_rotary_emb)


class TextAttention(LayerAttnProcessor):
    """Self-attention of text; the mask is ignored."""

    def __call__(self, attn: Any, hidden_states: Tensor, *args: Any, attention_mask: Any = None, **rest: Any) -> Tensor:
        """Hidden states [B, S, C] in and out."""
        return super().__call__(attn, hidden_states, *args, **rest)


def install(network: Any) -> None:
    """Replace a transformer's or autoencoder's attention, in place."""
    for part in network.modules():
        if whole := _WHOLE.get(type(part).__name__):
            part.forward = partial(whole, part)
        processor = getattr(part, "processor", None)
        if isinstance(processor, HunyuanVideoAttnProcessor2_0 | HunyuanVideo15AttnProcessor2_0):
            part.set_processor(JointAttention())
        elif type(processor) is AttnProcessor2_0 and "Transformer" in type(network).__name__:
            part.set_processor(TextAttention())
