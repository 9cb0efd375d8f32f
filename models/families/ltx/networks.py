"""LTX-Video's networks in files: original layout (also ComfyUI's) and diffusers'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...family import Config, FileLayout, Network, Pieces
from ...loading.names import Components, count, present

if TYPE_CHECKING:
    from ...loading.detect import Part

_SHARED = ("attention_head_dim", "num_attention_heads", "norm_eps", "causal_temporal_positioning")
"""Config keys with the same names in the original's metadata."""


def _config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTXVideoTransformer3DModel from tensor shapes; head count from ``base`` (32)."""
    width, channels = pieces["proj_in.weight"].shape
    layers = count(pieces, r"transformer_blocks\.(\d+)\.")
    return dict(base) | {
        "in_channels": channels,
        "out_channels": pieces["proj_out.weight"].shape[0],
        "attention_head_dim": width // base["num_attention_heads"],
        "cross_attention_dim": pieces["transformer_blocks.0.attn2.to_k.weight"].shape[1],
        "caption_channels": pieces["caption_projection.linear_1.weight"].shape[1],
        "num_layers": layers,
        # The 13B model counts time causally; of the smaller ones the VAE tells (``unite``), or the metadata.
        "causal_temporal_positioning": layers > 28,
    }


def _metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The network config in a file's metadata, with diffusers' keys."""
    if str(config.get("_class_name", "")).startswith("Transformer3D"):
        return {k: config[k] for k in _SHARED if k in config}
    return dict(config)


def unite(parts: dict[str, Part]) -> dict[str, Part]:
    """Set causal_temporal_positioning on the transformer if the checkpoint's VAE is 0.9.5 or newer."""
    if "LTXVideo095DownBlock3D" not in parts["vae"].config.get("down_block_types", ()):
        return parts
    config = dict(parts["transformer"].config) | {"causal_temporal_positioning": True}
    return parts | {"transformer": replace(parts["transformer"], config=config)}


TRANSFORMER = Network(
    kind="transformer",
    cls="diffusers.models.transformers.transformer_ltx:LTXVideoTransformer3DModel",
    layouts=(
        FileLayout(
            present("patchify_proj.weight", absent=["audio_patchify_proj.weight"]),
            Components(
                {
                    "patchify_proj": "proj_in",
                    "adaln_single": "time_embed",
                    "q_norm": "norm_q",
                    "k_norm": "norm_k",
                }
            ),
        ),
        FileLayout(
            present(
                "caption_projection.linear_1.weight",
                "time_embed.linear.weight",
                "transformer_blocks.0.attn1.norm_q.weight",
                absent=["audio_proj_in.weight"],
            )
        ),
    ),
    config=_config,
    base={
        "patch_size": 1,
        "patch_size_t": 1,
        "num_attention_heads": 32,
        "activation_fn": "gelu-approximate",
        "qk_norm": "rms_norm_across_heads",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "attention_bias": True,
        "attention_out_bias": True,
    },
    metadata=_metadata,
    fragile=("proj_in", "proj_out", "time_embed.*", "caption_projection.*"),
    blocks={"LTXVideoTransformerBlock": ("hidden_states",)},
)


def _upscaler_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an LTX2LatentUpsamplerModel from tensor shapes; LTX-Video's has the same layers."""
    first = pieces["initial_conv.weight"].shape
    rational = pieces.get("upsampler.conv.weight")
    up = rational or pieces["upsampler.0.weight"]
    factor = up.shape[0] // first[0]
    return dict(base) | {
        "in_channels": first[1],
        "mid_channels": first[0],
        "num_blocks_per_stage": count(pieces, r"res_blocks\.(\d+)\."),
        "dims": len(first) - 2,
        "spatial_upsample": factor != 2,
        "temporal_upsample": len(up.shape) == 5,
        "use_rational_resampler": rational is not None,
        # 3 / 4 has as many channels as 3 / 2: the metadata tells them apart.
        "rational_spatial_scale": {9: 1.5, 16: 4.0}.get(factor, 2.0) if rational else 2.0,
    }


def _upscaler_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """The upsampler config in a file's metadata, with diffusers' keys."""
    return {"rational_spatial_scale": config["spatial_scale"]} if "spatial_scale" in config else {}


UPSCALER_2 = Network(
    kind="latent_upscaler",
    cls="diffusers.pipelines.ltx2.latent_upsampler:LTX2LatentUpsamplerModel",
    folder="latent_upsampler",
    layouts=(FileLayout(present("post_upsample_res_blocks.0.conv1.weight", "initial_conv.weight")),),
    config=_upscaler_config,
    metadata=_upscaler_metadata,
)
UPSCALER = replace(
    UPSCALER_2, cls="diffusers.pipelines.ltx.modeling_latent_upsampler:LTXLatentUpsamplerModel", layouts=()
)
"""For folders only; files are loaded as LTX-2's equivalent class."""
