"""Weights in GGUF's block formats, kept packed: the bytes of the file are the weight, e.g. in a mapped file.

Every format stores rows of blocks; a block holds groups of g codes, and each group has a scale and some a minimum:

    w = scale * code - minus

computed in float32 in this order, which makes the result equal bit for bit to that of ggml's reference package
(gguf-py, ``quants.py``), from where the layouts of the blocks are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from pipegraph.kernels.weights.qweight import QWeight

_CHUNK: Final = 1 << 20
"""Elements unpacked at a time: temporaries stay small, and in the cache of a processor."""


class Groups(NamedTuple):
    """The contents of blocks."""

    codes: Tensor
    """Integers [blocks, groups, g]: int8 where they are signed, uint8 where a minimum belongs to them."""
    scale: Tensor
    """float32 [blocks, groups]"""
    minus: Tensor | None
    """float32 [blocks, groups]"""


class Layout(NamedTuple):
    """How one format is stored."""

    block: int
    """Elements of a block."""
    bytes: int
    """Bytes of a block."""
    unpack: Callable[[Tensor], Groups]
    """Blocks as uint8 [blocks, bytes] to their contents."""
    exact: bool
    """Whether ``QWeight`` holds it without loss."""


@dataclass(frozen=True, eq=False, slots=True)
class GgufWeight:
    """A matrix in blocks; a packed weight of the op ``linear``."""

    data: Tensor
    """uint8 [N, bytes of a row]"""
    kind: str
    """Name of the format in GGUF, e.g. ``Q4_K``; a key of ``LAYOUTS``."""

    def __post_init__(self) -> None:
        layout = LAYOUTS[self.kind]
        if self.data.dtype != torch.uint8 or self.data.ndim != 2 or self.data.shape[1] % layout.bytes:
            raise ValueError(
                f"{self.kind}: rows are whole blocks of {layout.bytes} bytes in uint8, not "
                f"{list(self.data.shape)} in {self.data.dtype}"
            )

    @property
    def format(self) -> str:
        """Name among packed formats, e.g. ``gguf-q4_k``."""
        return f"gguf-{self.kind.lower()}"

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (N, K)."""
        layout = LAYOUTS[self.kind]
        return self.data.shape[0], self.data.shape[1] // layout.bytes * layout.block

    @property
    def device(self) -> torch.device:
        return self.data.device

    @property
    def nbytes(self) -> int:
        return self.data.numel()

    def buffers(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return {"data": self.data}

    def to(self, device: torch.device | str) -> GgufWeight:
        """The same on another device."""
        return replace(self, data=self.data.to(device))

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """The weight [N, K]: computed in float32, then rounded to ``dtype``."""
        layout, (rows, width) = LAYOUTS[self.kind], self.shape
        out = torch.empty(rows, width, dtype=dtype, device=self.device)
        step = max(1, _CHUNK // max(1, width))
        for start in range(0, rows, step):
            part = self.data[start : start + step]
            out[start : start + step] = _values(layout.unpack(part.reshape(-1, layout.bytes))).view(len(part), width)
        return out

    @property
    def exact(self) -> bool:
        """Whether ``QWeight`` can hold the same values."""
        return LAYOUTS[self.kind].exact

    def to_qweight(self) -> QWeight:
        """The same values as ``QWeight``, for kernels that read that.

        Raises:
            ValueError: not exactly representable, see ``exact``.
        """
        layout, (rows, _) = LAYOUTS[self.kind], self.shape
        if not layout.exact:
            raise ValueError(f"{self.kind} has values that a QWeight cannot hold")
        groups = layout.unpack(self.data.reshape(-1, layout.bytes))
        codes, scale = groups.codes.reshape(rows, -1), groups.scale.reshape(rows, -1)
        if groups.minus is not None:
            return QWeight.from_affine(codes, scale, -groups.minus.reshape(rows, -1))
        if self.kind == "Q4_0":
            return QWeight.from_affine((codes + 8).to(torch.uint8), scale, -8 * scale)
        return QWeight.from_int8(codes, scale)


def _values(groups: Groups) -> Tensor:
    """Dequantized values [blocks, groups, g], float32."""
    values = groups.scale[..., None] * groups.codes.float()
    return values if groups.minus is None else values - groups.minus[..., None]


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at a byte of each block, as float32 [blocks, 1]."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _fields(data: Tensor, bits: int, count: int) -> Tensor:
    """Fields of some bits, lowest first: uint8 [..., n] -> [..., count, n]."""
    shifts = torch.arange(0, bits * count, bits, dtype=torch.uint8, device=data.device)
    return (data[..., None, :] >> shifts[:, None]) & (1 << bits) - 1


def _q4_0(blocks: Tensor) -> Groups:
    codes = _fields(blocks[:, 2:], 4, 2).reshape(-1, 1, 32).to(torch.int8) - 8
    return Groups(codes, _half(blocks, 0), None)


def _q4_1(blocks: Tensor) -> Groups:
    return Groups(_fields(blocks[:, 4:], 4, 2).reshape(-1, 1, 32), _half(blocks, 0), -_half(blocks, 2))


def _five(blocks: Tensor, at: int) -> Tensor:
    """Codes of 5 bits: the 32 high bits in 4 bytes at ``at``, then the low ones. uint8 [blocks, 1, 32]."""
    high = _fields(blocks[:, at : at + 4, None], 1, 8).reshape(-1, 32)
    return (_fields(blocks[:, at + 4 :], 4, 2).reshape(-1, 32) | high << 4)[:, None]


def _q5_0(blocks: Tensor) -> Groups:
    return Groups(_five(blocks, 2).to(torch.int8) - 16, _half(blocks, 0), None)


def _q5_1(blocks: Tensor) -> Groups:
    return Groups(_five(blocks, 4), _half(blocks, 0), -_half(blocks, 2))


def _q8_0(blocks: Tensor) -> Groups:
    return Groups(blocks[:, 2:].view(torch.int8)[:, None], _half(blocks, 0), None)


def _q2_k(blocks: Tensor) -> Groups:
    """Scales and minima in 4 bits each, one for 16 codes of 2 bits."""
    scales, codes = blocks[:, :16], _fields(blocks[:, 16:80].reshape(-1, 2, 32), 2, 4)
    scale, minus = _half(blocks, 80) * (scales & 15).float(), _half(blocks, 82) * (scales >> 4).float()
    return Groups(codes.reshape(-1, 16, 16), scale, minus)


def _q3_k(blocks: Tensor) -> Groups:
    """Scales of 6 bits (4 low, 2 high), one for 16 codes of 3 bits, whose high bit is inverted."""
    low, high = _fields(blocks[:, 96:104], 4, 2).reshape(-1, 16), _fields(blocks[:, 104:108], 2, 4).reshape(-1, 16)
    scale = _half(blocks, 108) * ((low | high << 4).to(torch.int8) - 32).float()
    codes = _fields(blocks[:, 32:96].reshape(-1, 2, 32), 2, 4).reshape(-1, 16, 16).to(torch.int8)
    top = _fields(blocks[:, :32], 1, 8).reshape(-1, 16, 16).to(torch.int8)
    return Groups(codes - 4 * (1 - top), scale, None)


def _scale_min(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The 8 scales and 8 minima of Q4_K and Q5_K, 6 bits each in 12 bytes, times the block's two halves."""
    a, b, both = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scale = torch.cat([a & 63, (both & 15) | (a >> 2 & 48)], 1)
    minus = torch.cat([b & 63, (both >> 4) | (b >> 2 & 48)], 1)
    return _half(blocks, 0) * scale.float(), _half(blocks, 2) * minus.float()


def _q4_k(blocks: Tensor) -> Groups:
    return Groups(_fields(blocks[:, 16:].reshape(-1, 4, 32), 4, 2).reshape(-1, 8, 32), *_scale_min(blocks))


def _q5_k(blocks: Tensor) -> Groups:
    low = _fields(blocks[:, 48:].reshape(-1, 4, 32), 4, 2).reshape(-1, 8, 32)
    return Groups(low | _fields(blocks[:, 16:48], 1, 8) << 4, *_scale_min(blocks))


def _q6_k(blocks: Tensor) -> Groups:
    """int8 scales, one for 16 codes of 6 bits."""
    low = _fields(blocks[:, :128].reshape(-1, 2, 64), 4, 2).reshape(-1, 8, 32)
    high = _fields(blocks[:, 128:192].reshape(-1, 2, 32), 2, 4).reshape(-1, 8, 32)
    scale = _half(blocks, 208) * blocks[:, 192:208].view(torch.int8).float()
    return Groups((low | high << 4).reshape(-1, 16, 16).to(torch.int8) - 32, scale, None)


LAYOUTS: Final[Mapping[str, Layout]] = {
    "Q4_0": Layout(32, 18, _q4_0, True),
    "Q4_1": Layout(32, 20, _q4_1, True),
    "Q5_0": Layout(32, 22, _q5_0, True),
    "Q5_1": Layout(32, 24, _q5_1, False),
    "Q8_0": Layout(32, 34, _q8_0, True),
    "Q2_K": Layout(256, 84, _q2_k, False),
    "Q3_K": Layout(256, 110, _q3_k, True),
    "Q4_K": Layout(256, 144, _q4_k, True),
    "Q5_K": Layout(256, 176, _q5_k, False),
    "Q6_K": Layout(256, 210, _q6_k, True),
}
"""All supported formats. ``QWeight`` cannot hold 5 bits with a minimum, or a minimum per 16 codes."""
