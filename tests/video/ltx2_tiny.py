"""Tiny LTX-2 pipelines of random weights, as folders and as the original's single file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

TEXT, LAYERS, TOKENS = 24, 3, 16
"""Numbers a token of the text encoder's states, how many states there are, and the length of prompts."""


def transformer(**changes: Any) -> nn.Module:
    from diffusers import LTX2VideoTransformer3DModel

    config: dict[str, Any] = dict(
        num_attention_heads=2,
        attention_head_dim=18,
        cross_attention_dim=36,
        audio_in_channels=8,
        audio_out_channels=8,
        audio_num_attention_heads=2,
        audio_attention_head_dim=12,
        audio_cross_attention_dim=24,
        num_layers=2,
        caption_channels=TEXT,
        rope_type="split",
    )
    return LTX2VideoTransformer3DModel(**(config | changes))  # type: ignore[no-any-return]


WIDER: dict[str, Any] = {
    "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4],
    "resblock_kernel_sizes": [3],
    "resblock_dilation_sizes": [[1, 3]],
    "resblock": "AMP1",
    "activation": "snakebeta",
    "use_tanh_at_final": False,
}
"""What the metadata of a file say of both stages of LTX-2.3's vocoder, but for their ends and rates."""


def wider_vocoder() -> nn.Module:
    """LTX-2.3's vocoder: 800 samples a second, and 1600 out of its second stage."""
    from diffusers.pipelines.ltx2.vocoder import LTX2VocoderWithBWE

    stage: dict[str, Any] = dict(
        hidden_channels=16,
        upsample_kernel_sizes=[8, 4],
        upsample_factors=[4, 2],
        resnet_kernel_sizes=[3],
        resnet_dilations=[[1, 3]],
    )
    made: nn.Module = LTX2VocoderWithBWE(
        in_channels=32,
        final_act_fn="clamp",
        bwe_in_channels=16,
        filter_length=16,
        hop_length=4,
        window_length=16,
        num_mel_channels=8,
        input_sampling_rate=800,
        output_sampling_rate=1600,
        **stage,
        **{f"bwe_{k}": v for k, v in stage.items()},
    )
    with torch.no_grad():
        for name, t in made.state_dict().items():
            if "mel_stft" in name:
                t.copy_(torch.randn(t.shape).abs() / 4 if "mel_basis" in name else torch.randn(t.shape) / 4)
            elif name.endswith((".alpha", ".beta")):
                t.normal_(std=0.3)
    return made


def components(later: bool = False) -> dict[str, nn.Module]:
    """The networks of a pipeline; ``later``: with what LTX-2.3 has besides."""
    from diffusers import AutoencoderKLLTX2Audio, AutoencoderKLLTX2Video
    from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
    from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder

    torch.manual_seed(0)
    more: dict[str, Any] = {}
    joins: dict[str, Any] = {}
    for side in ("video", "audio"):
        joins |= {f"{side}_connector_num_attention_heads": 2, f"{side}_connector_attention_head_dim": 12}
    if later:
        more = dict(
            gated_attn=True,
            cross_attn_mod=True,
            audio_gated_attn=True,
            audio_cross_attn_mod=True,
            use_prompt_embeddings=False,
        )
        joins |= dict(
            video_connector_attention_head_dim=18,
            video_gated_attn=True,
            audio_gated_attn=True,
            per_modality_projections=True,
            video_hidden_dim=36,
            audio_hidden_dim=24,
        )
    made: dict[str, nn.Module] = {
        "transformer": transformer(**more),
        "vae": AutoencoderKLLTX2Video(
            block_out_channels=(128, 16, 16, 16),
            decoder_block_out_channels=(8, 16, 32),
            layers_per_block=(1,) * 5,
            decoder_layers_per_block=(1, 1, 1, 2),
            decoder_causal=False,
            spatial_compression_ratio=32,
            temporal_compression_ratio=8,
        ),
        "audio_vae": AutoencoderKLLTX2Audio(
            base_channels=8, ch_mult=(1, 1, 2), num_res_blocks=1, latent_channels=2, mel_bins=16
        ),
        "vocoder": LTX2Vocoder(
            in_channels=32,
            hidden_channels=16,
            upsample_kernel_sizes=[8, 4],
            upsample_factors=[4, 2],
            resnet_kernel_sizes=[3],
            resnet_dilations=[[1, 3]],
            output_sampling_rate=800,
        ),
        "connectors": LTX2TextConnectors(
            caption_channels=TEXT,
            text_proj_in_factor=LAYERS,
            video_connector_num_layers=1,
            audio_connector_num_layers=1,
            video_connector_num_learnable_registers=8,
            audio_connector_num_learnable_registers=8,
            rope_type="split",
            **joins,
        ),
    }
    with torch.no_grad():  # text and time must matter
        for name, p in made["transformer"].named_parameters():
            if "scale_shift_table" in name or re.match(
                "(audio_)?(time_embed|caption_projection|prompt_adaln)|av_", name
            ):
                p.normal_(std=0.2)
        for vae in (made["vae"], made["audio_vae"]):
            vae.latents_mean.normal_(std=0.3)  # type: ignore[operator]
            vae.latents_std.uniform_(0.5, 1.5)  # type: ignore[operator]
    if later:
        made["vocoder"] = wider_vocoder()
    return {name: network.eval() for name, network in made.items()}


