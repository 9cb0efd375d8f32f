"""Wan's networks that differ from the others: Wan 2.2's 5B (TI2V), and VACE, which follows a clip.

The 5B model has a VAE of its own, 48 channels of 16 x 16 pixels, and a noise level for each token: given frames are in
the state as they are. VACE (arXiv 2503.07598) reads, beside the state, a clip in two halves, what is kept (inactive)
and what is painted anew (reactive), and the mask between them, 8 x 8 pixels of it a latent cell.
Facts: the configs of Wan-AI/Wan2.2-TI2V-5B-Diffusers and Wan-AI/Wan2.1-VACE-14B-diffusers; the recipes equal those of
diffusers' WanPipeline, WanImageToVideoPipeline and WanVACEPipeline (tests/video/test_wan_5b.py, test_wan_vace.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..family import Inputs, LatentFormat
from .wan import WAN, check_text, padded, recommend
from .wan_forward import forward

if TYPE_CHECKING:
    from torch import Tensor

MEAN_48 = (
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, 0.0891,
    0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
    -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230, -0.0313, -0.1649, 0.0117, 0.0723,
    -0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667,
)  # fmt: skip
STD_48 = (
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
    0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
    0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
)  # fmt: skip
"""Of the latents of Wan 2.2's VAE, by channel."""


def prepare_vace(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text and the clips to follow, for states of x's shape [B, C, T, H, W]."""
    import torch

    config, shape = network.config, x.shape[2:]
    check_text(config, text)
    if not extras.get("vace_mask"):
        raise ValueError("this network (VACE) wants a clip to follow: connect WanVaceToVideo, with or without one")
    clips = list(zip(extras["vace_inactive"], extras["vace_reactive"], extras["vace_mask"], strict=True))
    for number, parts in enumerate(clips, 1):
        if parts[0].shape[2:] != shape:
            which = f" of WanVaceToVideo {number} of {len(clips)}" if len(clips) > 1 else ""
            raise ValueError(
                f"the clip to follow{which} has {list(parts[0].shape[2:])} latent cells, the state {list(shape)}: take "
                "the latent that WanVaceToVideo gives, and give each the same size, length and number of pictures"
            )
    # [1, clips, C, T, H, W]
    control = torch.stack([torch.cat([p.to(x.device) for p in parts], 1) for parts in clips], 1)
    if control.shape[2] != config.vace_in_channels:
        raise ValueError(f"this network reads {config.vace_in_channels} channels of a clip, not {control.shape[2]}")
    strength = text.new_tensor([extras["vace_strength"]])
    return Inputs({"encoder_hidden_states": text, "follow": control.to(text), "strength": strength})


def call_vace(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """The velocity noise - clip for the state x [B, C, T, H, W] at timestep (1000 sigma) [B]."""
    given = inputs.batched
    follow = [padded(network, clip) for clip in given["follow"].unbind(1)]
    text, strength = given["encoder_hidden_states"], given["strength"]
    output = forward(network, padded(network, x), timestep, text, follow=follow, strength=strength)
    return output[..., : x.shape[-2], : x.shape[-1]]


def _recommend_5b(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps of UniPC at cfg 5, shift 8; 1280 x 704, 121 frames at 24 a second."""
    return recommend(network) | {
        "steps": 20, "cfg": 5.0, "width": 1280, "height": 704, "length": 121, "fps": 24.0,
    }  # fmt: skip


WAN_5B = replace(
    WAN,
    id="wan_5b",
    title="Wan 2.2 5B",
    fits=lambda config: config.get("out_channels") == len(MEAN_48),
    latent=LatentFormat(channels=len(MEAN_48), downscale=16, patch=2, frames=4, mean=MEAN_48, std=STD_48),
    repos=("Wan-AI/Wan2.2-TI2V-5B-Diffusers", *WAN.repos),
    token_times=True,
    recommend=_recommend_5b,
)
WAN_VACE = replace(
    WAN,
    id="wan_vace",
    title="Wan VACE",
    network="WanVACETransformer3DModel",
    repos=("Wan-AI/Wan2.1-VACE-14B-diffusers", "Wan-AI/Wan2.1-VACE-1.3B-diffusers", *WAN.repos),
    prepare=prepare_vace,
    call=call_vace,
)
