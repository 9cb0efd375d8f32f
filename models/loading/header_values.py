"""Header values common to all weight file formats: tensors with dtype, shape and offset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from pipegraph.limits import TENSOR_DIMENSIONS

DTYPE_BITS: Final = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I64": 64, "I32": 32, "I16": 16, "I8": 8,
    "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8,
}  # fmt: skip
"""Bits of the safetensors dtypes that can be read."""
BLOCKS: Final = {
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}
"""GGUF formats: elements and bytes per block."""
_NVFP4_BITS: Final = 4
_MOST_ELEMENTS: Final = 1 << 48


class LoadError(LookupError):
    """A weight file or folder cannot be used; says which, why, and what to do."""


class DamagedFile(LoadError):
    """A weight file is there and cannot be read: cut off, or its header is broken."""

    code = "damaged_file"


class UnknownNetwork(LoadError):
    """A weight file or folder is there, and holds no network that a family knows."""

    code = "unknown_network"


@dataclass(frozen=True, slots=True)
class Entry:
    """Dtype, shape and offset of a stored tensor."""

    dtype: str
    shape: tuple[int, ...]
    begin: int = 0
    """Offset of its first byte in the file."""


@dataclass(frozen=True, slots=True)
class Header:
    """Table of contents of a weight file."""

    path: Path
    tensors: Mapping[str, Entry]
    metadata: Mapping[str, Any]
    """Strings in safetensors; in GGUF also numbers and lists."""
    form: str = "safetensors"


def json_object(text: str | bytes, source: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        LoadError: the text is not one; names the source.
    """
    try:
        value = json.loads(text)
    except ValueError as e:
        raise LoadError(f"{source} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise LoadError(f"{source} is no JSON object")
    return value


def is_shape(shape: Sequence[int]) -> bool:
    """Whether this is a plausible tensor shape: few dimensions, limited element count."""
    return len(shape) <= TENSOR_DIMENSIONS and prod(max(1, n) for n in shape) < _MOST_ELEMENTS


def refuse_types(path: Path, types: Mapping[str, str], known: Iterable[str]) -> None:
    """Refuse a file with tensors of unsupported dtypes.

    Raises:
        LoadError: names the types, with how many tensors have them.
    """
    read, strange = set(known), dict[str, list[str]]()
    for name, dtype in types.items():
        if dtype not in read:
            strange.setdefault(dtype, []).append(name)
    if strange:
        listed = "; ".join(f"{dtype}: {len(names)} tensors, e.g. `{names[0]}`" for dtype, names in strange.items())
        raise LoadError(f"{path} holds tensors of types that are not read ({listed}); these are: {', '.join(known)}")


def stored_bytes(dtype: str, elements: int) -> int:
    """Bytes of this many stored elements; -1 if they are not whole blocks."""
    if dtype in BLOCKS:
        block, size = BLOCKS[dtype]
        return -1 if elements % block else elements // block * size
    return elements * (_NVFP4_BITS if dtype == "NVFP4" else DTYPE_BITS[dtype]) // 8
