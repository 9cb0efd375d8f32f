"""How LTX-2's networks are named and shaped in files: the original's one file for all, and diffusers' folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from . import ltx
from .pieces import Piece

Pieces = Mapping[str, Piece]

_NETWORK = {
    "patchify_proj": "proj_in", "audio_patchify_proj": "audio_proj_in", "adaln_single": "time_embed",
    "audio_adaln_single": "audio_time_embed", "prompt_adaln_single": "prompt_adaln",
    "audio_prompt_adaln_single": "audio_prompt_adaln", "q_norm": "norm_q", "k_norm": "norm_k",
    "av_ca_video_scale_shift_adaln_single": "av_cross_attn_video_scale_shift",
    "av_ca_audio_scale_shift_adaln_single": "av_cross_attn_audio_scale_shift",
    "av_ca_a2v_gate_adaln_single": "av_cross_attn_video_a2v_gate",
    "av_ca_v2a_gate_adaln_single": "av_cross_attn_audio_v2a_gate",
    "scale_shift_table_a2v_ca_video": "video_a2v_cross_attn_scale_shift_table",
    "scale_shift_table_a2v_ca_audio": "audio_a2v_cross_attn_scale_shift_table",
}  # fmt: skip
_BACK = {new: old for old, new in _NETWORK.items()}
_CONNECTORS = {
    "video_embeddings_connector": "video_connector", "audio_embeddings_connector": "audio_connector",
    "transformer_1d_blocks": "transformer_blocks", "q_norm": "norm_q", "k_norm": "norm_k",
}  # fmt: skip
_PROJECTIONS = {"aggregate_embed": "text_proj_in", "video_aggregate_embed": "video_text_proj_in",
                "audio_aggregate_embed": "audio_text_proj_in"}  # fmt: skip
_VOCODER = {"conv_pre": "conv_in", "conv_post": "conv_out", "ups": "upsamplers", "resblocks": "resnets",
            "act_post": "act_out"}  # fmt: skip
_VOCODER_TOLD = {
    "upsample_rates": "upsample_factors",
    "upsample_kernel_sizes": "upsample_kernel_sizes",
    "resblock_kernel_sizes": "resnet_kernel_sizes",
    "resblock_dilation_sizes": "resnet_dilations",
    "upsample_initial_channel": "hidden_channels",
    "output_sampling_rate": "output_sampling_rate",
}
_WIDER_TOLD = {
    "n_fft": "filter_length", "win_size": "window_length", "hop_length": "hop_length", "num_mels": "num_mel_channels",
    "input_sampling_rate": "input_sampling_rate", "output_sampling_rate": "output_sampling_rate",
}  # fmt: skip
_SHARED = ("attention_head_dim", "num_attention_heads", "audio_attention_head_dim", "audio_num_attention_heads",
           "norm_eps", "rope_type")  # fmt: skip
"""Keys of a network's config that the original's metadata has under the same names."""


def gathered(stored: Mapping[str, Piece]) -> dict[str, Piece]:
    """The pieces of a file, with those of the text connectors, which lie in two places, under ``connectors.``."""
    found = re.compile(r"(model\.diffusion_model\.)?(video_embeddings_connector|audio_embeddings_connector|"
                       r"text_embedding_projection)\.")  # fmt: skip
    return {
        f"connectors.{name.removeprefix('model.diffusion_model.')}" if found.match(name) else name: piece
        for name, piece in stored.items()
    }


def _renamed(stored: Pieces, table: Mapping[str, str]) -> dict[str, Piece]:
    return {".".join(table.get(part, part) for part in name.split(".")): piece for name, piece in stored.items()}


def original_name(name: str) -> str:
    """A tensor of LTX-Video's or LTX-2's network by its name in the original layout."""
    return ".".join(_BACK.get(part, part) for part in name.split("."))


def is_original(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an LTX-2 network in the original layout."""
    return "audio_patchify_proj.weight" in names


