"""Wan 2.1 and 2.2: rectified flow on video latents [B, C, T, H, W] of a causal VAE, a frame and then four a cell.

Facts: the configs of Wan-AI/Wan2.1-T2V-14B-Diffusers and its kin; the recipe equals diffusers' WanPipeline and
WanImageToVideoPipeline (tests/video/test_wan.py). Text: UMT5's hidden states with masked padding, 0 beyond the prompt.
First (and last) images are channels concatenated to the latent: 4 mask channels, then their latent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts
from ..encoders import CLIP_VISION, UMT5
from .forward import forward
from .networks import TRANSFORMER
from .vae import MEAN, STD, VAE

if TYPE_CHECKING:
    from torch import Tensor

    from ...sampling.model_sampling import ModelSampling
    from ...text.encoder import Encoder
    from ...text.tokens import Tokens

UMT5_FILES = ("umt5_xxl_fp16.safetensors", "umt5_xxl_fp8_e4m3fn_scaled.safetensors")
TEXT_TOKENS = 512
"""Tokens of every prompt, including padding."""
MASK_CHANNELS = 4
"""Mask channels concatenated to the latent: one per frame in a latent frame; 1 = frame is given."""


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Noise levels: the scheduler's shift, default 8 as in ComfyUI; timestep = 1000 sigma."""
    from ...sampling.model_sampling import Flow

    return Flow(shift=float(scheduler.get("flow_shift", scheduler.get("shift", 8.0))), multiplier=1000)


def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
    """UMT5's hidden states [1, T, D], 0 for padding."""
    states = encoders["umt5xxl"].states(tokens["umt5xxl"]).clone()
    states[:, tokens["umt5xxl"].used :] = 0
    return states, {}


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states, vision states and channels to concatenate, for states of x's shape [B, C, T, H, W]."""
    config = network.config
    check_text(config, text)
    batched = {"encoder_hidden_states": text}
    wanted = config.in_channels - x.shape[1]
    if wanted:
        batched["concat"] = _concat_channels(network, extras, x, wanted).to(text)
    elif extras.get("control_latent") is not None:
        raise ValueError("this network follows no video (WanFunControlToVideo is for Wan's Fun Control models)")
    elif extras.get("concat_latent_image") is not None:
        raise ValueError(
            "this is a text-to-video network: it takes no first image (use an i2v model, or "
            "Wan22ImageToVideoLatent for the 5B model)"
        )
    batched |= _of_fun_models(network, extras, x, text)
    vision = extras.get("clip_vision_output")
    if config.image_dim is not None:
        batched |= _vision_states(config, text, vision)
    elif vision is not None:
        raise ValueError("this network reads nothing of a CLIP vision model: leave clip_vision_output unconnected")
    return Inputs(batched)


def check_text(config: Any, text: Tensor) -> None:
    """ValueError if the text states have the wrong width."""
    if text.shape[-1] != config.text_dim:
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {config.text_dim}: is this its own "
            "text encoder?"
        )


def padded(network: Any, x: Tensor) -> Tensor:
    """Pad a state [B, C, T, H, W] to whole tokens at right and bottom by wrapping around."""
    import torch.nn.functional as F

    _, rows, columns = network.config.patch_size
    h, w = x.shape[-2:]
    return F.pad(x, (0, -w % columns, 0, -h % rows, 0, 0), mode="circular") if h % rows or w % columns else x


def _vision_states(config: Any, text: Tensor, vision: Any) -> dict[str, Tensor]:
    """Text states [B, 512, D] and CLIP vision states, for networks that attend to both (Wan 2.1 image to video).

    diffusers' attention takes the last 512 tokens for the text.
    """
    import torch.nn.functional as F

    if vision is None:
        raise ValueError(
            "this network reads CLIP vision states of the first image: connect CLIPVisionEncode to "
            "clip_vision_output (of WanFirstLastFrameToVideo: one for each image)"
        )
    states = vision.penultimate.to(text)
    if states.shape[-1] != config.image_dim:
        raise ValueError(
            f"the CLIP vision model's states have {states.shape[-1]} numbers a token, this network reads "
            f"{config.image_dim}: it wants clip_vision_h"
        )
    if config.pos_embed_seq_len not in (None, states.shape[1], 2 * states.shape[1]):
        raise ValueError(
            f"this network reads CLIP vision's {config.pos_embed_seq_len} tokens of a first and a last image, or "
            f"half as many of one, there are {states.shape[1]}: connect a CLIPVisionEncode for each image to "
            "WanFirstLastFrameToVideo"
        )
    padded = F.pad(text, (0, 0, 0, TEXT_TOKENS - text.shape[1]))
    return {"encoder_hidden_states": padded, "encoder_hidden_states_image": states}


