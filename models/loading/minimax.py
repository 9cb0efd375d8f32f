"""How MiniMax-H3's networks are named and shaped in files: ComfyUI's single files, and diffusers' folders. Torch-free.

Facts: diffusers' mapping of the network and its script for the VAEs, and the layout of ComfyUI's files. In those q, k
and v are one matrix: of the network one after the other, of the VAE head by head. Gates come first, in diffusers last.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any, Final

from .headers import LoadError
from .pieces import Piece

Pieces = Mapping[str, Piece]

_NETWORK: Final = (
    (r"^blocks\.", "transformer_blocks."), (r"^token_refiner\.blocks\.", "token_refiner.refiner_blocks."),
    (r"^time_embedder\.proj_in\.", "time_embedder.linear_1."),
    (r"^time_embedder\.proj_out\.", "time_embedder.linear_2."), (r"^adaln_t_table$", "time_embedder.table"),
    (r"^video_patch_proj\.", "proj_in."), (r"^audio_patch_proj\.", "audio_proj_in."),
    (r"^condition_proj\.", "context_embedder."), (r"^final_layer\.norm\.", "norm_out.norm."),
    (r"^final_layer\.adaln_proj\.", "norm_out."), (r"^final_layer\.video_out\.", "proj_out."),
    (r"^final_layer\.audio_out\.", "audio_proj_out."), (r"\.attn\.([qk])_norm\.", r".attn.norm_\1."),
    (r"\.attn\.out_proj\.", ".attn.to_out.0."), (r"\.mlp\.fc1\.", ".ff.net.0.proj."), (r"\.mlp\.fc2\.", ".ff.net.2."),
)  # fmt: skip
_LAYERS: Final = (
    (r"^transformer_blocks\.", "blocks."), (r"^token_refiner\.refiner_blocks\.", "token_refiner.blocks."),
    (r"\.attn\.to_out\.0$", ".attn.out_proj"), (r"\.attn\.to_[qkv]$", ".attn.qkv_proj"),
    (r"\.ff\.net\.0\.proj$", ".mlp.fc1"), (r"\.ff\.net\.2$", ".mlp.fc2"), (r"^proj_in$", "video_patch_proj"),
    (r"^audio_proj_in$", "audio_patch_proj"), (r"^context_embedder$", "condition_proj"),
    (r"^norm_out\.linear$", "final_layer.adaln_proj.linear"), (r"^proj_out$", "final_layer.video_out"),
    (r"^audio_proj_out$", "final_layer.audio_out"), (r"^time_embedder\.linear_1$", "time_embedder.proj_in"),
    (r"^time_embedder\.linear_2$", "time_embedder.proj_out"),
)  # fmt: skip
"""The inverse of ``_NETWORK``, of linear layers; q, k and v are one."""
_VAE: Final = (
    (r"^encoder\.down\.(\d+)\.block\.", r"encoder.down_blocks.\1.resnets."), (r"\.nin_shortcut\.", ".conv_shortcut."),
    (r"^encoder\.down\.(\d+)\.downsample\.", r"encoder.down_blocks.\1.downsamplers.0."),
    (r"^decoder\.x_embedder\.", "decoder.proj_in."), (r"\.attn\.to_out\.", ".attn.to_out.0."),
    (r"\.ff\.w1\.", ".ff.net.0.proj."), (r"\.ff\.w2\.", ".ff.net.2."),
)  # fmt: skip
_QKV: Final = re.compile(r"\.attn\.(qkv_proj|to_qkv)\.")
_UNUSED: Final = ("decoder.mask_token", "to_gate_compress.weight")
"""Ends of names: what only training read, and what only block-sparse attention reads."""
_HEAD: Final = 64
"""Width of a head of the VAE's decoder, which no shape tells."""
_SAMPLES: Final = {"F32": "f", "F16": "e", "F64": "d"}


