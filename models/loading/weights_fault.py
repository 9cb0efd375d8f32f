"""Whether a file of tensors can be read, looked at before anything runs. Torch-free."""

from __future__ import annotations

from pathlib import Path

from .header_values import LoadError
from .headers import read_header


def weights_fault(path: Path) -> str:
    """Why a file cannot be read as safetensors, from its header; empty if nothing speaks against it."""
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
