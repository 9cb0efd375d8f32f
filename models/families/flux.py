"""FLUX.1 (dev, schnell and what is built like them): rectified flow on 16-channel latents packed 2x2 into tokens.

Facts: the configs of black-forest-labs/FLUX.1-dev and FLUX.1-schnell; the recipe equals diffusers' FluxPipeline and
FluxControlNetPipeline (tests/parity). Text: the pooled vector of CLIP-L and the token states of T5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..family import Config, Family, FileLayout, Inputs, LatentFormat, Network, Pieces
from ..loading.names import Names, Swapped, blocks, count, present
from ..text.facts import EncoderFacts
from .autoencoder_kl import AUTOENCODER_KL
from .encoders import CLIP_L, T5

if TYPE_CHECKING:
    from torch import Tensor

    from ..control import Control
    from ..sampling.model_sampling import ModelSampling
    from ..text.encoder import Encoder
    from ..text.tokens import Tokens

PATCH = 2
DEFAULT_GUIDANCE = 3.5
"""Distilled guidance where the graph sets none."""


def pack(z: Tensor) -> Tensor:
    """Latent [B, C, H, W], even sides -> tokens [B, H/2 * W/2, 4C] in the order (channel, row, column)."""
    b, c, h, w = z.shape
    return z.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, c * 4)


def unpack(tokens: Tensor, height: int, width: int) -> Tensor:
    """The inverse of :func:`pack` for a latent of even ``height`` and ``width``."""
    b, _, c = tokens.shape
    grid = tokens.reshape(b, height // 2, width // 2, c // 4, 2, 2)
    return grid.permute(0, 3, 1, 4, 2, 5).reshape(b, c // 4, height, width)


def even(z: Tensor) -> Tensor:
    """Pad the latent [B, C, H, W] to even sides by wrapping the first row and column."""
    import torch.nn.functional as F

    h, w = z.shape[-2:]
    return F.pad(z, (0, w % PATCH, 0, h % PATCH), mode="circular") if h % PATCH or w % PATCH else z


def position_ids(rows: int, columns: int) -> Tensor:
    """Position ids (0, row, column) of image tokens, float32 [rows * columns, 3]."""
    import torch

    ids = torch.zeros(rows, columns, 3)
    ids[..., 1] = torch.arange(rows)[:, None]
    ids[..., 2] = torch.arange(columns)[None]
    return ids.reshape(-1, 3)


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """Noise levels: the scheduler's fixed shift; dev: mu 1.15 for any size, as in ComfyUI; schnell: shift 1.

    Picture-dependent shifts are ModelSamplingFlux's business.
    """
    from ..sampling.model_sampling import Flow

    if scheduler and not scheduler.get("use_dynamic_shifting", False):
        return Flow(shift=float(scheduler.get("shift", 1.0)))
    if scheduler or network.get("guidance_embeds", False):
        return Flow.from_mu(float(scheduler.get("max_shift", 1.15)))
    return Flow()


def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
    """T5's states [1, T, D] and CLIP's pooled vector [1, P]."""
    states = encoders["t5xxl"].states(tokens["t5xxl"])
    return states, {"pooled_output": encoders["clip_l"].pooled(tokens["clip_l"])}


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text, pooled vector, guidance and positions for states of x's shape [B, C, H, W]."""
    import torch

    pooled = extras.get("pooled_output")
    if pooled is None:
        raise ValueError(
            "FLUX needs the pooled vector of a CLIP-L text encoder besides T5's states: use DualCLIPLoader"
        )
    _check_sizes(network.config, text, pooled, x)
    rows, columns = math.ceil(x.shape[-2] / PATCH), math.ceil(x.shape[-1] / PATCH)
    batched = {"encoder_hidden_states": text, "pooled_projections": pooled.to(text)}
    if network.config.guidance_embeds:
        guidance = float(extras.get("guidance", DEFAULT_GUIDANCE))
        batched["guidance"] = torch.full([len(text)], guidance, device=text.device, dtype=torch.float32)
    shared = {"img_ids": position_ids(rows, columns), "txt_ids": torch.zeros(text.shape[1], 3)}
    return Inputs(batched, {k: v.to(text.device) for k, v in shared.items()})


