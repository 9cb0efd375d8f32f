"""Whether a LoRA file fits a model, from the headers of both. Torch-free."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..loading.detect import Part
from ..loading.headers import read_header
from .lora_keys import NETWORK, Key, read_key
from .lora_targets import parameter_spellings, spellings


def misfit(file: Path, network: Part, *, encoders: bool) -> str:
    """Why no key of a LoRA fits a model; empty if some do.

    Args:
        file: The LoRA, a safetensors file.
        network: The diffusion network.
        encoders: It is applied to text encoders too. Their keys are taken to fit.

    Raises:
        LoadError: the file is broken or cut off.
    """
    names = read_header(file).tensors
    folders = {facts.folder: facts.name for facts in network.family.encoders}
    keys = {name: read_key(name, folders) for name in names}
    refused = [f"{name}: {why}" for name, why in keys.items() if isinstance(why, str) and "not supported" in why]
    if refused:
        return f"LoRA {file.name}: {refused[0]}"
    known = _spellings(network)
    if any(encoders if key.part != NETWORK else _is_known(key, known) for key in keys.values() if isinstance(key, Key)):
        return ""
    example = f"; e.g. {next(iter(names))}" if names else ""
    return (
        f"LoRA {file.name}: none of its {len(names)} keys fits this model ({network.family.title}): it is of another "
        f"family of models, or no LoRA{example}"
    )


def _is_known(key: Key, known: Collection[str]) -> bool:
    return key.layer in known or f"{key.layer}_{key.role}" in known


def _spellings(network: Part) -> Collection[str]:
    """Every spelling of a layer or parameter of the network."""
    shapes = {name: piece.shape for name, piece in network.pieces.items()}
    widths = {n.removesuffix(".weight"): s[0] for n, s in shapes.items() if n.endswith(".weight") and len(s) == 2}
    names = [layout.names for layout in network.network.layouts]
    return {*spellings(widths, names), *parameter_spellings(list(shapes), names)}
