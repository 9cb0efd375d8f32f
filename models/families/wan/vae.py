"""VAEs of Wan 2.1 and 2.2 in files: original layout (also ComfyUI's) and diffusers'."""

from __future__ import annotations

import math
import re
from typing import Any

from ...family import Config, FileLayout, LatentFormat, Network, Pieces
from ...loading.names import Renaming, count, present
from ...loading.pieces import Piece

MEAN = (-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508,
        0.4134, -0.0715, 0.5517, -0.3632, -0.1922, -0.9497, 0.2503, -0.2921)  # fmt: skip
STD = (2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
       3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160)  # fmt: skip
"""Standard deviation by channel of Wan 2.1's latents (defaults of diffusers' AutoencoderKLWan)."""
MEAN_48 = (
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, 0.0891,
    0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502,
    -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230, -0.0313, -0.1649, 0.0117, 0.0723,
    -0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667,
)  # fmt: skip
STD_48 = (
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
    0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
    0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
)  # fmt: skip
"""Standard deviation by channel of Wan 2.2's latents."""

_RESIDUAL = {
    "residual.0": "norm1",
    "residual.2": "conv1",
    "residual.3": "norm2",
    "residual.6": "conv2",
    "shortcut": "conv_shortcut",
}
_VAE_TOP = {
    "conv1": "quant_conv",
    "conv2": "post_quant_conv",
    "encoder.conv1": "encoder.conv_in",
    "encoder.head.0": "encoder.norm_out",
    "encoder.head.2": "encoder.conv_out",
    "decoder.conv1": "decoder.conv_in",
    "decoder.head.0": "decoder.norm_out",
    "decoder.head.2": "decoder.conv_out",
}
_MIDDLE = {"0": "resnets.0", "1": "attentions.0", "2": "resnets.1"}


def _from_original(stored: Pieces) -> tuple[dict[str, Piece], list[str]]:
    """Pieces by diffusers' names, and unknown names."""
    # A level of the decoder is its residual blocks and, but for the last level, a resampler: in a row.
    resamplers = (int(n.split(".")[2]) for n in stored if re.match(r"decoder\.upsamples\.\d+\.resample", n))
    period = 1 + min(resamplers, default=3)
    new = {name: _vae_name(name, period) for name in stored}
    return {new[n]: piece for n, piece in stored.items() if new[n]}, [n for n in stored if not new[n]]


def _vae_name(name: str, period: int) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _VAE_TOP:
        return f"{_VAE_TOP[stem]}.{kind}"
    if m := re.fullmatch(r"(encoder|decoder)\.middle\.([012])\.(.+)", stem):
        inner = m[3] if m[2] == "1" else _RESIDUAL.get(m[3])
        return f"{m[1]}.mid_block.{_MIDDLE[m[2]]}.{inner}.{kind}" if inner else ""
    if m := re.fullmatch(r"(encoder|decoder)\.(down|up)samples\.(\d+)\.\w+samples\.(\d+)\.(.+)", stem):  # Wan 2.2
        block = f"{m[1]}.{m[2]}_blocks.{m[3]}"
        return (
            f"{block}.resnets.{m[4]}.{_RESIDUAL[m[5]]}.{kind}"
            if m[5] in _RESIDUAL
            else (f"{block}.{m[2]}sampler.{m[5]}.{kind}")
        )
    if m := re.fullmatch(r"encoder\.downsamples\.(\d+)\.(.+)", stem):
        return f"encoder.down_blocks.{m[1]}.{_RESIDUAL.get(m[2], m[2])}.{kind}"
    if m := re.fullmatch(r"decoder\.upsamples\.(\d+)\.(.+)", stem):
        level, place = divmod(int(m[1]), period)
        if m[2] in _RESIDUAL:
            return f"decoder.up_blocks.{level}.resnets.{place}.{_RESIDUAL[m[2]]}.{kind}"
        return f"decoder.up_blocks.{level}.upsamplers.0.{m[2]}.{kind}"
    return ""


def vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Config of an AutoencoderKLWan from tensor shapes; mean and standard deviation by family."""
    if "encoder.down_blocks.0.resnets.0.conv1.weight" in pieces:
        return _residual_vae_config(pieces, base)
    blocks: dict[int, set[str]] = {}
    for name in pieces:
        if m := re.match(r"encoder\.down_blocks\.(\d+)\.(\w+)", name):
            blocks.setdefault(int(m[1]), set()).add(m[2])
    resamplers = [i for i, inner in sorted(blocks.items()) if "resample" in inner]
    layers = resamplers[0] if resamplers else len(blocks)
    first = pieces["encoder.conv_in.weight"].shape[0]
    starts = [0, *(i + 1 for i in resamplers)]
    downsample = ["time_conv" in blocks[i] for i in resamplers]
    return dict(base) | {
        "base_dim": first,
        "z_dim": pieces["post_quant_conv.weight"].shape[0],
        "dim_mult": [pieces[f"encoder.down_blocks.{i}.conv1.weight"].shape[0] // first for i in starts],
        "num_res_blocks": layers,
        "temperal_downsample": downsample,
        "scale_factor_spatial": 2 ** len(resamplers),
        "scale_factor_temporal": 2 ** sum(downsample),
    }


def _residual_vae_config(pieces: Pieces, base: Config) -> dict[str, Any]:
    """Wan 2.2's VAE: patchified pixels, levels with residual shortcuts."""
    first, channels = pieces["encoder.conv_in.weight"].shape[:2]
    levels = count(pieces, r"encoder\.down_blocks\.(\d+)\.")
    wide = [pieces[f"encoder.down_blocks.{i}.resnets.0.conv1.weight"].shape[0] // first for i in range(levels)]
    downsample = [f"encoder.down_blocks.{i}.downsampler.time_conv.weight" in pieces for i in range(levels - 1)]
    patch = math.isqrt(channels // 3)
    return dict(base) | {
        "base_dim": first,
        "decoder_base_dim": pieces["decoder.conv_in.weight"].shape[0] // wide[-1],
        "z_dim": pieces["post_quant_conv.weight"].shape[0],
        "dim_mult": wide,
        "num_res_blocks": count(pieces, r"encoder\.down_blocks\.0\.resnets\.(\d+)\."),
        "temperal_downsample": downsample,
        "is_residual": True,
        "in_channels": channels,
        "out_channels": pieces["decoder.conv_out.weight"].shape[0],
        "patch_size": patch,
        "scale_factor_spatial": 2 ** (levels - 1) * patch,
        "scale_factor_temporal": 2 ** sum(downsample),
        "latents_mean": list(MEAN_48),
        "latents_std": list(STD_48),
    }


def _latent(config: Config) -> LatentFormat:
    """Latent format of an AutoencoderKLWan from its config."""
    channels = config["z_dim"]
    return LatentFormat(
        channels=channels,
        downscale=config.get("scale_factor_spatial", 8),
        patch=2,
        frames=config.get("scale_factor_temporal", 4),
        mean=tuple(config.get("latents_mean") or MEAN)[:channels],
        std=tuple(config.get("latents_std") or STD)[:channels],
    )


VAE = Network(
    kind="vae",
    cls="diffusers.models.autoencoders.autoencoder_kl_wan:AutoencoderKLWan",
    layouts=(
        FileLayout(present("decoder.middle.0.residual.0.gamma", "encoder.conv1.weight"), Renaming(_from_original)),
        FileLayout(present("decoder.mid_block.resnets.0.norm1.gamma", "post_quant_conv.weight")),
    ),
    config=vae_config,
    base={"attn_scales": [], "dropout": 0.0},
    ready="pipegraph.models.families.wan.attention:install",
    latent=_latent,
    value="pipegraph.models.vae.video:VideoVae",
)
