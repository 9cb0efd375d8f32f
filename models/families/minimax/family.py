"""MiniMax-H3: joint video and stereo audio, rectified flow on one sequence of text, audio and video tokens.

The joined latent is flat, [B, 1, N]: video [24, T, h, w], then audio [32, 2, L], with ``shapes`` in the LATENT. Audio
has its own noise levels (:mod:`..sampling.joint_flow`). There is no negative: guidance is distilled into the network.
Facts: diffusers' blocks of MiniMax-H3 (tests/video/test_minimax.py). Keyframes and references are in the sequence at
all steps; images carry 0.1 % noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...family import Family, Inputs, LatentFormat
from ...text.facts import EncoderFacts, states_of_language_model
from ..ltx.ltx2 import joined, separated
from . import layout as rows_of
from .networks import AUDIO_VAE, CELL, CHANNELS, FRAMES, TRANSFORMER, VAE

if TYPE_CHECKING:
    from torch import Tensor

    from ...sampling.model_sampling import ModelSampling

SOUND_CHANNELS: Final = 32
KNOWN: Final = 0.999
"""Timestep of known images and videos, 0..1 (1 = clean); known audio is clean."""
SEED: Final = 42
"""Seed of the noise added to known images, so every run adds the same."""


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Shift 12 for video, or the scheduler's, and 3 for audio."""
    from ...sampling.joint_flow import JointFlow

    return JointFlow(shift=float(scheduler.get("shift", 12.0)))


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states, known latents and positions of all tokens, for states of x's shape [B, 1, N]."""
    import torch

    shapes, config = extras.get("latent_shapes"), network.config
    if shapes is None:
        raise ValueError(
            "MiniMax-H3 generates video and audio together: use the latent of MiniMaxH3ImageToVideo or "
            "EmptyMiniMaxH3LatentAV"
        )
    video, sound = shapes
    own = (config.in_channels, config.audio_in_channels)
    if (video[0], *sound[:-1]) != (own[0], own[1], rows_of.SIDES) or video[2] % 2 or video[3] % 2:
        raise ValueError(
            f"this network reads videos of {own[0]} channels and even sides with sound of {own[1]} channels, 2 sides; "
            f"this latent is {list(video)} and {list(sound)}"
        )
    if text.shape[-1] != config.text_dim:
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {config.text_dim}: load its text "
            "encoder with CLIPLoader, type minimax"
        )
    kinds = extras.get("token_kinds")
    kinds = torch.full((text.shape[1],), rows_of.TEXT) if kinds is None else kinds.cpu()
    if len(kinds) != text.shape[1]:
        raise ValueError(f"the conditioning says of {len(kinds)} tokens what they are, and has {text.shape[1]}")
    before, start = rows_of.references(extras.get("minimax_references", ()), video[2:], float(len(kinds)))
    before += rows_of.guides(extras.get("minimax_guides", ()), video[2:], start)
    blocks = [
        rows_of.text_block(kinds),
        *before,
        rows_of.sound_block(sound[-1], start, video[2:]),
        rows_of.video_block(video[1:], start),
    ]
    of_rows = torch.cat([kinds if b.kind == rows_of.TEXT else kinds.new_full((len(b.places),), b.kind) for b in blocks])
    of_blocks = torch.cat([kinds.new_full((len(b.places),), b.kind) for b in blocks])
    batched = {
        "encoder_hidden_states": text,
        "token_tags": of_rows[None],
        "row_kinds": of_blocks[None],
        "position_ids": torch.cat([b.places for b in blocks]).float()[None],
    }
    for name, of in (("known_video", rows_of.VIDEO), ("known_sound", rows_of.SOUND)):
        known = [b.rows for b in before if b.kind == of and b.rows is not None]
        if known:
            batched[name] = torch.cat(known)[None]
    return Inputs(batched, {"shapes": shapes, "sound_ratio": extras.get("sound_ratio", 1.0)})


