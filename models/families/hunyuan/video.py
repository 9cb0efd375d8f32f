"""HunyuanVideo: rectified flow on video latents [B, C, T, H, W]; dual- then single-stream blocks; embedded guidance.

Facts: the config of hunyuanvideo-community/HunyuanVideo; the recipe equals diffusers' HunyuanVideoPipeline
(tests/video/test_hunyuan.py). Text: states of Llama 3, without padding, and CLIP-L's pooled vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts, states_of_language_model
from ..encoders import CLIP_L
from .networks import TRANSFORMER
from .vae_networks import VAE

if TYPE_CHECKING:
    from torch import Tensor

    from ...sampling.model_sampling import ModelSampling

TEMPLATE: Final = (
    "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: "
    "1. The main content and theme of the video."
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the objects."
    "4. background environment, light, style and atmosphere."
    "5. camera angles, movements, and transitions used in the video:<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n"
)
"""Prompt template: 95 prefix tokens, whose hidden states are dropped."""
DEFAULT_GUIDANCE = 6.0
"""Embedded guidance without a FluxGuidance node."""


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Noise levels: the scheduler's shift, default 7; timestep = 1000 sigma."""
    from ...sampling.model_sampling import Flow

    return Flow(shift=float(scheduler.get("shift", 7.0)), multiplier=1000)


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text, pooled vector and guidance for states of x's shape [B, C, T, H, W]."""
    import torch

    config, pooled = network.config, extras.get("pooled_output")
    if pooled is None:
        raise ValueError("HunyuanVideo needs the pooled vector of a CLIP-L text encoder too: use DualCLIPLoader")
    if config.in_channels != x.shape[1] or config.image_condition_type:
        raise ValueError("this is HunyuanVideo image to video; not supported yet")
    check_text(text, config.text_embed_dim)
    if pooled.shape[-1] != config.pooled_projection_dim:
        raise ValueError(
            f"the pooled vector has {pooled.shape[-1]} numbers, this network reads {config.pooled_projection_dim}: is "
            "this its own CLIP?"
        )
    batched = {"encoder_hidden_states": text, "pooled_projections": pooled.to(text)}
    if config.guidance_embeds:
        guidance = 1000 * float(extras.get("guidance", DEFAULT_GUIDANCE))
        batched["guidance"] = torch.full([len(text)], guidance, device=text.device, dtype=text.dtype)
    return Inputs(batched)


def check_text(text: Tensor, width: int) -> None:
    """Check the sizes of the text states before the first step."""
    if text.shape[-1] != width:
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {width}: is this its own text encoder?"
        )


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - video) of the state x [B, C, T, H, W] at timestep (1000 sigma) [B]."""
    import torch
    import torch.nn.functional as F

    patch, (h, w) = network.config.patch_size, x.shape[-2:]
    state = F.pad(x, (0, -w % patch, 0, -h % patch, 0, 0), mode="circular") if h % patch or w % patch else x
    text = inputs.batched["encoder_hidden_states"]
    mask = torch.ones(text.shape[:2], dtype=torch.bool, device=text.device)
    output: Tensor = network(
        hidden_states=state, timestep=timestep, encoder_attention_mask=mask, **inputs.batched, return_dict=False
    )[0]
    return output[..., :h, :w]


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps, guidance 6, no CFG; 848 x 480, 73 frames at 24 a second, as ComfyUI's template has it."""
    return {
        "steps": 20,
        "cfg": 1.0,
        "guidance": DEFAULT_GUIDANCE,
        "sampler_name": "euler",
        "scheduler": "simple",
        "shift": 7.0,
        "width": 848,
        "height": 480,
        "length": 73,
        "fps": 24.0,
    }


HUNYUAN_VIDEO = Family(
    id="hunyuan_video",
    title="HunyuanVideo",
    networks=(TRANSFORMER, VAE, CLIP_L),
    files={"vae": ("hunyuan_video_vae_bf16.safetensors",)},
    latent=LatentFormat(channels=16, downscale=8, scale=0.476986, patch=2, frames=4),
    encoders=(
        EncoderFacts(
            "llama",
            models=("llama",),
            layers=(-3,),
            masked=True,
            limit=256 + 95,
            drop=95,
            before=TEMPLATE,
            after="<|eot_id|>",
            repos=("hunyuanvideo-community/HunyuanVideo",),
        ),
        EncoderFacts("clip_l", kind="clip", folder="text_encoder_2", pad_to=77, limit=77),
    ),
    sampling=sampling,
    encode=states_of_language_model(pooled={"clip_l": "pooled_output"}),
    prepare=prepare,
    call=call,
    recommend=recommend,
)
