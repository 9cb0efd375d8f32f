"""LTX-Video 0.9 to 0.9.8: rectified flow on video latents [B, 128, T, H, W], a token a cell of 32 x 32 pixels.

A latent frame is 8 frames, the first one a single frame. Facts: the configs of Lightricks/LTX-Video and its kin; the
recipe equals diffusers' LTXPipeline, LTXImageToVideoPipeline and LTXConditionPipeline (tests/video/test_ltx.py). Text:
T5's hidden states with masked padding. The network takes a timestep per token, so known frames are set by a noise mask.
Guide frames are appended to the video latent with their own positions. Latents are normalized by the VAE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts
from ..encoders import T5
from .networks import TRANSFORMER, UPSCALER, UPSCALER_2, unite
from .vae_networks import CELL, CHANNELS, FRAMES, VAE

if TYPE_CHECKING:
    from torch import Tensor

    from ...sampling.model_sampling import ModelSampling
    from ...text.encoder import Encoder
    from ...text.tokens import Tokens

DEFAULT_FPS = 25.0
"""Frame rate where the graph states none."""
DEFAULT_MU = 2.37
"""Shift of the noise levels as in ComfyUI; LTXVScheduler computes its own."""


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Noise levels: the scheduler's fixed shift, default mu 2.37; timestep = 1000 sigma."""
    from ...sampling.model_sampling import Flow

    if scheduler and not scheduler.get("use_dynamic_shifting", False):
        return Flow(shift=float(scheduler.get("shift", 1.0)), multiplier=1000)
    return Flow(shift=math.exp(DEFAULT_MU), multiplier=1000, entries=10_000)


def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
    """T5's hidden states [1, T, D] and the padding mask [1, T]."""
    import torch

    read = tokens["t5xxl"]
    return encoders["t5xxl"].states(read), {"attention_mask": (torch.arange(len(read.ids)) < read.used)[None]}


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states, mask and token positions, for states of x's shape [B, C, T, H, W]."""
    config = network.config
    if x.ndim != 5:
        raise ValueError(f"LTX-Video's latents are [batch, {CHANNELS}, time, height, width], not {list(x.shape)}")
    if x.shape[1] != config.in_channels:
        raise ValueError(f"this network reads {config.in_channels} channels, the latent has {x.shape[1]}")
    if text.shape[-1] != config.caption_channels:
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {config.caption_channels}: is this its "
            "own text encoder?"
        )
    mask = extras.get("attention_mask")
    mask = text.new_ones(1, text.shape[1]) if mask is None else mask.to(text)
    places = token_places(x, extras.get("keyframe_idxs"), causal=config.get("causal_temporal_positioning", False))
    places[:, 0] /= float(extras.get("frame_rate", DEFAULT_FPS))
    return Inputs({"encoder_hidden_states": text, "encoder_attention_mask": mask, "video_coords": places})


def token_places(x: Tensor, guides: Tensor | None, *, causal: bool) -> Tensor:
    """Position (frame, row, column in pixels) of each token of x [B, C, T, H, W]: float32 [1, 3, T * H * W].

    Args:
        x: The state; guides may follow the video.
        guides: Positions of the guides' tokens, [1, 3, n].
        causal: The first latent frame is one frame long.

    Raises:
        ValueError: the guides are not of this latent.
    """
    import torch

    t, h, w = x.shape[2:]
    places = cell_places(t, h, w, causal=causal).to(x.device)
    if guides is not None and guides.shape[2]:
        if guides.shape[2] % (h * w) or guides.shape[2] >= places.shape[2]:
            raise ValueError(
                f"the conditioning has guides of {guides.shape[2]} tokens, a frame of the latent has {h * w}: take "
                "conditioning and latent from the same LTXVAddGuide"
            )
        places = torch.cat([places[:, :, : -guides.shape[2]], guides.to(places)], 2)
    return places


def cell_places(frames: int, rows: int, columns: int, *, causal: bool) -> Tensor:
    """Start positions of latent cells, in frames and pixels: float32 [1, 3, frames * rows * columns]."""
    import torch

    time = torch.arange(frames, dtype=torch.float32) * FRAMES
    if causal:
        time = (time + 1 - FRAMES).clamp(min=0)
    sides = (torch.arange(n, dtype=torch.float32) * CELL for n in (rows, columns))
    return torch.stack(torch.meshgrid(time, *sides, indexing="ij")).reshape(1, 3, -1)


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - video) of the state x [B, C, T, H, W] at timestep (1000 sigma) [B] or [B, 1, T, H, W]."""
    output: Tensor = network(
        hidden_states=x.flatten(2).mT,
        timestep=timestep.flatten(1) if timestep.ndim > 1 else timestep,
        **inputs.batched,
        return_dict=False,
    )[0]
    return output.mT.reshape(x.shape)


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """30 steps of Euler at cfg 3; 768 x 512, 97 frames at 25 a second."""
    return {
        "steps": 30,
        "cfg": 3.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "base_shift": 0.95,
        "max_shift": 2.05,
        "width": 768,
        "height": 512,
        "length": 97,
        "fps": DEFAULT_FPS,
    }


LTXV = Family(
    id="ltxv",
    title="LTX-Video",
    networks=(TRANSFORMER, VAE, T5, UPSCALER, UPSCALER_2),
    files={"vae": ("ltxv_vae.safetensors",)},  # text encoders always come by CLIPLoader
    unite=unite,
    latent=LatentFormat(channels=CHANNELS, downscale=CELL, frames=FRAMES),
    encoders=(EncoderFacts("t5xxl", kind="t5", folder="text_encoder", pad_to=128, limit=256, masked=True),),
    repos=("Lightricks/LTX-Video",),
    sampling=sampling,
    encode=encode,
    prepare=prepare,
    call=call,
    token_times=True,
    recommend=recommend,
)
