"""Reads tensors from files: memory-mapped if unchanged, packed if quantized, else read and cast."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Final, Self

import torch
from torch import Tensor

from pipegraph.kernels.ops.linear import PackedWeight
from pipegraph.kernels.weights.gguf_blocks import GgufWeight
from pipegraph.kernels.weights.qweight import QWeight

from .header_values import BLOCKS, Header, LoadError
from .pieces import Piece
from .quantized import pieces_of

DTYPES: Final = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""torch dtypes by safetensors' and GGUF's names."""
_NO_RESERVE: Final = 0x4000
"""Linux's MAP_NORESERVE, in module mmap from Python 3.13 on."""
_E2M1_TWICE: Final = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=torch.int8)
"""NVFP4 codes (sign, 2 exponent bits, 1 mantissa bit) -> twice their value."""
_CHUNK: Final = 1 << 20
"""Bytes cast at a time."""
_ENOUGH, _MUCH = 512, 0.6
"""Minimum number of compared scales, and ratio of step sizes, to conclude that scales are stored the other way."""


class Reader:
    """Reads pieces; returned tensors may be memory-mapped and outlive the reader."""

    def __init__(self) -> None:
        self._maps: dict[Path, Tensor] = {}
        self._files: dict[Path, BufferedReader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def dense(self, piece: Piece, dtype: torch.dtype, *, mapped: bool = True) -> Tensor:
        """The tensor in a float dtype, dequantized if packed; mapped or read directly if stored in that dtype."""
        if piece.transposed:
            return self.dense(piece.transpose(), dtype, mapped=False).T.contiguous()
        if piece.dtype in BLOCKS:
            block, size = BLOCKS[piece.dtype]
            blocks = GgufWeight(self._bytes(piece).view(-1, size), piece.dtype)
            return blocks.dequantize(dtype).view(-1, block).view(piece.shape)
        if piece.scale is not None:
            packed = self.packed(piece)
            assert packed is not None
            return packed.dequantize(dtype)
        stored = DTYPES[piece.dtype]
        if stored == dtype:
            return self._typed(piece, mapped)
        return self._cast(piece, stored, torch.empty(piece.shape, dtype=dtype))

    def passing(self, piece: Piece) -> Iterator[Tensor]:
        """Rows of a matrix as floats in chunks, for quantization; a single chunk if packed."""
        if piece.dtype in BLOCKS or piece.scale is not None or piece.transposed:
            yield self.dense(piece, torch.float32, mapped=False)
            return
        dtype, width = DTYPES[piece.dtype], piece.shape[1]
        size = width * dtype.itemsize
        step = max(1, _CHUNK // max(1, size)) * size
        for begin, count in piece.ranges:
            for at in range(begin, begin + count, step):
                yield self._read(piece.file, at, min(step, begin + count - at)).view(dtype).view(-1, width)

    def packed(self, piece: Piece) -> QWeight | GgufWeight | None:
        """The packed matrix; None if it is not packed, or not in rows."""
        if len(piece.shape) != 2 or piece.transposed:
            return None
        if piece.dtype == "NVFP4":
            return self._nvfp4(piece)
        if piece.dtype in BLOCKS:
            block, size = BLOCKS[piece.dtype]
            rows, width = piece.shape
            if width % block:
                return None
            return GgufWeight(self._bytes(piece).view(rows, width // block * size), piece.dtype)
        stored = DTYPES[piece.dtype]
        if stored in (torch.float8_e4m3fn, torch.float8_e5m2):
            scale = self._scale(piece) if piece.scale else torch.ones(())
            return QWeight.from_fp8(self._typed(piece, mapped=True), scale)
        if piece.scale is None:
            return None
        return QWeight.from_int8(self._typed(piece, mapped=True), self._scale(piece), rotate=piece.rotate or None)

    def _nvfp4(self, piece: Piece) -> QWeight:
        """Twice the values as int8 with a scale per 16 values: exactly what is stored."""
        assert piece.scale is not None and piece.outer is not None
        rows, columns = piece.shape
        pairs = self._bytes(piece)
        codes = _E2M1_TWICE[torch.stack([pairs >> 4, pairs & 15], 1).int()].view(rows, columns)
        scales = self._scales(piece)
        stored = torch.cat([torch.arange(at, at + size, columns // 2) for at, size in piece.ranges])
        scales = scales[(stored - piece.begin) // (columns // 2), : columns // 16]
        return QWeight.from_int8(codes, scales * (self._typed(piece.outer, mapped=False).view(()) / 2))

    def _scales(self, piece: Piece) -> Tensor:
        """NVFP4 scales of the whole stored matrix in rows, float32 (at least N, at least K / 16).

        Raises:
            LoadError: the file says tiles, but the scales look like rows.
        """
        assert piece.scale is not None
        plain = self._typed(piece.scale, mapped=False).float()
        if piece.tiled is False:
            return plain
        tall, wide = plain.shape
        scales = plain.view(tall // 128, wide // 4, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(tall, wide)
        if piece.tiled is None and _in_rows(plain, scales):
            raise LoadError(
                f"{piece.file}: the scales of `{piece.key}` look as if they lay in rows; in ComfyUI's format nvfp4 "
                "they lie in tiles of 128 x 4. Read so, its values would be wrong: convert the file anew"
            )
        return scales

    def _scale(self, piece: Piece) -> Tensor:
        scale = piece.scale_rows
        assert scale is not None
        values = self._typed(scale, mapped=False).float()
        return values.reshape(()) if values.numel() == 1 else values.reshape(-1)

    def _cast(self, piece: Piece, stored: torch.dtype, out: Tensor) -> Tensor:
        """Read and cast in chunks, to avoid two full copies."""
        flat, done = out.view(-1), 0
        for begin, count in piece.ranges:
            for at in range(begin, begin + count, _CHUNK):
                part = self._read(piece.file, at, min(_CHUNK, begin + count - at)).view(stored)
                flat[done : done + len(part)] = part
                done += len(part)
        return out

    def _typed(self, piece: Piece, mapped: bool) -> Tensor:
        """The values in the stored dtype."""
        data, dtype = self._bytes(piece, mapped), DTYPES[piece.dtype]
        if data.storage_offset() % dtype.itemsize:
            data = data.clone()
        return data.view(dtype).view(piece.shape)

    def _bytes(self, piece: Piece, mapped: bool = True) -> Tensor:
        """uint8 [n]: a view of the mapped file, or bytes read from it."""
        parts = [self._mapped(piece.file, *r) if mapped else self._read(piece.file, *r) for r in piece.ranges]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _mapped(self, path: Path, begin: int, count: int) -> Tensor:
        if path not in self._maps:
            self._maps[path] = map_file(path)
        return self._maps[path][begin : begin + count]

    def _read(self, path: Path, begin: int, count: int) -> Tensor:
        """Read bytes that will be cast or quantized; a mapping would stay in memory beside the result."""
        if path not in self._files:
            self._files[path] = path.open("rb")
        file, data = self._files[path], torch.empty(count, dtype=torch.uint8)
        file.seek(begin)
        done, view = 0, data.numpy().data
        while done < count:
            size = file.readinto(view[done:])
            if not size:
                raise OSError(f"{path} has become shorter while it was read")
            done += size
        return data


def map_file(path: Path) -> Tensor:
    """Memory-map a file: uint8 [size].

    Writing into them changes a copy in memory, never the file. On Linux no memory is set aside for that copy, so that
    a file may be larger than memory and swap.
    """
    with path.open("rb") as file:
        if sys.platform == "linux":
            flags, prot = mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            return torch.frombuffer(mmap.mmap(file.fileno(), 0, flags=flags, prot=prot), dtype=torch.uint8)
        return torch.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), dtype=torch.uint8)


def _in_rows(plain: Tensor, tiles: Tensor) -> bool:
    """Whether scales, read as rows or as tiles (N, G), are stored in rows.

    Rows of weights have sizes of their own, so that scales in their right order change little from one to the next.
    Steps from one group of four columns to the next are compared: there the other order goes to another row.
    """
    steps = [x.clamp_min(2.0**-9).log2().diff(dim=1)[:, 3::4].abs() for x in (plain, tiles)]
    return steps[0].numel() >= _ENOUGH and float(steps[0].mean()) < _MUCH * float(steps[1].mean())


def open_weights(header: Header) -> dict[str, Tensor | PackedWeight]:
    """Every tensor of a file by stored name, memory-mapped and packed if quantized; for any network."""
    pieces = pieces_of([header])
    with Reader() as reader:
        return {name: reader.packed(p) or reader.dense(p, _plain(p)) for name, p in pieces.items()}


def _plain(piece: Piece) -> torch.dtype:
    """The stored dtype; float32 for blocks that are not rows of a matrix."""
    return DTYPES.get(piece.dtype, torch.float32)