def _check_sizes(config: Any, text: Tensor, pooled: Tensor, x: Tensor) -> None:
    """Check the sizes of the conditioning before the first step."""
    if config.in_channels != x.shape[1] * PATCH**2:
        channels = config.in_channels // PATCH**2
        raise ValueError(
            f"this network reads {channels} channels, the latent has {x.shape[1]}; FLUX.1 Fill, Canny and Depth, which "
            "read an image concatenated to the latent, are not supported yet"
        )
    if (text.shape[-1], pooled.shape[-1]) != (config.joint_attention_dim, config.pooled_projection_dim):
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token and {pooled.shape[-1]} in its pooled vector, this network "
            f"reads {config.joint_attention_dim} and {config.pooled_projection_dim}: are these its own text encoders?"
        )


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Velocity (noise - image) of the state x [B, C, H, W] at timestep (= sigma) [B]."""
    padded = even(x)
    output = network(
        hidden_states=pack(padded), timestep=timestep, **inputs.batched, **inputs.shared, **residuals, return_dict=False
    )[0]
    return unpack(output, *padded.shape[-2:])[..., : x.shape[-2], : x.shape[-1]]


def prepare_hint(control: Control, x: Tensor) -> Tensor:
    """Hint image scaled to cover x's latent grid, center-cropped, encoded by the VAE and packed."""
    if control.vae is None:
        raise ValueError("a FLUX ControlNet reads its hint through the VAE: connect `vae` of ControlNetApplyAdvanced")
    if getattr(control.net.loaded.network, "union", False):
        raise ValueError("this is a union ControlNet, which needs the type of its hint; not supported yet")
    sides = [math.ceil(side / PATCH) * PATCH for side in x.shape[-2:]]
    return pack(control.vae.latent.process_in(control.encoded(*sides)))


def control(
    network: Any, main: Any, x: Tensor, timestep: Tensor, inputs: Inputs, hint: Tensor, strength: float
) -> dict[str, Any]:
    """Residuals of a FluxControlNetModel, one per block of the main network, so that several can be summed."""
    batched = dict(inputs.batched)
    if not network.config.guidance_embeds:
        batched.pop("guidance", None)
    elif "guidance" not in batched:
        batched["guidance"] = x.new_full([len(x)], DEFAULT_GUIDANCE)
    double, single = network(
        hidden_states=pack(even(x)),
        controlnet_cond=hint,
        conditioning_scale=strength,
        timestep=timestep,
        **batched,
        **inputs.shared,
        return_dict=False,
    )
    residuals = {
        "controlnet_block_samples": (double, len(main.transformer_blocks)),
        "controlnet_single_block_samples": (single, len(main.single_transformer_blocks)),
    }
    return {name: spread(samples, blocks) for name, (samples, blocks) in residuals.items() if samples}


