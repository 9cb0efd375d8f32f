"""From parts to networks: tensor by tensor out of the file, cast, quantized and moved, nothing twice in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, Final

import torch
from torch import Tensor, nn

from ..quantize import count_bytes
from ..video import minimax_networks, wan_fun
from .building import empty_networks
from .filling import Filling, Packed, check, fill, pack_all, place_buffers, plain
from .lock import imported
from .parts import ENCODERS, Part
from .pieces import Piece
from .transformers_networks import empty_network, fill_network

MODULES: Final = {
    "FluxTransformer2DModel": "diffusers.models.transformers.transformer_flux",
    "FluxControlNetModel": "diffusers.models.controlnets.controlnet_flux",
    "AutoencoderKL": "diffusers.models.autoencoders.autoencoder_kl",
    "CLIPTextModel": "transformers.models.clip.modeling_clip",
    "T5EncoderModel": "transformers.models.t5.modeling_t5",
    "WanTransformer3DModel": "diffusers.models.transformers.transformer_wan",
    "WanVACETransformer3DModel": "diffusers.models.transformers.transformer_wan_vace",
    "AutoencoderKLWan": "diffusers.models.autoencoders.autoencoder_kl_wan",
    "CLIPVisionModel": "transformers.models.clip.modeling_clip",
    "SiglipVisionModel": "transformers.models.siglip.modeling_siglip",
    "UMT5EncoderModel": "transformers.models.umt5.modeling_umt5",
    "LTXLatentUpsamplerModel": "diffusers.pipelines.ltx.modeling_latent_upsampler",
    "LTX2LatentUpsamplerModel": "diffusers.pipelines.ltx2.latent_upsampler",
    "LTX2VideoTransformer3DModel": "diffusers.models.transformers.transformer_ltx2",
    "AutoencoderKLLTX2Video": "diffusers.models.autoencoders.autoencoder_kl_ltx2",
    "AutoencoderKLLTX2Audio": "diffusers.models.autoencoders.autoencoder_kl_ltx2_audio",
    "LTX2Vocoder": "diffusers.pipelines.ltx2.vocoder",
    "LTX2VocoderWithBWE": "diffusers.pipelines.ltx2.vocoder",
    "LTX2TextConnectors": "diffusers.pipelines.ltx2.connectors",
    "LTXVideoTransformer3DModel": "diffusers.models.transformers.transformer_ltx",
    "AutoencoderKLLTXVideo": "diffusers.models.autoencoders.autoencoder_kl_ltx",
    "HunyuanVideoTransformer3DModel": "diffusers.models.transformers.transformer_hunyuan_video",
    "HunyuanVideo15Transformer3DModel": "diffusers.models.transformers.transformer_hunyuan_video15",
    "AutoencoderKLHunyuanVideo": "diffusers.models.autoencoders.autoencoder_kl_hunyuan_video",
    "MiniMaxH3Transformer3DModel": "diffusers.models.transformers.transformer_minimax_h3",
    "AutoencoderKLMiniMaxH3": "diffusers.models.autoencoders.autoencoder_kl_minimax_h3",
    "AutoencoderKLMiniMaxH3Audio": "diffusers.models.autoencoders.autoencoder_kl_minimax_h3_audio",
    "AutoencoderKLHunyuanVideo15": "diffusers.models.autoencoders.autoencoder_kl_hunyuanvideo15",
}
"""Where each class is defined: importing only these is what keeps the start short."""


def compute_dtype(name: str, device: torch.device) -> torch.dtype:
    """What to compute in: as told (``fp32``, ``fp16``, ``bf16``), or ``auto``: float32 on the CPU, else bfloat16."""
    if name != "auto":
        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[name]
    if device.type == "cpu":
        return torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float16
    return torch.bfloat16


def build(part: Part, device: torch.device, dtype: torch.dtype, quantize: str = "") -> nn.Module:
    """The network of a part, on the kernel layer, ready to run.

    Args:
        part: What to build.
        device: Where it is to lie.
        dtype: What it is to compute in, and what its weights are cast to.
        quantize: How to keep the weights of linear layers, one of ``quantize.FORMATS``; the fragile ones stay in
            ``dtype``. Those that the file has packed stay as the file has them.

    Raises:
        LoadError: a tensor is missing, has no place, or has another shape than the config says.
    """
    network = _empty(part, dtype)
    how = Filling(origin=part.origin, label=part.class_name, device=device, dtype=dtype, quantize=quantize)
    if part.kind in (*ENCODERS, "clip_vision"):
        packed = fill_network(network, _prefixed(network, part.pieces), how)
    else:
        packed = _fill(network, part, how)
    network.eval().requires_grad_(False)
    if part.kind in ("transformer", "vae") and part.family.ready:
        part.family.ready(network)
    _install(network)
    pack_all(network, packed)
    count_bytes(network)
    return network


def _empty(part: Part, dtype: torch.dtype) -> nn.Module:
    """The network without memory for its weights."""
    cls: Any = imported(MODULES[part.class_name], part.class_name)
    if part.kind in (*ENCODERS, "clip_vision"):
        return empty_network(cls, cls.config_class(**part.config), dtype)  # type: ignore[no-any-return]
    with empty_networks(), warnings.catch_warnings():
        # FluxControlNetModel uses a class that diffusers itself calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        # What the class does not take, our families have put there; it would be told aloud.
        ours = {k: v for k, v in part.config.items() if k[0] != "_" and k not in signature(cls.__init__).parameters}
        made: nn.Module = cls.from_config({k: v for k, v in part.config.items() if k not in ours})
        made.register_to_config(**ours)  # type: ignore[operator]
        if part.class_name == "WanTransformer3DModel":
            wan_fun.extend(made)
        if _is_minimax(part):
            minimax_networks.adapt(made, part.config)
        return made


def _is_minimax(part: Part) -> bool:
    """Of a family whose networks keep some layers in float32, whatever the others compute in."""
    return "MiniMaxH3" in part.class_name


def _prefixed(network: nn.Module, pieces: Mapping[str, Piece]) -> dict[str, Piece]:
    """Names as this release of transformers has them: 4 has the prefix ``text_model.``, 5 has not."""
    prefix = "text_model." if any(n.startswith("text_model.") for n, _ in network.named_parameters()) else ""
    return {prefix + n: p for n, p in pieces.items()}


def _fill(network: nn.Module, part: Part, how: Filling) -> Packed:
    """Give a network of diffusers its tensors, all but the packed, which are returned."""
    parameters = dict(network.named_parameters())
    buffers, saved = dict(network.named_buffers()), network.state_dict().keys()
    held = {n: b for n, b in buffers.items() if n in part.pieces and n in saved}  # what LTX's VAE knows of its latents
    computed = buffers.keys() - saved
    places, stored = {**parameters, **held}, plain({n: p for n, p in part.pieces.items() if n not in computed})
    check(how.origin, how.label, places, stored)
    packed = fill(network, places, stored, replace(how, dtype_of=_dtypes(network, part, how.dtype, held)))
    place_buffers(network, how)
    return packed


def _dtypes(
    network: nn.Module, part: Part, dtype: torch.dtype, held: Collection[str]
) -> Callable[[str, Tensor], torch.dtype]:
    """The dtype of each tensor: what the network computes in; layers whose results are too large for float16 stay in
    float32, and so are not packed either."""
    exact = tuple(getattr(network, "_keep_in_fp32_modules", None) or ())
    minimax = _is_minimax(part)

    def dtype_of(name: str, _: Tensor) -> torch.dtype:
        whole = any(e in name for e in exact) if minimax else dtype == torch.float16 and _named(exact, name)
        return torch.float32 if name in held or whole else dtype

    return dtype_of


def _named(parts: tuple[str, ...], name: str) -> bool:
    """Whether a parameter's name has one of these parts."""
    return any(part in name.split(".") for part in parts)


def _install(network: nn.Module) -> None:
    from pipegraph.kernels.install import install

    install(network)
