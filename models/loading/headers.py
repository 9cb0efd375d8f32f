"""What a weight file holds, read from its header alone: safetensors here, GGUF in ``gguf``.

Torch-free; nothing is ever unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

from pipegraph.limits import HEADER_BYTES

from .recognise import no_weights

DTYPE_BITS: Final = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I64": 64, "I32": 32, "I16": 16, "I8": 8,
    "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8, "NVFP4": 4,
}  # fmt: skip
BLOCKS: Final = {
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q2_K": (256, 84),
    "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
}  # fmt: skip
"""Formats of GGUF: elements and bytes of a block."""


class LoadError(LookupError):
    """A weight file or folder cannot be used; says which, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Type, shape and place of one stored tensor."""

    dtype: str
    shape: tuple[int, ...]
    begin: int = 0
    """Its first byte in the file."""


@dataclass(frozen=True, slots=True)
class Header:
    """Table of contents of a weight file."""

    path: Path
    tensors: Mapping[str, Entry]
    metadata: Mapping[str, Any]
    """Texts in safetensors; in GGUF numbers and lists too."""
    form: str = "safetensors"


def read_header(path: Path) -> Header:
    """Read the header of a safetensors or GGUF file; which it is, its content tells.

    Raises:
        LoadError: it is neither, or its header contradicts itself.
    """
    stat = path.stat()
    return _read(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, size: int, _changed: int) -> Header:
    with path.open("rb") as file:
        start = file.read(8)
        if start[:4] == b"GGUF":
            from .gguf import read_gguf

            return read_gguf(path)
        length = int.from_bytes(start, "little")
        if size < 8 or length > min(HEADER_BYTES, size - 8):
            raise LoadError(f"{path} {no_weights(path) or 'is no safetensors file, or it is cut off'}")
        raw = file.read(length)
    try:
        table = json.loads(raw)
        metadata = table.pop("__metadata__", {})
        body = 8 + length
        entries = {k: _entry(body, v["dtype"], v["shape"], *v["data_offsets"]) for k, v in table.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        if what := no_weights(path):
            raise LoadError(f"{path} {what}") from e
        raise LoadError(f"{path}: its safetensors header is broken ({e})") from e
    _check_offsets(path, entries, size - 8 - length)
    return Header(path, {k: v[0] for k, v in entries.items()}, metadata)


def _entry(body: int, dtype: str, shape: list[int], begin: int, end: int) -> tuple[Entry, int, int]:
    return Entry(dtype, tuple(shape), body + begin), begin, end


def _check_offsets(path: Path, entries: Mapping[str, tuple[Any, ...]], room: int) -> None:
    """Tensors must lie one after the other, each as long as its shape says, inside the file."""
    place = 0
    for name, (entry, begin, end) in sorted(entries.items(), key=lambda item: item[1][1:]):
        bits = DTYPE_BITS.get(entry.dtype)
        if begin != place or end < begin or (bits and (end - begin) * 8 != prod(entry.shape) * bits):
            raise LoadError(f"{path}: its safetensors header is broken at `{name}`")
        place = end
    if place > room:
        raise LoadError(f"{path} is cut off: {place} bytes of weights announced, {room} there")


def with_sound_headers(files: Iterable[Path]) -> list[Path]:
    """These files, after the header of each file of weights among them was read.

    Raises:
        LoadError: one is broken or cut off.
    """
    listed = [*files]
    for file in listed:
        if file.suffix in (".safetensors", ".gguf"):
            read_header(file)
    return listed


def stored_bytes(dtype: str, elements: int) -> int:
    """Bytes of so many elements as they are stored; -1 if they are no whole blocks.

    Raises:
        LoadError: a type that is not read.
    """
    if dtype in BLOCKS:
        block, size = BLOCKS[dtype]
        return -1 if elements % block else elements // block * size
    if dtype not in DTYPE_BITS:
        raise LoadError(f"tensors of type {dtype} are not read; these are: {', '.join([*DTYPE_BITS, *BLOCKS])}")
    return elements * DTYPE_BITS[dtype] // 8


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or a LoadError that names it."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise LoadError(f"{path} cannot be read: {e}") from e
    if not isinstance(found, dict):
        raise LoadError(f"{path} holds no JSON object")
    return found


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a component folder: those that its index names, or the one file.

    Raises:
        LoadError: there is none, it is not clear which, or the files do not hold what the index says.
    """
    indexes = _plain(folder.glob("*.safetensors.index.json"))
    if len(indexes) == 1:
        return _shards(folder, indexes[0])
    files = _plain(folder.glob("*.safetensors"))
    if len(files) == 1 and not indexes:
        return (files[0],)
    if several := indexes or files:
        what = "indexes" if indexes else "weight files and no index"
        raise LoadError(f"{folder} holds several {what}: {', '.join(f.name for f in several)}")
    others = [f.name for f in folder.iterdir() if f.suffix in (".bin", ".ckpt", ".pt", ".pth", ".msgpack", ".h5")]
    why = f"only {', '.join(others)}, which is not opened for safety" if others else "none"
    raise LoadError(f"{folder} should hold a .safetensors file; there is {why}")


def _plain(files: Iterable[Path]) -> list[Path]:
    """Files without those that are the same in another type: ``x.fp16.safetensors`` beside ``x.safetensors``."""
    every = sorted(files)
    fewest = min((f.name.count(".") for f in every), default=0)
    return [f for f in every if f.name.count(".") == fewest]


def _shards(folder: Path, index: Path) -> tuple[Path, ...]:
    """The files that an index names, which must hold exactly the tensors that it says."""
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not where or not all(_is_file_name(name) for name in where.values()):
        raise LoadError(f"{index}: its `weight_map` should give a file in this folder for each tensor")
    files = tuple(folder / name for name in sorted(set(where.values())))
    if absent := [f.name for f in files if not f.is_file()]:
        raise LoadError(f"{folder} lacks {', '.join(absent)}, which {index.name} names: get the missing files")
    stored = {(name, f.name) for f in files for name in read_header(f).tensors}
    if wrong := sorted(name for name, _ in stored ^ set(where.items())):
        raise LoadError(f"{folder}: its files and {index.name} do not agree about {', '.join(dict.fromkeys(wrong))}")
    return files


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and name == Path(name).name and name.endswith(".safetensors")
