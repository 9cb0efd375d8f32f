"""LTX-2's networks in files: the original single file and diffusers folders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...family import Config, FileLayout, LatentFormat, Network, Pieces
from ...loading.names import Components, Renaming, each, present
from ...loading.pieces import Piece
from . import vae_networks

_NETWORK = Components(
    {
        "patchify_proj": "proj_in",
        "audio_patchify_proj": "audio_proj_in",
        "adaln_single": "time_embed",
        "audio_adaln_single": "audio_time_embed",
        "prompt_adaln_single": "prompt_adaln",
        "audio_prompt_adaln_single": "audio_prompt_adaln",
        "q_norm": "norm_q",
        "k_norm": "norm_k",
        "av_ca_video_scale_shift_adaln_single": "av_cross_attn_video_scale_shift",
        "av_ca_audio_scale_shift_adaln_single": "av_cross_attn_audio_scale_shift",
        "av_ca_a2v_gate_adaln_single": "av_cross_attn_video_a2v_gate",
        "av_ca_v2a_gate_adaln_single": "av_cross_attn_audio_v2a_gate",
        "scale_shift_table_a2v_ca_video": "video_a2v_cross_attn_scale_shift_table",
        "scale_shift_table_a2v_ca_audio": "audio_a2v_cross_attn_scale_shift_table",
    }
)
_CONNECTORS = Components(
    {
        "video_embeddings_connector": "video_connector",
        "audio_embeddings_connector": "audio_connector",
        "transformer_1d_blocks": "transformer_blocks",
        "q_norm": "norm_q",
        "k_norm": "norm_k",
    }
)
_PROJECTIONS = {
    "aggregate_embed": "text_proj_in",
    "video_aggregate_embed": "video_text_proj_in",
    "audio_aggregate_embed": "audio_text_proj_in",
}
_VOCODER = Components(
    {"conv_pre": "conv_in", "conv_post": "conv_out", "ups": "upsamplers", "resblocks": "resnets", "act_post": "act_out"}
)
_VOCODER_KEYS = {
    "upsample_rates": "upsample_factors",
    "upsample_kernel_sizes": "upsample_kernel_sizes",
    "resblock_kernel_sizes": "resnet_kernel_sizes",
    "resblock_dilation_sizes": "resnet_dilations",
    "upsample_initial_channel": "hidden_channels",
    "output_sampling_rate": "output_sampling_rate",
}
_WIDER_KEYS = {
    "n_fft": "filter_length",
    "win_size": "window_length",
    "hop_length": "hop_length",
    "num_mels": "num_mel_channels",
    "input_sampling_rate": "input_sampling_rate",
    "output_sampling_rate": "output_sampling_rate",
}
_SHARED = (
    "attention_head_dim",
    "num_attention_heads",
    "audio_attention_head_dim",
    "audio_num_attention_heads",
    "norm_eps",
    "rope_type",
)
"""Config keys with the same names in the original's metadata."""


def _config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTX2VideoTransformer3DModel from tensor shapes; head count from ``base`` (32)."""
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


def _metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The network config in a file's metadata, with diffusers' keys."""
    if "Transformer3DModel" in str(config.get("_class_name", "")) and not str(config["_class_name"]).startswith("LTX2"):
        return {k: config[k] for k in _SHARED if k in config}
    return dict(config)


def _vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLLTX2Video from the shapes of its tensors."""
    config = vae_networks.vae_config(pieces, base)
    return config | {
        "block_out_channels": config["block_out_channels"][1:],
        "down_block_types": ["LTX2VideoDownBlock3D"] * len(config["down_block_types"]),
        "upsample_type": vae_networks.upsample_types(pieces)[::-1],
    }


def _audio_config(pieces: Pieces, base: Config) -> dict[str, Any]:
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


def _audio_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The audio VAE config in a file's metadata; the original states nothing beyond the shapes."""
    return {} if "model" in config else dict(config)