def noised(latent: Tensor) -> Tensor:
    """Latents of a known image or video with their noise added."""
    import torch

    noise = torch.randn(latent.shape, generator=torch.Generator().manual_seed(SEED))
    return KNOWN * latent.float().cpu() + (1 - KNOWN) * noise


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - latent) of the carried state x [B, 1, N] at timestep (video sigma) [B] or [B, 1, N]."""
    import torch

    velocities = []
    # What lies where may differ between the rows of a batch; the network knows one layout a call.
    for i in range(len(x)):
        batched = {name: tensor[i : i + 1] for name, tensor in inputs.batched.items()}
        velocities.append(_call_one(network, x[i : i + 1], timestep[i : i + 1], batched, inputs.shared))
    return torch.cat(velocities)


def _call_one(
    network: Any, x: Tensor, timestep: Tensor, batched: Mapping[str, Tensor], shared: Mapping[str, Any]
) -> Tensor:
    import torch

    from ...sampling.joint_flow import carried_velocity, of_sound

    shapes, ratio = shared["shapes"], shared["sound_ratio"]
    video, carried = separated(x, shapes)
    video_sigma = sound_sigma = timestep.float()
    if timestep.ndim > 1:
        video_sigma, sound_sigma = separated(timestep.float(), shapes)
    sound_sigma, g = of_sound(sound_sigma, ratio)
    sound = (carried * (ratio * g)).to(carried.dtype)
    kinds = batched["row_kinds"][0]
    known = {k: batched.get(f"known_{k}") for k in ("video", "sound")}
    times = torch.full_like(kinds, 0, dtype=torch.float32)
    times[kinds == rows_of.TEXT] = 1 - timestep.float().amax()
    video_times = _times(1 - video_sigma, video, rows_of.video_rows)
    _fill(times, kinds == rows_of.VIDEO, video_times, known["video"], torch.clamp_min(video_times.min(), KNOWN))
    sound_times = _times(1 - sound_sigma, carried, rows_of.sound_rows)
    _fill(times, kinds == rows_of.SOUND, sound_times, known["sound"], sound_times.new_tensor(1.0))
    distinct, which = torch.unique(times, sorted=True, return_inverse=True)
    velocity, heard = network(
        hidden_states=_behind(known["video"], rows_of.video_rows(video)),
        audio_hidden_states=_behind(known["sound"], rows_of.sound_rows(sound)),
        encoder_hidden_states=batched["encoder_hidden_states"],
        timestep=distinct,
        timestep_indices=which,
        token_tags=batched["token_tags"][0],
        position_ids=batched["position_ids"][0],
        video_indices=(kinds == rows_of.VIDEO).nonzero()[:, 0],
        audio_indices=(kinds == rows_of.SOUND).nonzero()[:, 0],
        text_indices=(kinds == rows_of.TEXT).nonzero()[:, 0],
        return_dict=False,
    )
    velocity = rows_of.video_of(-velocity[:, -video_times.numel() :].float(), shapes[0])
    heard = rows_of.sound_of(-heard[:, -sound_times.numel() :].float(), shapes[1])
    return joined([velocity, carried_velocity(heard, carried.float(), g, ratio)])


def _times(time: Tensor, latent: Tensor, rows: Any) -> Tensor:
    """Timestep of each token: the lowest of its cells."""
    if time.ndim == 1:
        return time.expand(rows(latent).shape[1])
    lowest: Tensor = rows(time)[0].amin(-1)
    return lowest


def _fill(times: Tensor, rows: Tensor, own: Tensor, known: Tensor | None, known_time: Tensor) -> None:
    """Set the timesteps of the tokens of one kind; known tokens come first."""
    import torch

    before = own.new_empty(0) if known is None else known_time.expand(known.shape[1])
    times[rows] = torch.cat([before, own])


def _behind(known: Tensor | None, rows: Tensor) -> Tensor:
    import torch

    return rows if known is None else torch.cat([known.to(rows), rows], 1)


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """20 steps; 1344 x 768, 124 frames at 24 a second; no guidance."""
    return {
        "steps": 20,
        "cfg": 1.0,
        "sampler_name": "res_multistep",
        "scheduler": "simple",
        "width": 1344,
        "height": 768,
        "length": 124,
        "fps": 24.0,
    }


MINIMAX_H3 = Family(
    id="minimax_h3",
    title="MiniMax-H3",
    networks=(TRANSFORMER, VAE, AUDIO_VAE),
    latent=LatentFormat(channels=CHANNELS, downscale=CELL, patch=2, frames=FRAMES),
    clip_type="minimax",
    encoders=(
        EncoderFacts(
            "qwen3vl_32b",
            models=("qwen3_vl",),
            layers=(50,),
            before_norm=True,
            masked=True,
            limit=32768,
            blank=" ",
            spelled=(
                "<d>",
                "</d>",
                "<|cutoff|>",
                "<|lyrics_start|>",
                "<|lyrics_end|>",
                "<|caption_start|>",
                "<|caption_end|>",
            ),
            repos=("MiniMaxAI/MiniMax-H3",),
        ),
    ),
    repos=("MiniMaxAI/MiniMax-H3",),
    sampling=sampling,
    encode=states_of_language_model(),
    prepare=prepare,
    call=call,
    token_times=True,
    joint=True,
    recommend=recommend,
)
