"""MiniMax-H3's networks in files: ComfyUI's single files and diffusers folders.

Facts: diffusers' mapping of the network and its script for the VAEs, and the layout of ComfyUI's files. There q, k
and v are one matrix: stacked in the network, interleaved by head in the VAE. Gates come first, in diffusers last.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from ...family import Config, FileLayout, LatentFormat, Network, Pieces
from ...loading.header_values import LoadError
from ...loading.names import Names, Renaming, Swapped, Target, blocks, count, present
from ...loading.pieces import Piece

CHANNELS, CELL, FRAMES = 24, 16, 4
"""Latent channels; pixels and frames per latent cell."""
_BLOCK: Mapping[str, Target] = {
    "norm1": "norm1",
    "norm2": "norm2",
    "attn.qkv_proj": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "attn.q_norm": "attn.norm_q",
    "attn.k_norm": "attn.norm_k",
    "attn.out_proj": "attn.to_out.0",
    "mlp.fc1": Swapped("ff.net.0.proj"),
    "mlp.fc2": "ff.net.2",
}


class _NetworkNames(Names):
    """Names of the transformer; unsupported variants are an error."""

    def to_class(self, stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
        outputs = next((p for n, p in stored.items() if n.startswith("final_layer.video_out.weight")), None)
        rows = outputs.shape[0] if outputs else 0
        if rows != stored["video_patch_proj.weight"].shape[1]:
            raise LoadError(
                f"{next(iter(stored.values())).file}: this MiniMax-H3 has a bank of output layers ({rows} rows), a "
                "form for few steps that is not read; load the network itself"
            )
        return super().to_class(stored)


NAMES = _NetworkNames(
    {
        "video_patch_proj": "proj_in",
        "audio_patch_proj": "audio_proj_in",
        "condition_proj": "context_embedder",
        "time_embedder.proj_in": "time_embedder.linear_1",
        "time_embedder.proj_out": "time_embedder.linear_2",
        "adaln_t_table": "time_embedder.table",
        "rope.inv_freq": "rope.inv_freq",
        "token_refiner.final_norm": "token_refiner.final_norm",
        "final_layer.norm": "norm_out.norm",
        "final_layer.adaln_proj.linear": "norm_out.linear",
        "final_layer.video_out": "proj_out",
        "final_layer.audio_out": "audio_proj_out",
        **blocks("token_refiner.blocks.*", "token_refiner.refiner_blocks.*", _BLOCK),
        **blocks("blocks.*", "transformer_blocks.*", {**_BLOCK, "adaln_proj.linear": "adaln_proj.linear"}),
    }
)
_VAE: Final = (
    (r"^encoder\.down\.(\d+)\.block\.", r"encoder.down_blocks.\1.resnets."),
    (r"\.nin_shortcut\.", ".conv_shortcut."),
    (r"^encoder\.down\.(\d+)\.downsample\.", r"encoder.down_blocks.\1.downsamplers.0."),
    (r"^decoder\.x_embedder\.", "decoder.proj_in."),
    (r"\.attn\.to_out\.", ".attn.to_out.0."),
    (r"\.ff\.w1\.", ".ff.net.0.proj."),
    (r"\.ff\.w2\.", ".ff.net.2."),
)
_QKV: Final = ".attn.to_qkv."
_HEAD: Final = 64
"""Head width of the VAE's decoder, which no shape tells."""
_VAE_BASE: Final[Config] = {
    "spatial_downsample_factors": (2, 2, 2, 2, 1, 1),
    "temporal_downsample_factors": (1, 2, 2, 1, 1, 1),
    "decoder_attention_head_dim": 64,
    "latents_mean": (
        0.858090341091156, -0.9606591463088989, 1.0661640167236328, -0.5090325474739075, -0.2727581858634949,
        -1.3675414323806763, -0.2553254961967468, -0.26907554268836975, -0.5376840829849243, -0.0464097298681736,
        0.6657370328903198, 0.19690127670764923, -0.5460608005523682, -0.4035342037677765, -0.23683024942874908,
        0.25928452610969543, -0.30133944749832153, 0.211341992020607, -1.1206848621368408, 0.3581933379173279,
        -0.04225143790245056, 0.2604829967021942, 0.22864092886447906, 0.7056031823158264,
    ),
    "latents_std": (
        1.2223774194717407, 1.2767263650894165, 1.683177471160889, 1.7549455165863037, 1.5636216402053833,
        2.194143533706665, 0.9653137922286987, 1.056988596916199, 0.841948926448822, 0.7729952931404114,
        1.8955937623977661, 0.946841835975647, 0.7996809482574463, 0.4498890042304993, 0.7197399735450745,
        0.6936293244361877, 2.961095094680786, 2.7694199085235596, 3.0496184825897217, 2.1088054180145264,
        3.276226282119751, 3.1627357006073, 2.2816812992095947, 2.6127843856811523,
    ),
}  # fmt: skip
_SAMPLES: Final = {"F32": "f", "F16": "e", "F64": "d"}
"""``struct`` formats of the latent statistics by dtype."""


