"""HunyuanVideo 1.5: rectified flow on video latents [B, C, T, H, W] of a causal VAE, 16 pixels and 4 frames a cell.

Facts: the configs of hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v and its kin; the recipe equals
diffusers' HunyuanVideo15Pipeline and HunyuanVideo15ImageToVideoPipeline (tests/video/test_hunyuan_15.py). Text: states
of Qwen2.5-VL, and of ByT5 for quoted text in the prompt, both without padding. A first image comes as channels
concatenated to the latent (its latent, and 1 for known frames) and as hidden states of SigLIP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts, states_of_language_model
from ..encoders import BYT5
from . import video
from .networks import TRANSFORMER_15
from .siglip import SIGLIP
from .vae_networks import VAE_15

if TYPE_CHECKING:
    from torch import Tensor

    from ...sampling.model_sampling import ModelSampling

TEMPLATE: Final = (
    "<|im_start|>system\nYou are a helpful assistant. Describe the video by detailing the following aspects:"
    "         1. The main content and theme of the video."
    "         2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "         3. Actions, events, behaviors temporal relationships, physical movement changes of the objects."
    "         4. background environment, light, style and atmosphere."
    "         5. camera angles, movements, and transitions used in the video.<|im_end|>\n<|im_start|>user\n"
)
"""Template before the prompt, 108 tokens whose states are dropped.

The blanks that indent diffusers' source are tokens of it.
"""


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Noise levels: the scheduler's shift, default 7 as in ComfyUI; timestep = 1000 sigma."""
    from ...sampling.model_sampling import Flow

    return Flow(shift=float(scheduler.get("shift", 7.0)), multiplier=1000)


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states, vision states and channels to concatenate, for states of x's shape [B, C, T, H, W]."""
    config = network.config
    if config.use_meanflow:
        raise ValueError("this network is a super-resolution or few-step model of HunyuanVideo 1.5; not supported yet")
    if config.in_channels != 2 * x.shape[1] + 1:
        raise ValueError(
            f"this network reads {config.in_channels} channels, which is no latent of {x.shape[1]} with an image and "
            "a mask concatenated: is this its own VAE's latent (EmptyHunyuanVideo15Latent)?"
        )
    video.check_text(text, config.text_embed_dim)
    glyphs = extras.get("conditioning_byt5small")
    vision = extras.get("clip_vision_output")
    return Inputs(
        {
            "encoder_hidden_states": text,
            "encoder_hidden_states_2": _states("quoted text", glyphs, config.text_embed_2_dim, text),
            "image_embeds": _states("picture", None if vision is None else vision.last, config.image_embed_dim, text),
            "concat": _concat_channels(extras, x).to(text),
        }
    )


def _states(name: str, states: Tensor | None, width: int, like: Tensor) -> Tensor:
    """The states [B, T, width]; an empty [B, 0, width] without."""
    if states is None:
        return like.new_zeros(len(like), 0, width)
    if states.shape[-1] != width:
        raise ValueError(f"the {name} has {states.shape[-1]} numbers a token, this network reads {width}")
    return states.to(like)


def _concat_channels(extras: Mapping[str, Any], x: Tensor) -> Tensor:
    """Channels concatenated to the latent, [1, C + 1, T, H, W]: latents of known frames (else 0), mask (1 = known).

    ``concat_mask`` is 0 for known frames, as in ComfyUI, [1, 1, T, H, W].
    """
    import torch

    shape = x.shape[2:]
    image, mask = extras.get("concat_latent_image"), extras.get("concat_mask")
    if image is None:
        return x.new_zeros(1, x.shape[1] + 1, *shape)
    if image.shape[1:] != (x.shape[1], *shape):
        raise ValueError(
            f"the first images are a latent {list(image.shape[1:])}, the video is {[x.shape[1], *shape]}: "
            "make both with the same node"
        )
    known = x.new_ones(1, 1, *shape) if mask is None else (1 - mask).expand(-1, 1, *shape).to(x)
    return torch.cat([image.to(x) * known, known], 1)


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - video) of the state x [B, C, T, H, W] at timestep (1000 sigma) [B]."""
    import torch

    arguments = dict(inputs.batched)
    state = torch.cat([x, arguments.pop("concat").to(x)], 1)
    masks = {
        name: torch.ones(arguments[states].shape[:2], dtype=torch.bool, device=x.device)
        for name, states in (
            ("encoder_attention_mask", "encoder_hidden_states"),
            ("encoder_attention_mask_2", "encoder_hidden_states_2"),
        )
    }
    output: Tensor = network(hidden_states=state, timestep=timestep, **arguments, **masks, return_dict=False)[0]
    return output


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps at cfg 6, shift 7; 1280 x 720 or 848 x 480 by the network's size, 121 frames at 24 a second."""
    large = network.get("target_size", 640) > 640
    return {
        "steps": 20,
        "cfg": 6.0,
        "sampler_name": "euler",
        "scheduler": "simple",
        "shift": 7.0,
        "width": 1280 if large else 848,
        "height": 720 if large else 480,
        "length": 121,
        "fps": 24.0,
    }


HUNYUAN_VIDEO_15 = Family(
    id="hunyuan_video_15",
    title="HunyuanVideo 1.5",
    networks=(TRANSFORMER_15, VAE_15, BYT5, SIGLIP),
    files={"vae": ("hunyuanvideo15_vae_fp16.safetensors",)},
    latent=LatentFormat(channels=32, downscale=16, scale=1.03682, frames=4),
    encoders=(
        EncoderFacts(
            "qwen25_7b",
            models=("qwen2_5_vl", "qwen2_5_vl_text"),
            layers=(-3,),
            masked=True,
            limit=1000 + 108,
            drop=108,
            before=TEMPLATE,
            after="<|im_end|>\n<|im_start|>assistant\n",
            blank=" ",
            repos=(
                "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
                "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_t2v",
                "Qwen/Qwen-Image",
            ),
        ),
        EncoderFacts("byt5_small", kind="byt5", folder="text_encoder_2", limit=256, quoted=True),
    ),
    sampling=sampling,
    encode=states_of_language_model(second={"byt5_small": "conditioning_byt5small"}),
    prepare=prepare,
    call=call,
    reads=frozenset({"concat_latent_image"}),
    recommend=recommend,
)
