"""Wan 2.2's 5B network (TI2V), and VACE, which is controlled by a video.

The 5B model has its own VAE, 48 channels of 16 x 16 pixels, and takes a timestep per token: known frames are clean in
the state. VACE (arXiv 2503.07598) also reads a control video in two parts, kept (inactive) and repainted (reactive),
with the mask between them, 8 x 8 mask pixels per latent cell.
Facts: the configs of Wan-AI/Wan2.2-TI2V-5B-Diffusers and Wan-AI/Wan2.1-VACE-14B-diffusers; the recipes equal those of
diffusers' WanPipeline, WanImageToVideoPipeline and WanVACEPipeline (tests/video/test_wan_5b.py, test_wan_vace.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...family import Inputs, LatentFormat
from ..encoders import UMT5
from .family import UMT5_FILES, WAN, check_text, padded, recommend
from .forward import forward
from .networks import TRANSFORMER, VACE
from .vae import MEAN_48, STD_48, VAE

if TYPE_CHECKING:
    from torch import Tensor


def prepare_vace(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states and control videos, for states of x's shape [B, C, T, H, W]."""
    import torch

    config, shape = network.config, x.shape[2:]
    check_text(config, text)
    if not extras.get("vace_mask"):
        raise ValueError("this network (VACE) wants a video to follow: connect WanVaceToVideo, with or without one")
    controls = list(zip(extras["vace_inactive"], extras["vace_reactive"], extras["vace_mask"], strict=True))
    for number, parts in enumerate(controls, 1):
        if parts[0].shape[2:] != shape:
            which = f" of WanVaceToVideo {number} of {len(controls)}" if len(controls) > 1 else ""
            raise ValueError(
                f"the video to follow{which} has {list(parts[0].shape[2:])} latent cells, the state {list(shape)}: "
                "use the latent of WanVaceToVideo, and the same size, length and batch size in each"
            )
    # [1, videos, C, T, H, W]
    control = torch.stack([torch.cat([p.to(x.device) for p in parts], 1) for parts in controls], 1)
    if control.shape[2] != config.vace_in_channels:
        raise ValueError(f"this network reads {config.vace_in_channels} channels of a video, not {control.shape[2]}")
    strength = text.new_tensor([extras["vace_strength"]])
    return Inputs({"encoder_hidden_states": text, "follow": control.to(text), "strength": strength})


def call_vace(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - video) of the state x [B, C, T, H, W] at timestep (1000 sigma) [B]."""
    batched = inputs.batched
    follow = [padded(network, latent) for latent in batched["follow"].unbind(1)]
    text, strength = batched["encoder_hidden_states"], batched["strength"]
    output = forward(network, padded(network, x), timestep, text, follow=follow, strength=strength)
    return output[..., : x.shape[-2], : x.shape[-1]]


def _recommend_5b(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps of UniPC at cfg 5, shift 8; 1280 x 704, 121 frames at 24 a second."""
    return recommend(network) | {
        "steps": 20,
        "cfg": 5.0,
        "width": 1280,
        "height": 704,
        "length": 121,
        "fps": 24.0,
    }


WAN_5B = replace(
    WAN,
    id="wan_5b",
    title="Wan 2.2 5B",
    networks=(
        replace(TRANSFORMER, fits=lambda config: config.get("out_channels") == len(MEAN_48)),
        VAE,
        UMT5,
    ),
    files={"vae": ("wan2.2_vae.safetensors",), "umt5": UMT5_FILES},
    latent=LatentFormat(channels=len(MEAN_48), downscale=16, patch=2, frames=4, mean=MEAN_48, std=STD_48),
    repos=("Wan-AI/Wan2.2-TI2V-5B-Diffusers", *WAN.repos),
    token_times=True,
    recommend=_recommend_5b,
)
WAN_VACE = replace(
    WAN,
    id="wan_vace",
    title="Wan VACE",
    networks=(VACE, VAE, UMT5),
    repos=("Wan-AI/Wan2.1-VACE-14B-diffusers", "Wan-AI/Wan2.1-VACE-1.3B-diffusers", *WAN.repos),
    prepare=prepare_vace,
    call=call_vace,
)