def is_diffusers(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of an LTX-2 network in diffusers' layout."""
    return "audio_proj_in.weight" in names and "av_cross_attn_video_a2v_gate.linear.weight" in names


def from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    return _renamed(stored, _NETWORK), []


def network_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an LTX2VideoTransformer3DModel from the shapes of its tensors; ``base`` says how many heads (32)."""
    block = "transformer_blocks.0"
    text = pieces.get("caption_projection.linear_1.weight")
    config = dict(base) | {
        "num_layers": 1 + max(int(n.split(".")[1]) for n in pieces if n.startswith("transformer_blocks.")),
        "use_prompt_embeddings": text is not None,
        "ff_bias": f"{block}.ff.net.2.bias" in pieces,
        "audio_ff_bias": f"{block}.audio_ff.net.2.bias" in pieces,
        "use_prompt_adaln_single": "prompt_adaln.linear.weight" in pieces,
        "use_keyframes_abs_pos_embedding": "keyframes_abs_pos_embedding" in pieces,
    }
    if text:
        config["caption_channels"] = text.shape[1]
    for side in ("", "audio_"):
        width, channels = pieces[f"{side}proj_in.weight"].shape
        config |= {
            f"{side}in_channels": channels,
            f"{side}out_channels": pieces[f"{side}proj_out.weight"].shape[0],
            f"{side}attention_head_dim": width // base[f"{side}num_attention_heads"],
            f"{side}cross_attention_dim": pieces[f"{block}.{side}attn2.to_k.weight"].shape[1],
            f"{side}gated_attn": f"{block}.{side}attn1.to_gate_logits.weight" in pieces,
            f"{side}cross_attn_mod": pieces[f"{block}.{side}scale_shift_table"].shape[0] == 9,
        }
    return config


def told_of_network(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of the network, in diffusers' terms."""
    if "Transformer3DModel" in str(told.get("_class_name", "")) and not str(told["_class_name"]).startswith("LTX2"):
        return {k: told[k] for k in _SHARED if k in told}
    return dict(told)


def is_original_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-2's VAE in the original layout: 0.9.5's, but it is told no time."""
    return (
        ltx.is_original_vae(names)
        and "encoder.down_blocks.1.conv.conv.weight" in names
        and "decoder.timestep_scale_multiplier" not in names
    )


def vae_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLLTX2Video from the shapes of its tensors."""
    config = ltx.vae_config(pieces, base)
    return config | {
        "block_out_channels": config["block_out_channels"][1:],
        "down_block_types": ["LTX2VideoDownBlock3D"] * len(config["down_block_types"]),
        "upsample_type": ltx.upsample_types(pieces)[::-1],
    }


def is_audio_vae(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-2's VAE of spectrograms, in either layout."""
    return "decoder.mid.block_1.conv1.conv.weight" in names and "encoder.conv_in.conv.weight" in names


def from_original_audio(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    told = {
        "per_channel_statistics.mean-of-means": "latents_mean",
        "per_channel_statistics.std-of-means": "latents_std",
    }
    return {told.get(n, n): p for n, p in stored.items()}, []


def audio_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an AutoencoderKLLTX2Audio from the shapes of its tensors."""
    (features,) = pieces["latents_mean"].shape
    channels = pieces["decoder.conv_in.conv.weight"].shape[1]
    levels = 1 + max(int(n.split(".")[2]) for n in pieces if n.startswith("encoder.down."))
    return dict(base) | {
        "base_channels": features,
        "latent_channels": channels,
        "mel_bins": 4 * features // channels,
        "in_channels": pieces["encoder.conv_in.conv.weight"].shape[1],
        "output_channels": pieces["decoder.conv_out.conv.weight"].shape[0],
        "ch_mult": [pieces[f"encoder.down.{i}.block.0.conv2.conv.weight"].shape[0] // features for i in range(levels)],
        "num_res_blocks": 1 + max(int(n.split(".")[4]) for n in pieces if n.startswith("encoder.down.0.block.")),
    }


def told_of_audio(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of the VAE of spectrograms: nothing that the shapes do not, in the original."""
    return {} if "model" in told else dict(told)


def is_vocoder(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-2's vocoder, or of LTX-2.3's with its second stage, in either layout."""
    return any(f"{stage}{name}.0.weight" in names for stage in ("", "vocoder.") for name in ("ups", "upsamplers"))


def from_original_vocoder(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    return {n.replace(".downsample.lowpass.", ".downsample."): p for n, p in _renamed(stored, _VOCODER).items()}, []


def vocoder_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an LTX2Vocoder from the shapes of its tensors; factors and dilations from ``base``.

    With a second stage it is that of an LTX2VocoderWithBWE, whose class knows the usual factors.
    """
    if "bwe_generator.conv_in.weight" not in pieces:
        return dict(base) | _stage_config(pieces, "", "")
    made = _stage_config(pieces, "vocoder.", "") | _stage_config(pieces, "bwe_generator.", "bwe_")
    window = pieces["mel_stft.stft_fn.forward_basis"].shape[2]
    return made | {
        "_class_name": "LTX2VocoderWithBWE", "filter_length": window, "window_length": window,
        "num_mel_channels": pieces["mel_stft.mel_basis"].shape[0],
    }  # fmt: skip


def _stage_config(pieces: Pieces, stage: str, prefix: str) -> dict[str, Any]:
    hidden, channels, _ = pieces[f"{stage}conv_in.weight"].shape
    return {
        f"{prefix}in_channels": channels, f"{prefix}hidden_channels": hidden,
        f"{prefix}out_channels": pieces[f"{stage}conv_out.weight"].shape[0],
        f"{prefix}final_bias": f"{stage}conv_out.bias" in pieces,
    }  # fmt: skip


def told_of_vocoder(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a file's metadata says of the vocoder, in diffusers' terms."""
    if "bwe" in told:
        stages = ("", told.get("vocoder", {})), ("bwe_", told["bwe"])
        made = {f"{prefix}{k}": v for prefix, stage in stages for k, v in _told_of_stage(stage).items()}
        made |= {f"{prefix}final_act_fn": _end(stage) for prefix, stage in stages}
        wider = {new: told["bwe"][old] for old, new in _WIDER_TOLD.items() if old in told["bwe"]}
        return {k: v for k, v in made.items() if not k.endswith("output_sampling_rate")} | wider
    return _told_of_stage(told) if "upsample_rates" in told else dict(told)


def _told_of_stage(told: Mapping[str, Any]) -> dict[str, Any]:
    made = {new: told[old] for old, new in _VOCODER_TOLD.items() if old in told}
    if str(told.get("resblock")).startswith("AMP"):
        made |= {"act_fn": told.get("activation", "snake"), "antialias": True}
    return made


def _end(stage: Mapping[str, Any]) -> str | None:
    """What a stage's samples go through: the original clips those that it does not bend."""
    if not stage.get("apply_final_activation", True):
        return None
    return "tanh" if stage.get("use_tanh_at_final", True) else "clamp"


def is_connectors(names: Mapping[str, Any]) -> bool:
    """Whether these are the names of LTX-2's text connectors, in either layout."""
    return any(n.startswith(("video_embeddings_connector.", "video_connector.")) for n in names)


def from_original_connectors(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """The pieces by diffusers' names."""
    made = {}
    for name, piece in _renamed(stored, _CONNECTORS).items():
        head, _, rest = name.removeprefix("text_embedding_projection.").partition(".")
        made[f"{_PROJECTIONS.get(head, head)}.{rest}"] = piece
    return made, []


def connectors_config(pieces: Pieces, base: Mapping[str, Any]) -> dict[str, Any]:
    """Config of an LTX2TextConnectors from the shapes of its tensors."""
    one = pieces.get("text_proj_in.weight")
    first = one or pieces["video_text_proj_in.weight"]
    channels = one.shape[0] if one else base["caption_channels"]
    config = dict(base) | {
        "caption_channels": channels,
        "text_proj_in_factor": first.shape[1] // channels,
        "per_modality_projections": one is None,
        "proj_bias": "text_proj_in.bias" in pieces or "video_text_proj_in.bias" in pieces,
    }
    for side in ("video", "audio"):
        prefix = f"{side}_connector."
        width = pieces[f"{prefix}transformer_blocks.0.attn1.to_q.weight"].shape[0]
        heads = base[f"{side}_connector_num_attention_heads"] if one else 32
        registers = pieces.get(f"{prefix}learnable_registers")
        blocks = (n for n in pieces if n.startswith(f"{prefix}transformer_blocks."))
        config |= {
            f"{prefix[:-1]}_num_attention_heads": heads,
            f"{prefix[:-1]}_attention_head_dim": width // heads,
            f"{prefix[:-1]}_num_layers": 1 + max(int(n.split(".")[2]) for n in blocks),
            f"{prefix[:-1]}_num_learnable_registers": registers.shape[0] if registers else None,
            f"{side}_gated_attn": f"{prefix}transformer_blocks.0.attn1.to_gate_logits.weight" in pieces,
            f"{side}_hidden_dim": width,
        }
    return config


def _as_it_is(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    return dict(stored), []


NETWORKS: Final = (
    ("transformer", is_original, from_original, network_config, told_of_network),
    ("transformer", is_diffusers, _as_it_is, network_config, told_of_network),
    ("vae", is_original_vae, ltx.from_original_vae, vae_config, ltx.told_of_vae),
    ("audio_vae", is_audio_vae, from_original_audio, audio_config, told_of_audio),
    ("vocoder", is_vocoder, from_original_vocoder, vocoder_config, told_of_vocoder),
    ("connectors", is_connectors, from_original_connectors, connectors_config, dict),
)
"""Kind of each network, how it is known, and how it is brought to its class's terms."""
