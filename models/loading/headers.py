"""Reads the header of a weight file: safetensors here, GGUF in ``gguf``.

Torch-free; nothing is ever unpickled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final, TypeGuard

from pipegraph.limits import HEADER_BYTES, TENSOR_DIMENSIONS

from .gguf import read_gguf
from .header_values import DTYPE_BITS, DamagedFile, Entry, Header, LoadError, is_shape, refuse_types
from .recognise import no_weights

_TOO_LARGE: Final = 1 << 62
_LONGEST: Final = 300
"""Maximum characters of another library's error message to show."""


def read_header(path: Path) -> Header:
    """Read the header of a safetensors or GGUF file, detected by content.

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
            return read_gguf(path)
        length = int.from_bytes(start, "little")
        if size < 8 or length > min(HEADER_BYTES, size - 8):
            if why := no_weights(path):
                raise LoadError(f"{path} {why}")
            raise DamagedFile(f"{path} is no safetensors file, or it is cut off")
        raw = file.read(length)
    try:
        return _safetensors(path, raw, size - 8 - length)
    except (ValueError, RecursionError) as e:
        if not raw.lstrip().startswith(b"{") and (why := no_weights(path)):
            raise LoadError(f"{path} {why}") from e
        raise DamagedFile(f"{path}: its safetensors header is broken: {_short(e)}") from e


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _safetensors(path: Path, raw: bytes, room: int) -> Header:
    """The header of a safetensors file.

    Args:
        path: The file.
        raw: The header's JSON.
        room: Bytes behind it.

    Raises:
        ValueError: the header breaks the format, in words.
        LoadError: it names unsupported types, or more bytes than the file has.
    """
    table = json.loads(raw, object_pairs_hook=_without_twins)
    if not isinstance(table, dict):
        raise ValueError("it is no JSON object")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("`__metadata__` is no object of texts")
    body = 8 + len(raw)
    stored = {name: _entry(name, value, body) for name, value in table.items()}
    refuse_types(path, {name: entry.dtype for name, (entry, _) in stored.items()}, DTYPE_BITS)
    _check_places(path, stored, body, room)
    return Header(path, {name: entry for name, (entry, _) in stored.items()}, metadata)


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; duplicate keys are an error."""
    table = dict(pairs)
    if len(table) < len(pairs):
        names = Counter(name for name, _ in pairs)
        raise ValueError(f"`{names.most_common(1)[0][0]}` is there twice")
    return table


def _entry(name: str, value: Any, body: int) -> tuple[Entry, int]:
    """One tensor of the table, and the offset after it."""
    if not isinstance(value, dict) or not isinstance(value.get("dtype"), str):
        raise ValueError(f"`{name}` has no dtype")
    shape, offsets = value.get("shape"), value.get("data_offsets")
    if not _are_counts(shape) or not is_shape(shape):
        raise ValueError(f"the shape of `{name}` is no list of at most {TENSOR_DIMENSIONS} counts of a size")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"the data_offsets of `{name}` are no two counts")
    return Entry(value["dtype"], tuple(shape), body + offsets[0]), body + offsets[1]


def _are_counts(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < _TOO_LARGE for n in values)


def _check_places(path: Path, stored: Mapping[str, tuple[Entry, int]], body: int, room: int) -> None:
    """Tensors must be contiguous, of the size of their shape, and inside the file."""
    place = body
    for name, (entry, end) in sorted(stored.items(), key=lambda item: (item[1][0].begin, item[1][1])):
        length = prod(entry.shape) * DTYPE_BITS[entry.dtype]
        if entry.begin != place or end < place or (end - place) * 8 != length:
            raise ValueError(f"`{name}` does not lie behind the tensor before it, or is not as long as its shape says")
        place = end
    if place > body + room:
        raise DamagedFile(f"{path} is cut off: {place - body} bytes of weights announced, {room} there")


def with_sound_headers(files: Iterable[Path]) -> list[Path]:
    """These files, after checking the headers of weight files among them.

    Raises:
        LoadError: one is broken or cut off.
    """
    listed = [*files]
    for file in listed:
        if file.suffix in (".safetensors", ".gguf"):
            read_header(file)
    return listed


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; LoadError with its name otherwise."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise LoadError(f"{path} cannot be read: {e}") from e
    if not isinstance(value, dict):
        raise LoadError(f"{path} holds no JSON object")
    return value


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Safetensors files of a component folder: those in its index, or the only one.

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
        files_are = "indexes" if indexes else "weight files and no index"
        raise LoadError(f"{folder} holds several {files_are}: {', '.join(f.name for f in several)}")
    others = [f.name for f in folder.iterdir() if f.suffix in (".bin", ".ckpt", ".pt", ".pth", ".msgpack", ".h5")]
    why = f"only {', '.join(others)}, which is not opened for safety" if others else "none"
    raise LoadError(f"{folder} should hold a .safetensors file; there is {why}")


def _plain(files: Iterable[Path]) -> list[Path]:
    """Files without variants in another dtype: ``x.fp16.safetensors`` beside ``x.safetensors``."""
    every = sorted(files)
    fewest = min((f.name.count(".") for f in every), default=0)
    return [f for f in every if f.name.count(".") == fewest]


def _shards(folder: Path, index: Path) -> tuple[Path, ...]:
    """Files listed in an index, which must hold exactly the tensors it lists."""
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
