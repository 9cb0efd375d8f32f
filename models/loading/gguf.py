"""The header of a GGUF file. Torch-free.

The layout is that of ggml's `docs/gguf.md`: metadata (typed keys and values), a table of tensors, then their bytes.
Dimensions are stored fastest first, so shapes are given reversed, as everywhere else.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

from pipegraph.limits import HEADER_BYTES, TENSOR_DIMENSIONS

from .header_values import BLOCKS, DamagedFile, Entry, Header, LoadError, is_shape, refuse_types, stored_bytes

_TYPES: Final = (
    "F32 F16 Q4_0 Q4_1 Q4_2 Q4_3 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL "
    "IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 Q4_0_4_4 Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 IQ4_NL_4_4 IQ4_NL_4_8 "
    "IQ4_NL_8_8 MXFP4 NVFP4 Q1_0"
).split()
"""ggml's types by number."""
_PLAIN: Final = frozenset("F64 F32 F16 BF16 I64 I32 I16 I8".split())
READ: Final = (*BLOCKS, *sorted(_PLAIN))
"""Types that can be read."""
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_ALIGNMENT: Final = 32
_KINDS: Final = {
    "general.architecture": "a text",
    "general.name": "a text",
    "general.alignment": "a whole number",
    "split.count": "a whole number",
    "tokenizer.ggml.model": "a text",
    "tokenizer.ggml.pre": "a text",
    "tokenizer.ggml.tokens": "a list of texts",
    "tokenizer.ggml.merges": "a list of texts",
    "tokenizer.ggml.scores": "a list of numbers",
    "tokenizer.ggml.token_type": "a list of numbers",
    "tokenizer.chat_template": "a text",
}
"""Expected types of well-known metadata."""
ORIGINAL_SHAPE: Final = "comfy.gguf.orig_shape."
"""Metadata key prefix for a tensor's shape before it was flattened into blocks."""