def is_original(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of the network in ComfyUI's files."""
    return "video_patch_proj.weight" in names and "audio_patch_proj.weight" in names


def is_diffusers(names: Mapping[str, Any]) -> bool:
    """Whether these are diffusers' names of the network."""
    return "audio_proj_in.weight" in names and "token_refiner.final_norm.weight" in names


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    heads = [n for n in stored if n.startswith("final_layer.video_out.weight")]
    rows = stored[heads[0]].shape[0] if heads else 0
    if rows != stored["video_patch_proj.weight"].shape[1]:
        raise LoadError(
            f"{next(iter(stored.values())).file}: this MiniMax-H3 has a bank of output layers ({rows} rows), a form "
            "for few steps that is not read; load the network itself"
        )
    return _renamed(stored, _NETWORK, head=0), []


def _renamed(stored: Pieces, table: tuple[tuple[str, str], ...], head: int) -> dict[str, Piece]:
    """By diffusers' names; q, k and v of each head in ``head`` rows, or 0: one after the other."""
    made: dict[str, Piece] = {}
    for name, piece in stored.items():
        if name.endswith(_UNUSED):
            continue
        new = name
        for pattern, becomes in table:
            new = re.sub(pattern, becomes, new)
        if _QKV.search(new):
            third = piece.shape[0] // 3
            for i, part in enumerate(("to_q", "to_k", "to_v")):
                mine = piece.strided(i * head, head, 3 * head) if head else piece.rows(i * third, third)
                made[_QKV.sub(f".attn.{part}.", new)] = mine
        else:
            made[new] = piece.swapped() if ".ff.net.0.proj." in new else piece
    return made


def original_name(layer: str) -> str:
    """What ComfyUI's files call a linear layer of the network."""
    for begin, becomes in _LAYERS:
        layer = re.sub(begin, becomes, layer)
    return layer


def network_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
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
        "num_layers": _count(pieces, r"transformer_blocks\.(\d+)\."),
        "num_refiner_layers": _count(pieces, r"token_refiner\.refiner_blocks\.(\d+)\."),
        "time_embed_dim": pieces["norm_out.linear.weight"].shape[1],
    }
    if waves := pieces.get("rope.inv_freq"):
        config["rope_freq_dim"] = waves.shape[0]
    if table := pieces.get("time_embedder.table"):
        return config | {"curve_points": table.shape[0]}
    hidden, freq = pieces["time_embedder.linear_1.weight"].shape
    return config | {"time_embed_hidden_dim": hidden, "freq_dim": freq}


def is_original_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of the VAE in ComfyUI's files."""
    return "decoder.x_embedder.weight" in names and "decoder.register_tokens" in names


def is_diffusers_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are diffusers' names of the VAE."""
    return "decoder.register_tokens" in names and "decoder.proj_in.weight" in names


def from_original_vae(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names; statistics of the latents stay among them for the config."""
    return _renamed(stored, _VAE, head=_HEAD), []


def vae_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLMiniMaxH3 from the shapes of its tensors."""
    levels = _count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    width, channels = pieces["decoder.proj_in.weight"].shape
    told = {k: list(base[k])[:levels] for k in ("spatial_downsample_factors", "temporal_downsample_factors")}
    return (
        dict(base)
        | told
        | {
            "latent_channels": channels,
            "block_out_channels": [
                pieces[f"encoder.down_blocks.{i}.resnets.0.conv2.weight"].shape[0] for i in range(levels)
            ],
            "layers_per_block": _count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
            "decoder_num_layers": _count(pieces, r"decoder\.transformer_blocks\.(\d+)\."),
            "decoder_num_attention_heads": width // base["decoder_attention_head_dim"],
            "decoder_num_register_tokens": pieces["decoder.register_tokens"].shape[1],
            "decoder_ffn_mult": pieces["decoder.transformer_blocks.0.ff.net.2.weight"].shape[1] // width,
        }
        | _statistics(pieces)
    )


def is_audio_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of the VAE of sound, in either layout."""
    return "dec_in_proj.weight" in names and "pre_block.attn.qkv.weight" in names


def from_original_audio(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The names are diffusers' own."""
    return dict(stored), []


def audio_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLMiniMaxH3Audio from the shapes of its tensors."""
    folded = "decoder.conv_pre.weight" in pieces
    end = "weight" if folded else "weight_v"
    strides = _count(pieces, r"encoder\.block\.(\d+)\.block\.4\.") - 1
    kernels = [pieces[f"decoder.ups.{i}.0.{end}"].shape[-1] for i in range(_count(pieces, r"decoder\.ups\.(\d+)\."))]
    each = _count(pieces, r"decoder\.resblocks\.(\d+)\.") // len(kernels)
    dilations = base["resblock_dilation_sizes"][0][: _count(pieces, r"decoder\.resblocks\.0\.convs1\.(\d+)\.")]
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
    """Mean and deviation of the latents' channels, where the file holds them."""
    found: dict[str, Any] = {}
    for name in ("latents_mean", "latents_std"):
        if piece := pieces.get(name):
            if piece.dtype not in _SAMPLES or len(piece.shape) != 1:
                raise LoadError(f"{piece.file}: `{name}` is {piece.dtype} {list(piece.shape)}, no row of numbers")
            form = f"<{piece.shape[0]}{_SAMPLES[piece.dtype]}"
            with piece.file.open("rb") as file:
                file.seek(piece.begin)
                found[name] = list(struct.unpack(form, file.read(struct.calcsize(form))))
    return found | {"statistics_in_file": bool(found)}


def _count(pieces: Pieces, pattern: str) -> int:
    return 1 + max((int(m[1]) for name in pieces if (m := re.match(pattern, name))), default=-1)


def _as_it_is(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    return dict(stored), []


NETWORKS: Final = (
    ("transformer", is_original, from_original, network_config),
    ("transformer", is_diffusers, _as_it_is, network_config),
    ("vae", is_original_vae, from_original_vae, vae_config),
    ("vae", is_diffusers_vae, _as_it_is, vae_config),
    ("audio_vae", is_audio_vae, from_original_audio, audio_config),
)
"""Kind of each network, how it is known, and how it is brought to its class's terms."""
