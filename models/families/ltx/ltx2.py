"""LTX-2: joint video and audio generation, rectified flow on video tokens and spectrogram tokens.

The joined latent is flat, [B, 1, N]: video [128, T, h, w], then audio [8, L, 16], with ``shapes`` in the LATENT. Facts:
the configs of Lightricks/LTX-2; the recipe equals diffusers' LTX2Pipeline (tests/video/test_ltx2.py). Text: what the
connectors make of Gemma 3's states, for the video and for the sound, side by side. Each token has a noise level of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts
from . import video
from .networks2 import AUDIO_VAE, CONNECTORS, TRANSFORMER, VAE, VOCODER, WIDER_VOCODER
from .vae_networks import CELL, CHANNELS, FRAMES

if TYPE_CHECKING:
    from torch import Tensor

    from ...text.encoder import Encoder
    from ...text.tokens import Tokens

Shapes = Sequence[Sequence[int]]
"""Shapes of the video and the audio latent, without batch."""
DEFAULT_FPS = 24.0
GEMMA = EncoderFacts(
    "gemma3_12b",
    models=("gemma3", "gemma3_text"),
    layers=(),
    masked=True,
    limit=1024,
    strip=True,
    repos=("Lightricks/LTX-2",),
)
"""Gemma 3: hidden states of all layers, of variable length."""


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Flatten and concatenate tensors [B, ...] to [B, 1, N]."""
    import torch

    return torch.cat([p.flatten(1) for p in parts], 1)[:, None]


def separated(row: Tensor, shapes: Shapes) -> list[Tensor]:
    """The inverse of :func:`joined`."""
    pieces = row[:, 0].split([prod(shape) for shape in shapes], 1)
    return [p.reshape(len(row), *shape) for p, shape in zip(pieces, shapes, strict=True)]


def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
    """Text states [1, T, D + E] for video and audio, concatenated."""
    if not encoders:
        raise ValueError("LTX-2's text encoder is no part of its checkpoint: load it with LTXAVTextEncoderLoader")
    [(name, encoder)] = encoders.items()
    return encoder.states(tokens[name]), {}


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states and positions of video and audio tokens, for states of x's shape [B, 1, N]."""
    import torch

    shapes, config = extras.get("latent_shapes"), network.config
    if shapes is None:
        raise ValueError("LTX-2 generates video and audio together: join their latents with LTXVConcatAVLatent")
    own = (config.in_channels, config.audio_in_channels)
    if (shapes[0][0], shapes[1][0] * shapes[1][2]) != own:
        raise ValueError(f"this network reads videos of {own[0]} channels and sound of {own[1]}, not {list(shapes)}")
    widths = [config.caption_channels] * 2
    if not config.use_prompt_embeddings:
        widths = [config.cross_attention_dim, config.audio_cross_attention_dim]
    if text.shape[-1] != sum(widths):
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {sum(widths)}: load its text encoder "
            "with LTXAVTextEncoderLoader"
        )
    (_, t, h, w), (_, length, _) = shapes
    fps = float(extras.get("frame_rate", DEFAULT_FPS))
    places = network.rope.prepare_video_coords(1, t, h, w, x.device, fps=fps)
    guides = extras.get("keyframe_idxs")
    if guides is not None and guides.shape[2]:
        places = torch.cat([places[:, :, : -guides.shape[2]], _cells(guides, fps).to(places)], 2)
    video, sound = text.split(widths, -1)
    mask = extras.get("attention_mask")
    mask = text.new_ones(1, text.shape[1]) if mask is None else mask.to(text)
    batched = {
        "encoder_hidden_states": video,
        "audio_encoder_hidden_states": sound,
        "encoder_attention_mask": mask,
        "audio_encoder_attention_mask": mask,
        "video_coords": places,
        "audio_coords": network.audio_rope.prepare_audio_coords(1, length, x.device),
    }
    return Inputs(batched, {"shapes": shapes})


def _cells(places: Tensor, fps: float) -> Tensor:
    """Start positions [1, 3, n] of guide cells as starts and ends [1, 3, n, 2], time in seconds."""
    import torch

    ends = places + places.new_tensor([FRAMES, CELL, CELL])[:, None]
    ends[:, 0] = torch.where(places[:, 0] == 0, 1, ends[:, 0])
    cells = torch.stack([places, ends], -1)
    cells[:, 0] /= fps
    return cells


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - latent) of the state x [B, 1, N] at timestep (1000 sigma) [B] or [B, 1, N]."""
    shapes = inputs.shared["shapes"]
    video, sound = separated(x, shapes)
    times = timestep, timestep
    if timestep.ndim > 1:
        of_clip, of_sound = separated(timestep, shapes)
        times = of_clip[:, 0].flatten(1), of_sound[:, 0, :, 0]
        timestep = timestep.amax((1, 2))
    velocity, heard = network(
        hidden_states=video.flatten(2).mT,
        audio_hidden_states=sound.transpose(1, 2).flatten(2),
        timestep=times[0],
        audio_timestep=times[1],
        sigma=timestep,
        use_cross_timestep=network.prompt_modulation,
        **inputs.batched,
        return_dict=False,
    )
    return joined([velocity.mT.reshape(video.shape), heard.unflatten(2, (shapes[1][0], -1)).transpose(1, 2)])


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps of Euler at cfg 4; 1280 x 704, 121 frames at 24 a second."""
    return video.recommend(network) | {
        "steps": 20,
        "cfg": 4.0,
        "width": 1280,
        "height": 704,
        "length": 121,
        "fps": DEFAULT_FPS,
    }


LTX2 = Family(
    id="ltx2",
    title="LTX-2",
    networks=(TRANSFORMER, VAE, AUDIO_VAE, VOCODER, WIDER_VOCODER, CONNECTORS),
    files={"vae": ("ltx-2-video-vae.safetensors",)},
    not_loaded={
        "vision_model_": "the vision tower (not loaded)",
        "multi_modal_projector_": "the vision tower (not loaded)",
        "video_embeddings_connector_": "text connectors (not in this model)",
        "audio_embeddings_connector_": "text connectors (not in this model)",
        "text_embedding_projection_": "text connectors (not in this model)",
    },
    latent=LatentFormat(channels=CHANNELS, downscale=CELL, frames=FRAMES),
    encoders=(),
    repos=("Lightricks/LTX-2",),
    sampling=video.sampling,
    encode=encode,
    prepare=prepare,
    call=call,
    token_times=True,
    joint=True,
    recommend=recommend,
)
