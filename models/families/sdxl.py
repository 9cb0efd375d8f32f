"""SDXL (base): a UNet that predicts noise (or v) on 4-channel latents, conditioned on CLIP-L, CLIP-G and sizes.

Facts: stabilityai/stable-diffusion-xl-base-1.0 and Stability's generative-models (sgm); the recipe equals diffusers'
StableDiffusionXLPipeline (tests/parity/test_sdxl.py). Text: states before the last layer of both encoders side by
side, and CLIP-G's projected vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..family import Config, Family, FileLayout, Inputs, LatentFormat, Network, Pieces
from ..loading.names import Names, Prefix, Target, Transposed, blocks, count, present
from ..text.facts import EncoderFacts
from .autoencoder_kl import AUTOENCODER_KL
from .encoders import CLIP_L, clip_config

if TYPE_CHECKING:
    from torch import Tensor

    from ..sampling.model_sampling import ModelSampling
    from ..text.encoder import Encoder
    from ..text.tokens import Tokens

CELL = 8
"""Pixels a latent cell is wide."""
HEAD = 64
"""Width of an attention head."""
LEVELS, RESNETS = 4, 2
"""Number of levels for which original names are known; residual blocks per level."""
TEXT_WIDTH = 2048
"""CLIP-L's 768 plus CLIP-G's 1280; the refiner reads CLIP-G alone."""

_RESNET: Mapping[str, Target] = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
_ATTENTION: Mapping[str, Target] = {
    name: name
    for name in (
        "norm",
        "proj_in",
        "proj_out",
        *(f"transformer_blocks.*.norm{i}" for i in (1, 2, 3)),
        *(f"transformer_blocks.*.attn{i}.{x}" for i in (1, 2) for x in ("to_q", "to_k", "to_v", "to_out.0")),
        "transformer_blocks.*.ff.net.0.proj",
        "transformer_blocks.*.ff.net.2",
    )
}


def _unet_names() -> dict[str, Target]:
    """Original names number blocks consecutively: a level has residual blocks and, except the last, a resampler."""
    table: dict[str, Target] = {
        "time_embed.0": "time_embedding.linear_1",
        "time_embed.2": "time_embedding.linear_2",
        "label_emb.0.0": "add_embedding.linear_1",
        "label_emb.0.2": "add_embedding.linear_2",
        "input_blocks.0.0": "conv_in",
        "out.0": "conv_norm_out",
        "out.2": "conv_out",
        **blocks("middle_block.0", "mid_block.resnets.0", _RESNET),
        **blocks("middle_block.1", "mid_block.attentions.0", _ATTENTION),
        **blocks("middle_block.2", "mid_block.resnets.1", _RESNET),
    }
    for level in range(LEVELS):
        down, up = f"down_blocks.{level}", f"up_blocks.{level}"
        for i in range(RESNETS):
            number = 1 + (RESNETS + 1) * level + i
            table |= blocks(f"input_blocks.{number}.0", f"{down}.resnets.{i}", _RESNET)
            table |= blocks(f"input_blocks.{number}.1", f"{down}.attentions.{i}", _ATTENTION)
        table[f"input_blocks.{(RESNETS + 1) * (level + 1)}.0.op"] = f"{down}.downsamplers.0.conv"
        for i in range(RESNETS + 1):
            number = (RESNETS + 1) * level + i
            table |= blocks(f"output_blocks.{number}.0", f"{up}.resnets.{i}", _RESNET)
            table |= blocks(f"output_blocks.{number}.1", f"{up}.attentions.{i}", _ATTENTION)
        for place in (1, 2):  # behind the attention, where the level has one
            table[f"output_blocks.{(RESNETS + 1) * level + RESNETS}.{place}.conv"] = f"{up}.upsamplers.0.conv"
    return table


def _unet_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a UNet2DConditionModel from the shapes of its tensors."""
    levels = count(pieces, r"down_blocks\.(\d+)\.")
    widths = [pieces[f"down_blocks.{i}.resnets.0.conv1.weight"].shape[0] for i in range(levels)]
    depths = [count(pieces, rf"down_blocks\.{i}\.attentions\.0\.transformer_blocks\.(\d+)\.") for i in range(levels)]
    text = next(p for n, p in pieces.items() if n.endswith("transformer_blocks.0.attn2.to_k.weight")).shape[1]
    attended = ["CrossAttn" if depth else "" for depth in depths]
    return dict(base) | {
        "in_channels": pieces["conv_in.weight"].shape[1],
        "out_channels": pieces["conv_out.weight"].shape[0],
        "block_out_channels": widths,
        "down_block_types": [f"{kind}DownBlock2D" for kind in attended],
        "up_block_types": [f"{kind}UpBlock2D" for kind in attended[::-1]],
        "layers_per_block": count(pieces, r"down_blocks\.0\.resnets\.(\d+)\."),
        "transformer_layers_per_block": [depth or 1 for depth in depths],
        "attention_head_dim": [max(1, width // HEAD) for width in widths],  # heads, in spite of the name
        "cross_attention_dim": text,
        "projection_class_embeddings_input_dim": pieces["add_embedding.linear_1.weight"].shape[1],
    }


UNET = Network(
    kind="transformer",
    folder="unet",
    cls="diffusers.models.unets.unet_2d_condition:UNet2DConditionModel",
    layouts=(
        FileLayout(present("input_blocks.0.0.weight", "label_emb.0.0.weight"), Names(_unet_names())),
        FileLayout(present("conv_in.weight", "add_embedding.linear_1.weight", "mid_block.attentions.0.proj_in.weight")),
    ),
    config=_unet_config,
    base={
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "norm_num_groups": 32,
    },
    fits=lambda config: config.get("addition_embed_type") == "text_time" and config.get("in_channels") == 4,
    marks={"v_pred": {"prediction": "v"}},
    ignored=r"^(v_pred|ztsnr)$",
    uneven=True,
    fragile=("time_embedding.*", "add_embedding.*", "*.time_emb_proj"),
)


def _is_clip_g(stored: Pieces) -> bool:
    token = next((p for n, p in stored.items() if n.endswith("embeddings.token_embedding.weight")), None)
    return token is not None and token.shape[1] >= 1280 and "text_projection.weight" in stored


def _clip_g_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    return clip_config(pieces, base) | {"projection_dim": pieces["text_projection.weight"].shape[0]}


_OPEN_CLIP = Names(
    {
        "token_embedding": "embeddings.token_embedding",
        "positional_embedding": "embeddings.position_embedding.weight",
        "ln_final": "final_layer_norm",
        "text_projection": Transposed("text_projection.weight"),
        **blocks(
            "transformer.resblocks.*",
            "encoder.layers.*",
            {
                "attn.in_proj_weight": tuple(f"self_attn.{x}_proj.weight" for x in "qkv"),
                "attn.in_proj_bias": tuple(f"self_attn.{x}_proj.bias" for x in "qkv"),
                "attn.out_proj": "self_attn.out_proj",
                "ln_1": "layer_norm1",
                "ln_2": "layer_norm2",
                "mlp.c_fc": "mlp.fc1",
                "mlp.c_proj": "mlp.fc2",
            },
        ),
    }
)
CLIP_G = Network(
    kind="clip_g",
    cls="transformers.models.clip.modeling_clip:CLIPTextModelWithProjection",
    folder="text_encoder_2",
    text=True,
    layouts=(
        FileLayout(present("transformer.resblocks.0.attn.in_proj_weight", "token_embedding.weight"), _OPEN_CLIP),
        FileLayout(_is_clip_g, Prefix("text_model.")),
    ),
    config=_clip_g_config,
    base={**CLIP_L.base, "hidden_act": "gelu", "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    prefixes=("conditioner.embedders.1.model.", "conditioner.embedders.0.transformer."),
    ignored=r"(logit_scale|position_ids)$",
    fragile=(),
)


def sampling(network: Mapping[str, Any], scheduler: Mapping[str, Any]) -> ModelSampling:
    """DDPM noise levels; v prediction if the scheduler or the file says so."""
    from ..sampling.model_sampling import Discrete

    v = scheduler.get("prediction_type") == "v_prediction" or network.get("prediction") == "v"
    first, last = (float(scheduler.get(k, usual)) for k, usual in (("beta_start", 0.00085), ("beta_end", 0.012)))
    return Discrete("v" if v else "eps", first, last)


def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
    """Penultimate hidden states of both encoders concatenated, [1, T, 2048], and CLIP-G's projected pooled vector."""
    import torch

    windows = max(encoders[name].windows(read) for name, read in tokens.items())
    longer = {name: encoders[name].lengthened(read, windows) for name, read in tokens.items()}
    states = [encoders[name].states(longer[name]) for name in ("clip_l", "clip_g")]
    return torch.cat(states, -1), {"pooled_output": encoders["clip_g"].pooled(longer["clip_g"])}


def prepare(network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Inputs:
    """Text states, CLIP-G's pooled vector and sizes for latents of x's shape [B, 4, H, W].

    The sizes are height, width, crop from above and from the left, height and width to be made: those of the latent
    where CLIPTextEncodeSDXL says no others.
    """
    config, pooled = network.config, extras.get("pooled_output")
    if pooled is None:
        raise ValueError("SDXL needs CLIP-G's pooled vector besides the states: use DualCLIPLoader, type sdxl")
    if text.shape[-1] != config.cross_attention_dim:
        raise ValueError(
            f"the text has {text.shape[-1]} numbers a token, this network reads {config.cross_attention_dim}: are "
            "these its own text encoders?"
        )
    height, width = (extras.get(k, side * CELL) for k, side in zip(("height", "width"), x.shape[-2:], strict=True))
    sizes = [
        height,
        width,
        extras.get("crop_h", 0),
        extras.get("crop_w", 0),
        extras.get("target_height", height),
        extras.get("target_width", width),
    ]
    batched = {
        "encoder_hidden_states": text,
        "text_embeds": pooled.to(text),
        "time_ids": text.new_tensor(sizes).expand(len(text), -1),
    }
    return Inputs(batched)


def call(network: Any, x: Tensor, timestep: Tensor, inputs: Inputs, residuals: Mapping[str, Any]) -> Tensor:
    """Predicted noise (or v) of x [B, 4, H, W] at timestep [B]."""
    added = {name: inputs.batched[name] for name in ("text_embeds", "time_ids")}
    output: Tensor = network(
        x, timestep, inputs.batched["encoder_hidden_states"], added_cond_kwargs=added, **residuals, return_dict=False
    )[0]
    return output


def recommend(network: Mapping[str, Any]) -> dict[str, Any]:
    """30 steps at cfg 7, 1024 x 1024."""
    return {
        "steps": 30,
        "cfg": 7.0,
        "sampler_name": "euler",
        "scheduler": "normal",
        "width": 1024,
        "height": 1024,
    }


SDXL = Family(
    id="sdxl",
    title="SDXL",
    networks=(UNET, AUTOENCODER_KL, CLIP_L, CLIP_G),
    files={"vae": ("sdxl_vae.safetensors",), "clip": ("clip_l.safetensors",), "clip_g": ("clip_g.safetensors",)},
    latent=LatentFormat(channels=4, downscale=CELL, scale=0.13025),
    encoders=(
        EncoderFacts("clip_l", kind="clip", folder="text_encoder", pad_to=77, limit=77, window=77, layers=(-2,)),
        EncoderFacts(
            "clip_g",
            kind="clip_g",
            folder="text_encoder_2",
            tokenizer="clip",
            pad_to=77,
            limit=77,
            window=77,
            layers=(-2,),
            pad=0,
            projected=True,
        ),
    ),
    repos=("stabilityai/stable-diffusion-xl-base-1.0",),
    sampling=sampling,
    encode=encode,
    prepare=prepare,
    call=call,
    recommend=recommend,
)
