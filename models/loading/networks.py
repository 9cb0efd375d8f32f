"""From parts to networks: tensor by tensor out of the mapped file, cast and moved, nothing twice in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import Tensor, nn

from .headers import LoadError
from .parts import Part
from .pieces import Piece

MODULES: Final = {
    "FluxTransformer2DModel": "diffusers.models.transformers.transformer_flux",
    "FluxControlNetModel": "diffusers.models.controlnets.controlnet_flux",
    "AutoencoderKL": "diffusers.models.autoencoders.autoencoder_kl",
    "CLIPTextModel": "transformers.models.clip.modeling_clip",
    "T5EncoderModel": "transformers.models.t5.modeling_t5",
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


def build(part: Part, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The network of a part, on the kernel layer, ready to run.

    Raises:
        LoadError: a tensor is missing, has no place, or has another shape than the config says.
    """
    network = _empty(part)
    _fill(network, part, device, dtype)
    network.eval().requires_grad_(False)
    _install(network)
    return network


def _empty(part: Part) -> nn.Module:
    """The network without memory for its weights."""
    cls: Any = getattr(import_module(MODULES[part.class_name]), part.class_name)
    with torch.device("meta"), warnings.catch_warnings():
        # FluxControlNetModel uses a class that diffusers itself calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        if part.kind in ("clip", "t5"):
            return cls(cls.config_class(**part.config))  # type: ignore[no-any-return]
        return cls.from_config(dict(part.config))  # type: ignore[no-any-return]


def _fill(network: nn.Module, part: Part, device: torch.device, dtype: torch.dtype) -> None:
    wanted = dict(network.named_parameters())
    wanted.pop("encoder.embed_tokens.weight", None)  # T5 has its embedding twice; the one is set to the other below
    # transformers 4 has the prefix, 5 has not; files come with both.
    prefix = "text_model." if any(n.startswith("text_model.") for n in wanted) else ""
    pieces = {prefix + n: p for n, p in part.pieces.items()}
    _check_names(part, wanted, pieces)
    exact = tuple(getattr(network, "_keep_in_fp32_modules", None) or ()) if dtype == torch.float16 else ()
    with ExitStack() as stack:
        read = _reader(stack)
        for name, parameter in wanted.items():
            tensor = read(pieces[name])
            if tensor.shape != parameter.shape:
                raise LoadError(f"{part.origin}: `{name}` is {list(tensor.shape)}, its config says "
                                f"{list(parameter.shape)}")  # fmt: skip
            kind = torch.float32 if any(e in name.split(".") for e in exact) else dtype
            _put(network, name, nn.Parameter(tensor.to(device, kind), requires_grad=False))
    if part.kind == "t5":
        network.encoder.embed_tokens.weight = network.shared.weight  # type: ignore[union-attr]
    for name, buffer in list(network.named_buffers()):
        if not name.endswith("position_ids"):
            raise LoadError(f"{part.class_name} has a buffer `{name}` that the loader does not know")
        parent, leaf = _owner(network, name)
        parent._buffers[leaf] = torch.arange(buffer.shape[-1], device=device).expand(buffer.shape)


def _check_names(part: Part, wanted: Mapping[str, Any], pieces: Mapping[str, Piece]) -> None:
    """Every parameter has its tensor and every tensor its parameter."""

    def told(names: set[str]) -> str:
        return ", ".join(sorted(names)[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")

    if missing := wanted.keys() - pieces.keys():
        raise LoadError(f"{part.origin}: tensors of {part.class_name} are missing: {told(missing)}")
    if extra := pieces.keys() - wanted.keys():
        raise LoadError(f"{part.origin}: tensors have no place in {part.class_name}: {told(extra)}")


def _reader(stack: ExitStack) -> Callable[[Piece], Tensor]:
    """A function that reads pieces out of mapped files, which stay open as long as ``stack``."""
    files: dict[Path, Any] = {}

    def read(piece: Piece) -> Tensor:
        if piece.file not in files:
            files[piece.file] = stack.enter_context(safe_open(piece.file, framework="pt"))
        tensor: Tensor = files[piece.file].get_tensor(piece.key)
        if piece.scale:
            tensor = tensor.float() * files[piece.file].get_tensor(piece.scale).float()
        if piece.shape and tensor.ndim and piece.shape[0] != tensor.shape[0]:
            tensor = tensor[piece.start : piece.start + piece.shape[0]]
        if piece.swap:
            first, second = tensor.chunk(2)
            tensor = torch.cat([second, first])
        return tensor.reshape(piece.shape)

    return read


def _owner(network: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    return network.get_submodule(path), leaf


def _put(network: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parent, leaf = _owner(network, name)
    parent._parameters[leaf] = parameter


def _install(network: nn.Module) -> None:
    from pipegraph.kernels.install import install

    install(network)
