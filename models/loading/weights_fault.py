"""Whether a tensor file is readable, checked before anything runs. Torch-free."""

from __future__ import annotations

from pathlib import Path

from .header_values import LoadError
from .headers import read_header


def weights_fault(path: Path) -> str:
    """Why a file is not valid safetensors, from its header; empty if it is."""
    if path.suffix.lower() in (".pth", ".pt", ".ckpt", ".bin"):
        return f"{path.name} is a pickle, which may run code when it is read: get the .safetensors file of it"
    with path.open("rb") as file:
        if file.read(4) == b"GGUF":
            return f"{path.name} is a GGUF file: a .safetensors file is wanted"
    try:
        read_header(path)
    except LoadError as e:
        return str(e)
    return ""