def _vae_tensors(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """VAE tensors by diffusers' names; latent statistics are kept for the config."""
    tensors: dict[str, Piece] = {}
    for name, piece in stored.items():
        for pattern, becomes in _VAE:
            name = re.sub(pattern, becomes, name)
        if _QKV in name:
            for i, layer in enumerate(("to_q", "to_k", "to_v")):
                tensors[name.replace(_QKV, f".attn.{layer}.")] = piece.strided(i * _HEAD, _HEAD, 3 * _HEAD)
        else:
            tensors[name] = piece.swapped() if ".ff.net.0.proj." in name else piece
    return tensors, []


def _config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of a MiniMaxH3Transformer3DModel from the shapes of its tensors."""
    width, patch = pieces["proj_in.weight"].shape
    block = "transformer_blocks.0"
    (head,) = pieces[f"{block}.attn.norm_q.weight"].shape
    config = dict(base) | {
        "hidden_size": width,
        "in_channels": patch // 4,
        "audio_in_channels": pieces["audio_proj_in.weight"].shape[1],
        "attention_head_dim": head,
        "num_attention_heads": pieces[f"{block}.attn.to_q.weight"].shape[0] // head,
        "ffn_dim": pieces[f"{block}.ff.net.2.weight"].shape[1],
        "text_dim": pieces["context_embedder.weight"].shape[1],
        "num_layers": count(pieces, r"transformer_blocks\.(\d+)\."),
        "num_refiner_layers": count(pieces, r"token_refiner\.refiner_blocks\.(\d+)\."),
        "time_embed_dim": pieces["norm_out.linear.weight"].shape[1],
    }
    if waves := pieces.get("rope.inv_freq"):
        config["rope_freq_dim"] = waves.shape[0]
    if table := pieces.get("time_embedder.table"):
        return config | {"curve_points": table.shape[0]}
    hidden, freq = pieces["time_embedder.linear_1.weight"].shape
    return config | {"time_embed_hidden_dim": hidden, "freq_dim": freq}


def _vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLMiniMaxH3 from the shapes of its tensors."""
    levels = count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    width, channels = pieces["decoder.proj_in.weight"].shape
    factors = {k: list(base[k])[:levels] for k in ("spatial_downsample_factors", "temporal_downsample_factors")}
    return (
        dict(base)
        | factors
        | {
            "latent_channels": channels,
            "block_out_channels": [
                pieces[f"encoder.down_blocks.{i}.resnets.0.conv2.weight"].shape[0] for i in range(levels)
            ],
            "layers_per_block": count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
            "decoder_num_layers": count(pieces, r"decoder\.transformer_blocks\.(\d+)\."),
            "decoder_num_attention_heads": width // base["decoder_attention_head_dim"],
            "decoder_num_register_tokens": pieces["decoder.register_tokens"].shape[1],
            "decoder_ffn_mult": pieces["decoder.transformer_blocks.0.ff.net.2.weight"].shape[1] // width,
        }
        | _statistics(pieces)
    )


def _audio_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLMiniMaxH3Audio from the shapes of its tensors."""
    folded = "decoder.conv_pre.weight" in pieces
    end = "weight" if folded else "weight_v"
    strides = count(pieces, r"encoder\.block\.(\d+)\.block\.4\.") - 1
    kernels = [pieces[f"decoder.ups.{i}.0.{end}"].shape[-1] for i in range(count(pieces, r"decoder\.ups\.(\d+)\."))]
    each = count(pieces, r"decoder\.resblocks\.(\d+)\.") // len(kernels)
    dilations = base["resblock_dilation_sizes"][0][: count(pieces, r"decoder\.resblocks\.0\.convs1\.(\d+)\.")]
    return (
        dict(base)
        | {
            "resblock_kernel_sizes": [pieces[f"decoder.resblocks.{i}.convs1.0.{end}"].shape[-1] for i in range(each)],
            "resblock_dilation_sizes": [dilations] * each,
            "encoder_dim": pieces[f"encoder.block.0.{end}"].shape[0],
            "encoder_rates": [pieces[f"encoder.block.{i + 1}.block.4.{end}"].shape[-1] // 2 for i in range(strides)],
            "latent_dim": pieces["dec_in_proj.weight"].shape[0],
            "latent_channels": pieces["dec_in_proj.weight"].shape[1],
            "decoder_dim": pieces[f"decoder.conv_pre.{end}"].shape[0],
            "decoder_rates": [(k + 1) // 2 for k in kernels],
            "decoder_kernel_sizes": kernels,
            "folded": folded,
        }
        | _statistics(pieces)
    )


def _statistics(pieces: Pieces) -> dict[str, Any]:
    """Mean and standard deviation of the latent channels, if the file holds them."""
    statistics: dict[str, Any] = {}
    for name in ("latents_mean", "latents_std"):
        if piece := pieces.get(name):
            if piece.dtype not in _SAMPLES or len(piece.shape) != 1:
                raise LoadError(f"{piece.file}: `{name}` is {piece.dtype} {list(piece.shape)}, no row of numbers")
            form = f"<{piece.shape[0]}{_SAMPLES[piece.dtype]}"
            with piece.file.open("rb") as file:
                file.seek(piece.begin)
                statistics[name] = list(struct.unpack(form, file.read(struct.calcsize(form))))
    return statistics | {"statistics_in_file": bool(statistics)}


TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_minimax_h3:MiniMaxH3Transformer3DModel",
    layouts=(
        FileLayout(present("video_patch_proj.weight", "audio_patch_proj.weight"), NAMES),
        FileLayout(present("audio_proj_in.weight", "token_refiner.final_norm.weight")),
    ),
    config=_config,
    base={"patch_size": [1, 2, 2], "freq_dim": 256, "rope_freq_dim": 16},
    ignored=r"to_gate_compress\.weight$",  # block-sparse attention
    adapt="pipegraph.models.families.minimax.modules:adapt",
    keeps_float32=True,
)
VAE = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_minimax_h3:AutoencoderKLMiniMaxH3",
    layouts=(
        FileLayout(present("decoder.x_embedder.weight", "decoder.register_tokens"), Renaming(_vae_tensors)),
        FileLayout(present("decoder.register_tokens", "decoder.proj_in.weight")),
    ),
    config=_vae_config,
    base=_VAE_BASE,
    ignored=r"decoder\.mask_token$",  # for training
    adapt="pipegraph.models.families.minimax.modules:adapt",
    keeps_float32=True,
    latent=lambda config: LatentFormat(channels=config["latent_channels"], downscale=CELL, patch=2, frames=FRAMES),
    value="pipegraph.models.families.minimax.vae:MiniMaxVae",
)
AUDIO_VAE = Network(
    kind="audio_vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_minimax_h3_audio:AutoencoderKLMiniMaxH3Audio",
    layouts=(FileLayout(present("dec_in_proj.weight", "pre_block.attn.qkv.weight")),),
    config=_audio_config,
    base={
        "num_attention_heads": 8,
        "resblock_kernel_sizes": [3, 7, 11],
        "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "sampling_rate": 32000,
    },
    adapt="pipegraph.models.families.minimax.modules:adapt",
    float32=True,
    keeps_float32=True,
    latent=lambda config: LatentFormat(channels=config["latent_channels"], downscale=1),
    value="pipegraph.models.families.minimax.vae:MiniMaxSoundVae",
)