def pipeline(networks: dict[str, nn.Module]) -> Any:
    """diffusers' pipeline of the networks, without a text encoder."""
    from diffusers import FlowMatchEulerDiscreteScheduler, LTX2Pipeline

    scheduler = FlowMatchEulerDiscreteScheduler(
        use_dynamic_shifting=True,
        base_shift=0.95,
        max_shift=2.05,
        base_image_seq_len=1024,
        max_image_seq_len=4096,
        shift_terminal=0.1,
    )
    pipe = LTX2Pipeline(scheduler=scheduler, text_encoder=None, tokenizer=None, **networks)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def to_original(networks: dict[str, nn.Module]) -> dict[str, Tensor]:
    """All networks in the original's single file, written down independently of the loader's tables."""
    out: dict[str, Tensor] = {}
    for name, tensor in networks["transformer"].state_dict().items():
        new = name.replace("proj_in", "patchify_proj").replace("time_embed.", "adaln_single.")
        new = new.replace("prompt_adaln.", "prompt_adaln_single.")
        for kind in ("video_scale_shift", "audio_scale_shift"):
            new = new.replace(f"av_cross_attn_{kind}.", f"av_ca_{kind}_adaln_single.")
        new = new.replace("av_cross_attn_video_a2v_gate.", "av_ca_a2v_gate_adaln_single.")
        new = new.replace("av_cross_attn_audio_v2a_gate.", "av_ca_v2a_gate_adaln_single.")
        new = re.sub("(video|audio)_a2v_cross_attn_scale_shift_table", r"scale_shift_table_a2v_ca_\1", new)
        out[f"model.diffusion_model.{_norms(new)}"] = tensor
    for name, tensor in networks["connectors"].state_dict().items():
        new = re.sub("^(video|audio)_connector", r"model.diffusion_model.\1_embeddings_connector", name)
        new = re.sub("^((video|audio)_)?text_proj_in", r"text_embedding_projection.\1aggregate_embed", new)
        out[_norms(new.replace("transformer_blocks", "transformer_1d_blocks"))] = tensor
    rows = {
        "encoder.down_blocks": [f"{i}{part}" for i in range(4) for part in ("", ".downsamplers.0")],
        "decoder.up_blocks": ["", *(f"{i}{part}" for i in range(3) for part in (".upsamplers.0", ""))],
    }
    for name, tensor in networks["vae"].state_dict().items():
        new = name.replace("encoder.mid_block", "encoder.down_blocks.8").replace(
            "decoder.mid_block", "decoder.up_blocks.0"
        )
        for side, row in rows.items():
            if m := re.match(rf"{side}\.(\d+)((?:\.(?:up|down)samplers\.0)?)\.(?=resnets|conv)", name):
                new = f"{side}.{row.index(m[1] + m[2])}.{name[m.end() :]}"
        out[f"vae.{_statistics(new.replace('resnets.', 'res_blocks.'))}"] = tensor
    out |= {f"audio_vae.{_statistics(n)}": t for n, t in networks["audio_vae"].state_dict().items()}
    for name, tensor in networks["vocoder"].state_dict().items():
        new = name.replace("conv_in", "conv_pre").replace("conv_out", "conv_post").replace("upsamplers", "ups")
        new = new.replace("act_out", "act_post").replace("downsample.filter", "downsample.lowpass.filter")
        out[f"vocoder.{new.replace('resnets', 'resblocks')}"] = tensor
    return {name: tensor.contiguous().clone() for name, tensor in out.items()}


def _norms(name: str) -> str:
    return name.replace("norm_q", "q_norm").replace("norm_k", "k_norm")


def _statistics(name: str) -> str:
    name = name.replace("latents_mean", "per_channel_statistics.mean-of-means")
    return name.replace("latents_std", "per_channel_statistics.std-of-means")


def in_fp8(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The matrices of the network's blocks in fp8 with a scale each, as in the files that are called so."""
    out: dict[str, Tensor] = {}
    for name, t in tensors.items():
        if name.startswith("model.diffusion_model.transformer_blocks.") and name.endswith(".weight") and t.ndim == 2:
            scale = t.abs().max() / 448
            out |= {name: (t / scale).to(torch.float8_e4m3fn), f"{name}_scale": scale.float()}
            out[f"{name.removesuffix('weight')}input_scale"] = torch.ones(())
        else:
            out[name] = t
    return out


def write_file(networks: dict[str, nn.Module], path: Path) -> None:
    """The original's single file, in fp8 if its name says so; what the shapes do not say is in its metadata."""
    joins: Any = networks["connectors"].config
    told = {
        "transformer": {
            "_class_name": "AVTransformer3DModel",
            "num_attention_heads": 2,
            "attention_head_dim": 18,
            "audio_num_attention_heads": 2,
            "audio_attention_head_dim": 12,
            "rope_type": "split",
        },
        "vae": {"_class_name": "CausalVideoAutoencoder", "blocks": [], "causal_decoder": False},
        "audio_vae": {"model": {"params": {}}},
        "vocoder": {
            "upsample_rates": [4, 2],
            "upsample_kernel_sizes": [8, 4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 3]],
            "output_sampling_rate": 800,
        },
        "connectors": {
            k: v
            for k, v in joins.items()
            if "heads" in k or "head_dim" in k or k in ("caption_channels", "text_proj_in_factor")
        },
    }
    if hasattr(networks["vocoder"], "bwe_generator"):
        told["vocoder"] = {
            "vocoder": WIDER,
            "bwe": WIDER
            | {
                "apply_final_activation": False,
                "input_sampling_rate": 800,
                "output_sampling_rate": 1600,
                "hop_length": 4,
                "n_fft": 16,
                "num_mels": 8,
            },
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = to_original(networks)
    save_file(in_fp8(tensors) if "fp8" in path.name else tensors, path, {"config": json.dumps(told)})
