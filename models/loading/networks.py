"""From parts to networks: tensor by tensor out of the file, cast, quantized and moved, nothing twice in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from typing import Any, Final

import torch
from torch import Tensor, nn

from pipegraph.kernels.gguf_blocks import GgufWeight
from pipegraph.kernels.linear import PackedWeight
from pipegraph.kernels.modules import KernelLinear

from ..quantize import count_bytes, kept, pack, quantized_rows
from ..video import minimax_networks, wan_fun
from .headers import LoadError
from .parts import ENCODERS, Part
from .pieces import Piece
from .reading import Reader

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
    network = _empty(part)
    packed = _fill(network, part, device, dtype, quantize)
    network.eval().requires_grad_(False)
    if part.kind in ("transformer", "vae") and part.family.ready:
        part.family.ready(network)
    _install(network)
    for name, (weight, format) in packed.items():
        layer = network.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        if format:
            pack(layer, weight, format)
        else:
            KernelLinear.pack(layer, weight)
    count_bytes(network)
    return network


def _empty(part: Part) -> nn.Module:
    """The network without memory for its weights."""
    cls: Any = getattr(import_module(MODULES[part.class_name]), part.class_name)
    with torch.device("meta"), warnings.catch_warnings():
        # FluxControlNetModel uses a class that diffusers itself calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        if part.kind in (*ENCODERS, "clip_vision"):
            return cls(cls.config_class(**part.config))  # type: ignore[no-any-return]
        # What the class does not take, our families have put there; it would be told aloud.
        ours = {k: v for k, v in part.config.items() if k[0] != "_" and k not in signature(cls.__init__).parameters}
        made: nn.Module = cls.from_config({k: v for k, v in part.config.items() if k not in ours})
        made.register_to_config(**ours)  # type: ignore[operator]
        if part.class_name == "WanTransformer3DModel":
            wan_fun.extend(made)
        if _is_minimax(part):
            minimax_networks.adapt(made, part.config)
        return made


def _named(parts: tuple[str, ...], name: str) -> bool:
    """Whether a parameter's name has one of these parts."""
    return any(part in name.split(".") for part in parts)


def _is_minimax(part: Part) -> bool:
    """Of a family whose networks keep some layers in float32, whatever the others compute in."""
    return "MiniMaxH3" in part.class_name


def _fill(
    network: nn.Module, part: Part, device: torch.device, dtype: torch.dtype, quantize: str
) -> dict[str, tuple[PackedWeight, str]]:
    """Give the network its tensors, all but the packed: those by layer, each with the format that was asked for."""
    parameters = dict(network.named_parameters())
    parameters.pop("encoder.embed_tokens.weight", None)  # T5 has its embedding twice; the one is set to the other below
    held = {n: b for n, b in network.named_buffers() if n in part.pieces}  # what LTX's VAE knows of its latents
    wanted: dict[str, Tensor] = {**parameters, **held}
    # transformers 4 has the prefix, 5 has not; files come with both.
    prefix = "text_model." if any(n.startswith("text_model.") for n in wanted) else ""
    pieces = {prefix + n: p for n, p in part.pieces.items()}
    _check_names(part, wanted, pieces)
    exact = tuple(getattr(network, "_keep_in_fp32_modules", None) or ())
    minimax = _is_minimax(part)
    linears = {f"{n}.weight": n for n, m in network.named_modules() if isinstance(m, nn.Linear)}
    packed: dict[str, tuple[PackedWeight, str]] = {}
    with Reader() as reader:
        for name, parameter in wanted.items():
            piece = pieces[name]
            if piece.shape != tuple(parameter.shape):
                raise LoadError(f"{part.origin}: `{name}` is {list(piece.shape)}, its config says "
                                f"{list(parameter.shape)}")  # fmt: skip
            # Layers whose results are too large for float16 stay in float32, and so are not packed either.
            whole = any(e in name for e in exact) if minimax else dtype == torch.float16 and _named(exact, name)
            kind = torch.float32 if name in held or whole else dtype
            if (layer := linears.get(name)) and kind == dtype:
                if found := _packed(reader, piece, device):
                    packed[layer] = found, ""
                    continue
                if quantize and not kept(part.class_name, layer, piece.shape, quantize):
                    rows = (some.to(device) for some in reader.passing(piece))
                    packed[layer] = quantized_rows(piece.shape, rows, quantize), quantize
                    continue
            _put(network, name, reader.dense(piece, kind).to(device))
    if part.kind in ("t5", "byt5", "umt5"):
        network.encoder.embed_tokens.weight = network.shared.weight  # type: ignore[union-attr]
    if part.class_name in ("WanTransformer3DModel", "WanVACETransformer3DModel"):
        network.rope = _rope(network, device)
    if minimax:
        minimax_networks.fill_tables(network, device)
    if part.class_name == "LTX2VocoderWithBWE":
        network.resampler = _resampler(network).to(device)
    for name, buffer in list(network.named_buffers()):
        if "rope." in name or name in held or not buffer.is_meta:
            continue
        if not name.endswith("position_ids"):
            raise LoadError(f"{part.class_name} has a buffer `{name}` that the loader does not know")
        parent, leaf = _owner(network, name)
        parent._buffers[leaf] = torch.arange(buffer.shape[-1], device=device).expand(buffer.shape)
    return packed


def _rope(network: Any, device: torch.device) -> nn.Module:
    """The table of positions of a Wan network, which no file holds."""
    config = network.config
    made: nn.Module = type(network.rope)(config.attention_head_dim, config.patch_size, config.rope_max_seq_len)
    return made.to(device)


def _resampler(network: Any) -> nn.Module:
    """What brings the first stage of LTX-2.3's vocoder to the rate of the second: a filter that no file holds."""
    ratio = network.config.output_sampling_rate // network.config.input_sampling_rate
    made: nn.Module = type(network.resampler)(ratio=ratio, window_type="hann", persistent=False)
    return made


def _packed(reader: Reader, piece: Piece, device: torch.device) -> PackedWeight | None:
    """A weight as its file has it packed; on an accelerator GGUF's blocks become what the kernels there read."""
    weight = reader.packed(piece)
    if weight is None or device.type == "cpu":
        return weight
    moved = weight.to(device)
    return moved.to_qweight() if isinstance(moved, GgufWeight) and moved.exact else moved


def _check_names(part: Part, wanted: Mapping[str, Any], pieces: Mapping[str, Piece]) -> None:
    """Every parameter has its tensor and every tensor its parameter."""

    def told(names: set[str]) -> str:
        return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

    if missing := wanted.keys() - pieces.keys():
        raise LoadError(f"{part.origin}: tensors of {part.class_name} are missing: {told(missing)}")
    if extra := pieces.keys() - wanted.keys():
        raise LoadError(f"{part.origin}: tensors have no place in {part.class_name}: {told(extra)}")


def _owner(network: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return network.get_submodule(path), leaf


def _put(network: nn.Module, name: str, tensor: Tensor) -> None:
    parent, leaf = _owner(network, name)
    if leaf in parent._buffers:
        parent._buffers[leaf] = tensor
    else:
        parent._parameters[leaf] = nn.Parameter(tensor, requires_grad=False)


def _install(network: nn.Module) -> None:
    from pipegraph.kernels.install import install

    install(network)