def _concat_channels(network: Any, extras: Mapping[str, Any], x: Tensor, channels: int) -> Tensor:
    """Channels concatenated to the latent, [1, channels, T, H, W], for Wan and its Fun models.

    In this order: control video, mask of known frames, latents of known frames; 0 where there is none.
    ``concat_mask`` is 0 for known frames, as in ComfyUI, [1, 1 or 4, T, H, W].
    """
    import torch

    c = x.shape[1]
    layouts = {
        MASK_CHANNELS + c: ("mask", "concat_latent_image"),
        2 * c: ("control_latent", "concat_latent_image"),
        MASK_CHANNELS + 2 * c: ("control_latent", "mask", "concat_latent_image"),
    }
    if hasattr(network, "control_adapter"):
        layouts[c] = ("concat_latent_image",)
    if channels not in layouts:
        raise ValueError(f"this network reads {channels} channels concatenated to a latent of {c}; not supported yet")
    layout = layouts[channels]
    if extras.get("control_latent") is not None and "control_latent" not in layout:
        raise ValueError("this network follows no video (control_video is for Wan's Fun Control models)")
    parts = []
    for name in layout:
        if name == "mask":
            free = extras.get("concat_mask")
            free = x.new_ones(1, 1, *x.shape[2:]) if free is None else free
            part = (1 - free).expand(-1, MASK_CHANNELS, *free.shape[2:])
        else:
            part = x.new_zeros(1, *x.shape[1:]) if extras.get(name) is None else extras[name]
        parts.append(part.to(x))
    for name, part in zip(layout, parts, strict=True):
        if part.shape[2:] != x.shape[2:] or (name != "mask" and part.shape[1] != c):
            subject = "video to follow is" if name == "control_latent" else "first images are"
            raise ValueError(
                f"the {subject} a latent {list(part.shape[1:])}, the video is {list(x.shape[1:])}: make both with the "
                "same node"
            )
    return torch.cat(parts, 1)


def _of_fun_models(network: Any, extras: Mapping[str, Any], x: Tensor, text: Tensor) -> dict[str, Tensor]:
    """Reference image latent [1, C, H, W] and camera tokens [1, D, T, H, W], if the network has layers for them.

    The camera's entry is [1, 24, T, 8 H, 8 W].
    """
    batched = {}
    if (picture := extras.get("reference_latent")) is not None:
        if not hasattr(network, "ref_conv"):
            raise ValueError("this network reads no reference image: leave ref_image unconnected")
        if picture.shape[1] != x.shape[1] or picture.shape[3:] != x.shape[3:]:
            raise ValueError(
                f"the reference image is a latent {list(picture.shape[1:])}, the video is {list(x.shape[1:])}: "
                "make both with the same node"
            )
        batched["reference"] = padded(network, picture)[:, :, 0].to(text)
    if (camera := extras.get("camera")) is not None:
        if not hasattr(network, "control_adapter"):
            raise ValueError(
                "this network knows no camera: leave camera_conditions unconnected, or use a Fun Camera model"
            )
        wanted = [*x.shape[2:3], *(n * 8 for n in x.shape[3:])]
        if list(camera.shape[2:]) != wanted:
            raise ValueError(
                f"the camera is of {list(camera.shape[2:])} latent frames, rows and columns, the video of {wanted}: "
                "connect WanCameraEmbedding's width, height and length"
            )
        batched["camera"] = network.control_adapter(camera.to(text))
    return batched


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - video) of the state x [B, C, T, H, W] at timestep (1000 sigma) [B] or [B, 1, T, H, W]."""
    import torch

    arguments = dict(inputs.batched)
    channels = arguments.pop("concat", None)
    state = padded(network, x if channels is None else torch.cat([x, channels], 1))
    vision, places = arguments.get("encoder_hidden_states_image"), network.config.pos_embed_seq_len
    one_of_two = places and vision is not None and vision.shape[1] < places
    if one_of_two or "reference" in arguments or "camera" in arguments:
        if timestep.ndim > 1:
            raise ValueError("a reference image and a noise_mask cannot be used together")
        out = forward(
            network,
            state,
            timestep,
            arguments["encoder_hidden_states"],
            vision=vision,
            reference=arguments.get("reference"),
            camera=arguments.get("camera"),
        )
        return out[..., : x.shape[-2], : x.shape[-1]]
    if places and vision is not None:  # diffusers wants the two pictures as two rows
        arguments["encoder_hidden_states_image"] = vision.unflatten(1, (2, -1)).flatten(0, 1)
    if timestep.ndim > 1:  # one for each token: that of its first cell
        _, rows, columns = network.config.patch_size
        timestep = timestep[:, 0, :, ::rows, ::columns].flatten(1)
    output: Tensor = network(hidden_states=state, timestep=timestep, **arguments, return_dict=False)[0]
    return output[..., : x.shape[-2], : x.shape[-1]]


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """30 steps of UniPC at cfg 6, shift 8; 832 x 480, 33 frames at 16 a second."""
    return {
        "steps": 30,
        "cfg": 6.0,
        "sampler_name": "uni_pc",
        "scheduler": "simple",
        "shift": 8.0,
        "width": 832,
        "height": 480,
        "length": 33,
        "fps": 16.0,
        "parallel": not {"vace_layers", "reference_channels", "camera_channels"} & network.keys(),
    }


WAN = Family(
    id="wan",
    title="Wan",
    networks=(TRANSFORMER, VAE, UMT5, CLIP_VISION),
    files={"vae": ("wan_2.1_vae.safetensors",), "umt5": UMT5_FILES},
    latent=LatentFormat(channels=16, downscale=8, patch=2, frames=4, mean=MEAN, std=STD),
    encoders=(
        EncoderFacts("umt5xxl", kind="umt5", folder="text_encoder", pad_to=TEXT_TOKENS, limit=TEXT_TOKENS, masked=True),
    ),
    repos=("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "Wan-AI/Wan2.1-T2V-14B-Diffusers", "Wan-AI/Wan2.2-T2V-A14B-Diffusers"),
    sampling=sampling,
    encode=encode,
    prepare=prepare,
    call=call,
    reads=frozenset({"concat_latent_image"}),
    recommend=recommend,
)