def spread(samples: list[Tensor], blocks: int) -> list[Tensor]:
    """Repeat each of ``samples`` over consecutive blocks, as FluxTransformer2DModel does with fewer than it has."""
    every = math.ceil(blocks / len(samples))
    return [samples[i // every] for i in range(blocks)]


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """Dev (guidance-distilled): 20 steps, guidance 3.5; schnell: 4 steps. No CFG for either."""
    dev = bool(network.get("guidance_embeds", False))
    return {
        "steps": 20 if dev else 4,
        "cfg": 1.0,
        "guidance": DEFAULT_GUIDANCE,
        "width": 1024,
        "height": 1024,
        "sampler_name": "euler",
        "scheduler": "simple",
        # schnell's noise levels are not shifted at any size: sigma(t) = t is mu = 0.
        "base_shift": 0.5 if dev else 0.0,
        "max_shift": 1.15 if dev else 0.0,
    }


_QKV = ("attn.to_q", "attn.to_k", "attn.to_v")
_ADDED_QKV = ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj")
_TIME_TEXT = "time_text_embed"
NAMES = Names(
    {
        "img_in": "x_embedder",
        "txt_in": "context_embedder",
        "time_in.in_layer": f"{_TIME_TEXT}.timestep_embedder.linear_1",
        "time_in.out_layer": f"{_TIME_TEXT}.timestep_embedder.linear_2",
        "vector_in.in_layer": f"{_TIME_TEXT}.text_embedder.linear_1",
        "vector_in.out_layer": f"{_TIME_TEXT}.text_embedder.linear_2",
        "guidance_in.in_layer": f"{_TIME_TEXT}.guidance_embedder.linear_1",
        "guidance_in.out_layer": f"{_TIME_TEXT}.guidance_embedder.linear_2",
        "final_layer.linear": "proj_out",
        # BFL has (shift, scale), diffusers (scale, shift).
        "final_layer.adaLN_modulation.1": Swapped("norm_out.linear"),
        **blocks("double_blocks.*", "transformer_blocks.*", {
            "img_mod.lin": "norm1.linear", "txt_mod.lin": "norm1_context.linear",
            "img_attn.qkv": _QKV, "txt_attn.qkv": _ADDED_QKV,
            "img_attn.proj": "attn.to_out.0", "txt_attn.proj": "attn.to_add_out",
            "img_attn.norm.query_norm": "attn.norm_q", "img_attn.norm.key_norm": "attn.norm_k",
            "txt_attn.norm.query_norm": "attn.norm_added_q", "txt_attn.norm.key_norm": "attn.norm_added_k",
            "img_mlp.0": "ff.net.0.proj", "img_mlp.2": "ff.net.2",
            "txt_mlp.0": "ff_context.net.0.proj", "txt_mlp.2": "ff_context.net.2",
        }),
        **blocks("single_blocks.*", "single_transformer_blocks.*", {
            "modulation.lin": "norm.linear", "linear1": (*_QKV, "proj_mlp"), "linear2": "proj_out",
            "norm.query_norm": "attn.norm_q", "norm.key_norm": "attn.norm_k",
        }),
    },
    width="img_in.weight",
    roles={"scale": "weight"},
    lora={  # as XLabs spells them
        **blocks("double_blocks.*", "transformer_blocks.*", {
            "processor.qkv_lora1": _QKV, "processor.qkv_lora2": _ADDED_QKV,
            "processor.proj_lora1": "attn.to_out.0", "processor.proj_lora2": "attn.to_add_out",
        }),
        **blocks("single_blocks.*", "single_transformer_blocks.*", {
            "processor.qkv_lora": _QKV, "processor.proj_lora": "proj_out",
        }),
    },
)  # fmt: skip
"""The names of black-forest-labs/flux (src/flux/model.py, modules/layers.py), and those of FluxTransformer2DModel."""


def network_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a FluxTransformer2DModel or FluxControlNetModel from the shapes of its tensors."""
    shapes = {name: piece.shape for name, piece in pieces.items()}
    width, channels = shapes["x_embedder.weight"]
    head = shapes["transformer_blocks.0.attn.norm_q.weight"][0]
    config = dict(base) | {
        "in_channels": channels,
        "num_layers": count(pieces, r"transformer_blocks\.(\d+)\."),
        "num_single_layers": count(pieces, r"single_transformer_blocks\.(\d+)\."),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["context_embedder.weight"][1],
        "pooled_projection_dim": shapes[f"{_TIME_TEXT}.text_embedder.linear_1.weight"][1],
        "guidance_embeds": f"{_TIME_TEXT}.guidance_embedder.linear_1.weight" in shapes,
        # FLUX's split of a head over (index, row, column): 16, 56, 56 of 128.
        "axes_dims_rope": [head // 8, (head - head // 8) // 2, (head - head // 8) // 2],
    }
    output = shapes.get("proj_out.weight", (channels,))[0]
    modes = shapes.get("controlnet_mode_embedder.weight")
    return config | ({"out_channels": output} if output != channels else {}) | ({"num_mode": modes[0]} if modes else {})


_DIFFUSERS = ("transformer_blocks.0.attn.add_q_proj.weight", "context_embedder.weight")
_CONTROL = "controlnet_x_embedder.weight"
TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_flux:FluxTransformer2DModel",
    layouts=(
        FileLayout(present("double_blocks.0.img_attn.qkv.weight", "img_in.weight"), NAMES),
        FileLayout(present(*_DIFFUSERS, absent=[_CONTROL])),
    ),
    config=network_config,
    base={"patch_size": 1},
    fragile=("x_embedder", "context_embedder", "time_text_embed.*", "*.norm*.linear", "norm_out.linear", "proj_out"),
    blocks={
        "FluxTransformerBlock": ("encoder_hidden_states", "hidden_states"),
        "FluxSingleTransformerBlock": ("encoder_hidden_states", "hidden_states"),
    },
)
CONTROL_NET = Network(
    kind="controlnet",
    cls="diffusers.models.controlnets.controlnet_flux:FluxControlNetModel",
    layouts=(FileLayout(present(*_DIFFUSERS, _CONTROL)),),
    config=network_config,
    base={"patch_size": 1},
)
FLUX = Family(
    id="flux",
    title="FLUX.1",
    networks=(TRANSFORMER, CONTROL_NET, AUTOENCODER_KL, CLIP_L, T5),
    files={
        "vae": ("ae.safetensors", "flux_ae.safetensors", "ae.sft"),
        "clip": ("clip_l.safetensors",),
        "t5": ("t5xxl_fp16.safetensors", "t5xxl_fp8_e4m3fn_scaled.safetensors", "t5xxl_fp8_e4m3fn.safetensors"),
    },
    latent=LatentFormat(channels=16, downscale=8, scale=0.3611, shift=0.1159, patch=PATCH),
    encoders=(
        EncoderFacts("clip_l", kind="clip", folder="text_encoder", pad_to=77, limit=77),
        # ComfyUI pads to 256 at least; dev was trained with up to 512.
        EncoderFacts("t5xxl", kind="t5", folder="text_encoder_2", pad_to=256, limit=512),
    ),
    repos=("black-forest-labs/FLUX.1-dev", "black-forest-labs/FLUX.1-schnell"),
    sampling=sampling,
    encode=encode,
    prepare=prepare,
    call=call,
    prepare_hint=prepare_hint,
    control=control,
    recommend=recommend,
)