class _Cursor:
    """Sequential reader over the first ``HEADER_BYTES`` of the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0
        self.end = min(len(data), HEADER_BYTES)

    def take(self, kind: str) -> Any:
        (value,) = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def name(self) -> str:
        return self._bytes(self.take("Q")).decode("utf-8")

    def text(self) -> str:
        return self._bytes(self.take("Q")).decode("utf-8", "backslashreplace")

    def value(self, kind: int) -> Any:
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            return self.take(_SCALARS[kind])
        inner, count = self.take("I"), self.take("Q")
        if inner in _SCALARS:
            form = f"<{self._fitting(count)}{_SCALARS[inner]}"
            return struct.unpack(form, self._bytes(struct.calcsize(form)))
        return tuple(self.value(inner) for _ in range(self._fitting(count)))

    def _bytes(self, count: int) -> bytes:
        self.at += self._fitting(count)
        return self.data[self.at - count : self.at]

    def _fitting(self, count: int) -> int:
        """Check that a count of items, each at least one byte, fits into the file."""
        if count > self.end - self.at:
            raise struct.error("it ends too early, or is longer than a header may be")
        return count


def read_gguf(path: Path) -> Header:
    """Read the header of a GGUF file.

    Raises:
        LoadError: it is broken or cut off, or holds tensors of a type that is not read.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = len(data)
        try:
            metadata, table, end = _tables(path, _Cursor(data))
        except (struct.error, KeyError, ValueError, MemoryError, RecursionError, OverflowError) as e:
            raise DamagedFile(f"{path}: its GGUF header is broken or cut off ({e})") from e
    _check_metadata(path, metadata)
    if metadata.get("split.count", 0) > 1:
        raise LoadError(f"{path} is one of {metadata['split.count']} parts; merge them first (`gguf-split --merge`)")
    refuse_types(path, {name: kind for name, (kind, _, _) in table.items()}, READ)
    step = metadata.get("general.alignment", _ALIGNMENT)
    return Header(path, _entries(path, table, metadata, -(-end // step) * step, size), metadata, "GGUF")


def _tables(path: Path, cursor: _Cursor) -> tuple[dict[str, Any], dict[str, tuple[str, tuple[int, ...], int]], int]:
    """Metadata; tensors as type, shape and offset; and where the header ends."""
    cursor.at = 4
    version, count, keys = cursor.take("I"), cursor.take("Q"), cursor.take("Q")
    if version not in (2, 3):
        raise LoadError(f"{path} is GGUF of version {version}, or of a big-endian machine; versions 2 and 3 are read")
    metadata: dict[str, Any] = {}
    for _ in range(keys):
        name = cursor.name()
        if name in metadata:
            raise ValueError(f"`{name}` is there twice")
        metadata[name] = cursor.value(cursor.take("I"))
    table = {}
    for _ in range(count):
        name, dimensions = cursor.name(), cursor.take("I")
        if name in table or dimensions > TENSOR_DIMENSIONS:
            raise ValueError(f"`{name}` is there twice, or has more than {TENSOR_DIMENSIONS} dimensions")
        shape = tuple(cursor.take("Q") for _ in range(dimensions))[::-1]
        if not is_shape(shape):
            raise ValueError(f"`{name}` is too large")
        number = cursor.take("I")
        kind = _TYPES[number] if number < len(_TYPES) else f"type {number}"
        table[name] = (kind, shape, cursor.take("Q"))
    return metadata, table, cursor.at


def _check_metadata(path: Path, metadata: Mapping[str, Any]) -> None:
    """Refuse metadata whose types break the format.

    Raises:
        LoadError: names the key.
    """
    for key, value in metadata.items():
        kind = _KINDS.get(key) or ("a whole number" if key.endswith("_token_id") else "")
        if kind and not _is(kind, value):
            raise DamagedFile(f"{path}: its GGUF header is broken at `{key}`, which should be {kind}")
    step = metadata.get("general.alignment", _ALIGNMENT)
    if step < 1 or step & (step - 1):
        raise DamagedFile(f"{path}: its GGUF header is broken at `general.alignment`: {step} is no power of 2")


def _is(kind: str, value: Any) -> bool:
    """Whether a value has the type given in ``_KINDS``."""
    if kind == "a whole number":
        return type(value) is int and 0 <= value < 1 << 40
    if kind == "a number":
        return type(value) in (int, float) and math.isfinite(value)
    if kind == "a text":
        return isinstance(value, str)
    types: tuple[type, ...] = (str,) if kind == "a list of texts" else (int, float)
    return isinstance(value, tuple) and all(type(item) in types for item in value)


def _entries(
    path: Path, table: Mapping[str, tuple[str, tuple[int, ...], int]], metadata: Mapping[str, Any], body: int, size: int
) -> dict[str, Entry]:
    """Tensor entries with their places, which must be contiguous in the file."""
    entries, place = {}, body
    for name, (kind, shape, offset) in sorted(table.items(), key=lambda item: item[1][2]):
        begin, length = body + offset, stored_bytes(kind, prod(shape))
        original = metadata.get(ORIGINAL_SHAPE + name, shape)
        counts = isinstance(original, tuple) and all(type(n) is int and n >= 0 for n in original)
        if not counts or not is_shape(original):
            raise DamagedFile(f"{path}: its GGUF header is broken at `{ORIGINAL_SHAPE}{name}`")
        rows = kind not in BLOCKS or not shape or shape[-1] % BLOCKS[kind][0] == 0
        if begin < place or length < 0 or not rows or prod(original) != prod(shape):
            raise DamagedFile(f"{path}: its GGUF header is broken at `{name}`")
        place = begin + length
        entries[name] = Entry(kind, tuple(original), begin)
    if place > size:
        raise DamagedFile(f"{path} is cut off: {place} bytes announced, {size} there")
    return {name: entries[name] for name in table}