def _is_vocoder(stored: Pieces, stage: str, wider: bool) -> bool:
    known = any(f"{stage}{name}.0.weight" in stored for name in ("ups", "upsamplers"))
    return known and wider == any(name.startswith("bwe_generator.") for name in stored)


def _vocoder_tensors(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    tensors, unknown = _VOCODER.to_class(stored)
    return {n.replace(".downsample.lowpass.", ".downsample."): p for n, p in tensors.items()}, unknown


def _vocoder_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTX2Vocoder from tensor shapes; upsampling factors and dilations from ``base``."""
    return dict(base) | _stage_config(pieces, "", "")


def _wider_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTX2VocoderWithBWE (two stages); upsampling factors are the class's defaults."""
    window = pieces["mel_stft.stft_fn.forward_basis"].shape[2]
    stages = _stage_config(pieces, "vocoder.", "") | _stage_config(pieces, "bwe_generator.", "bwe_")
    return stages | {
        "filter_length": window,
        "window_length": window,
        "num_mel_channels": pieces["mel_stft.mel_basis"].shape[0],
    }


def _stage_config(pieces: Pieces, stage: str, prefix: str) -> dict[str, Any]:
    hidden, channels, _ = pieces[f"{stage}conv_in.weight"].shape
    return {
        f"{prefix}in_channels": channels,
        f"{prefix}hidden_channels": hidden,
        f"{prefix}out_channels": pieces[f"{stage}conv_out.weight"].shape[0],
        f"{prefix}final_bias": f"{stage}conv_out.bias" in pieces,
    }


def _vocoder_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The vocoder config in a file's metadata, with diffusers' keys."""
    if "bwe" in config:
        stages = ("", config.get("vocoder", {})), ("bwe_", config["bwe"])
        config_of = {f"{prefix}{k}": v for prefix, stage in stages for k, v in _stage_metadata(stage).items()}
        config_of |= {f"{prefix}final_act_fn": _end(stage) for prefix, stage in stages}
        wider = {new: config["bwe"][old] for old, new in _WIDER_KEYS.items() if old in config["bwe"]}
        return {k: v for k, v in config_of.items() if not k.endswith("output_sampling_rate")} | wider
    return _stage_metadata(config) if "upsample_rates" in config else dict(config)


def _stage_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    values = {new: config[old] for old, new in _VOCODER_KEYS.items() if old in config}
    if str(config.get("resblock")).startswith("AMP"):
        values |= {"act_fn": config.get("activation", "snake"), "antialias": True}
    return values


def _end(stage: Mapping[str, Any]) -> str | None:
    """Final activation of a stage: None, tanh or clamp."""
    if not stage.get("apply_final_activation", True):
        return None
    return "tanh" if stage.get("use_tanh_at_final", True) else "clamp"


def _is_connectors(stored: Pieces) -> bool:
    return any(n.startswith(("video_embeddings_connector.", "video_connector.")) for n in stored)


def _connectors_tensors(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    tensors = {}
    for name, piece in _CONNECTORS.to_class(stored)[0].items():
        head, _, rest = name.removeprefix("text_embedding_projection.").partition(".")
        tensors[f"{_PROJECTIONS.get(head, head)}.{rest}"] = piece
    return tensors, []


def _connectors_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTX2TextConnectors from the shapes of its tensors."""
    shared = pieces.get("text_proj_in.weight")
    first = shared or pieces["video_text_proj_in.weight"]
    channels = shared.shape[0] if shared else base["caption_channels"]
    config = dict(base) | {
        "caption_channels": channels,
        "text_proj_in_factor": first.shape[1] // channels,
        "per_modality_projections": shared is None,
        "proj_bias": "text_proj_in.bias" in pieces or "video_text_proj_in.bias" in pieces,
    }
    for side in ("video", "audio"):
        prefix = f"{side}_connector."
        width = pieces[f"{prefix}transformer_blocks.0.attn1.to_q.weight"].shape[0]
        heads = base[f"{side}_connector_num_attention_heads"] if shared else 32
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


TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_ltx2:LTX2VideoTransformer3DModel",
    layouts=(
        FileLayout(present("audio_patchify_proj.weight"), _NETWORK),
        FileLayout(present("audio_proj_in.weight", "av_cross_attn_video_a2v_gate.linear.weight")),
    ),
    config=_config,
    base={"num_attention_heads": 32, "audio_num_attention_heads": 32, "rope_type": "split"},
    metadata=_metadata,
    fragile=(
        "*proj_in",
        "*proj_out",
        "*time_embed.*",
        "*caption_projection.*",
        "av_cross_attn_*",
        "*prompt_adaln.*",
        "*to_gate_logits",
    ),
    blocks={"LTX2VideoTransformerBlock": ("hidden_states", "audio_hidden_states")},
)
VAE = replace(
    vae_networks.VAE,
    cls="diffusers.models.autoencoders.autoencoder_kl_ltx2:AutoencoderKLLTX2Video",
    layouts=(FileLayout(vae_networks.is_original_2, Renaming(vae_networks.from_original)),),
    config=_vae_config,
    base={
        "in_channels": 3,
        "out_channels": 3,
        "patch_size_t": 1,
        "scaling_factor": 1.0,
        "encoder_causal": True,
        "decoder_causal": False,
        "encoder_spatial_padding_mode": "zeros",
        "decoder_spatial_padding_mode": "reflect",
    },
)
AUDIO_VAE = Network(
    kind="audio_vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_ltx2_audio:AutoencoderKLLTX2Audio",
    layouts=(
        FileLayout(
            present(
                "decoder.mid.block_1.conv1.conv.weight",
                "encoder.conv_in.conv.weight",
                absent=["decoder.mid.attn_1.norm.gamma"],
            ),
            each(lambda name: vae_networks.STATISTICS.get(name, name)),
        ),
    ),
    config=_audio_config,
    base={
        "sample_rate": 16000,
        "mel_hop_length": 160,
        "norm_type": "pixel",
        "causality_axis": "height",
        "mid_block_add_attention": False,
    },
    metadata=_audio_metadata,
    latent=lambda config: LatentFormat(channels=config["latent_channels"], downscale=1),
)
VOCODER = Network(
    kind="vocoder",
    cls="diffusers.pipelines.ltx2.vocoder:LTX2Vocoder",
    layouts=(FileLayout(lambda stored: _is_vocoder(stored, "", wider=False), Renaming(_vocoder_tensors)),),
    config=_vocoder_config,
    base={
        "upsample_kernel_sizes": [16, 15, 8, 4, 4],
        "upsample_factors": [6, 5, 2, 2, 2],
        "resnet_kernel_sizes": [3, 7, 11],
        "resnet_dilations": [[1, 3, 5], [1, 3, 5], [1, 3, 5]],
        "output_sampling_rate": 24000,
    },
    metadata=_vocoder_metadata,
)
WIDER_VOCODER = replace(
    VOCODER,
    cls="diffusers.pipelines.ltx2.vocoder:LTX2VocoderWithBWE",
    layouts=(FileLayout(lambda stored: _is_vocoder(stored, "vocoder.", wider=True), Renaming(_vocoder_tensors)),),
    config=_wider_config,
    base={},
    # The second stage reads the logarithm of the first one's spectrum: it is not exact in 16 bits.
    float32=True,
)
CONNECTORS = Network(
    kind="connectors",
    cls="diffusers.pipelines.ltx2.connectors:LTX2TextConnectors",
    layouts=(FileLayout(_is_connectors, Renaming(_connectors_tensors)),),
    config=_connectors_config,
    base={
        "caption_channels": 3840,
        "video_connector_num_attention_heads": 30,
        "audio_connector_num_attention_heads": 30,
        "rope_type": "split",
    },
    apart=r"(?P<prefix>model\.diffusion_model\.)?"
    r"(video_embeddings_connector|audio_embeddings_connector|text_embedding_projection)\.",
)
