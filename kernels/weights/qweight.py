"""Quantized weights as plain buffers, for linear layers in place of float weights.

======  ==========================================  ==========================================
format  a weight is                                 holds exactly
======  ==========================================  ==========================================
q8      int8 * scale, a row or a group of columns   Q8_0, int8 per channel or tensor, int8_convrot
fp8     float8 (e4m3fn, e5m2) * scale, tensor, row  scaled and plain fp8 files
w4      code 0..15 * scale + zero, a group          Q4_0, Q4_1, Q4_K, GPTQ, AWQ
======  ==========================================  ==========================================

Any of them may be rotated: it then holds W R (:mod:`hadamard`) and its user rotates x, or unpacks W = (W R) R. This is
data only; the kernels are back ends of ``linear``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ..dispatch import KernelError
from .hadamard import check_block, rotate
from .linear_values import LowRank

Format = Literal["q8", "fp8", "w4"]
FP8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)
GROUPS: Final = (32, 64, 128)
"""Group sizes of w4."""
TINY: Final = 2.0**-100
"""Least row maximum for a scale: a row of zeros gets codes of zero and a normal scale."""
_NIBBLES: Final = 32
"""w4 packs 32 columns in 16 bytes: byte j holds column j (low half) and column j + 16."""
_CHUNK: Final = 1 << 17
"""Elements that are quantized at once, so that temporaries stay small."""


class Layout(NamedTuple):
    """Layout of a weight, which decides with its format which kernels can read it."""

    dtype: torch.dtype
    group: int | None
    rotate: int | None
    scales: int
    """Dimensions of ``scale``: 0 for one, 1 for one a row, 2 for one a group."""


@dataclass(frozen=True, eq=False)
class QWeight:
    """A packed weight (N, K)."""

    format: Format
    shape: tuple[int, ...]
    """(N, K)"""
    data: Tensor
    """q8: int8 (N, K). fp8: float8 (N, K). w4: uint8 (N, K / 2), see ``pack_nibbles``. Contiguous."""
    scale: Tensor
    """Float, any width. (): one. (N,): a row. (N, K / group): a group of columns."""
    zero: Tensor | None = None
    """w4: (N, K / group), added after scaling."""
    group: int | None = None
    """Columns that share a scale; None if whole rows do."""
    rotate: int | None = None
    """Block of the rotation that ``data`` is in; None if not rotated."""
    low_rank: LowRank | None = None
    """Added to the dequantized codes (in the basis of x: never rotated)."""

    @staticmethod
    def quantize(weight: Tensor, format: Format, *, group: int | None = None, rotate: int | None = None) -> QWeight:
        """Quantize a float weight (N, K) of any strides; the rest as in ``of_rows``."""
        if weight.ndim != 2 or not weight.is_floating_point():
            raise KernelError(f"cannot quantize a {weight.dtype} of shape {tuple(weight.shape)}; needs a float (N, K)")
        return QWeight.of_rows(tuple(weight.shape), [weight], format, group=group, rotate=rotate)

    @staticmethod
    def of_rows(
        shape: tuple[int, ...],
        parts: Iterable[Tensor],
        format: Format,
        *,
        group: int | None = None,
        rotate: int | None = None,
    ) -> QWeight:
        """Quantize a float weight that comes some rows at a time, so that it need never be whole.

        Args:
            shape: (N, K).
            parts: Floats (n, K) that make N rows; each may be written over once the next is taken.
            format: ``q8``: symmetric int8, codes -127..127, a scale a row (or a group). ``fp8``: e4m3fn, a scale a row.
                ``w4``: affine, a scale and zero a group.
            group: Columns that share a scale; 32 by default for w4, whole rows for q8; not for fp8.
            rotate: Rotate by blocks of so many columns first (see ``hadamard.rotation_block``).

        Raises:
            KernelError: the format cannot hold this shape, or the weight is not finite.
        """
        if format == "w4":
            group = group or GROUPS[0]
        elif format == "fp8" and group:
            raise KernelError("fp8 has a scale a row; groups are for q8 and w4")
        _check(format, shape, group, rotate)
        whole: list[Tensor] = []  # allocated once, to avoid fragmentation
        done = 0
        for rows in (rows for part in parts for rows in _chunks(part, rotate)):
            quantized = _QUANTIZE[format](rows, group)
            whole = whole or [piece.new_empty(shape[0], *piece.shape[1:]) for piece in quantized]
            for out, piece in zip(whole, quantized, strict=True):
                out[done : done + len(piece)] = piece
            done += len(rows)
        assert done == shape[0], f"{done} of {shape[0]} rows came"
        data, scale, *zero = whole
        if format == "w4":
            scale, *zero = _halves(scale, *zero)
        return QWeight(format, shape, data, scale, zero[0] if zero else None, group, rotate)

    @staticmethod
    def from_int8(data: Tensor, scale: Tensor, rotate: int | None = None) -> QWeight:
        """Take int8 codes (N, K) with one scale, or one a row, (N,) or (N, 1), or one a group, (N, K / group)."""
        if data.dtype != torch.int8:
            raise KernelError(f"int8 codes are torch.int8, not {data.dtype}")
        scale, group = _scales(data, scale)
        _check("q8", tuple(data.shape), group, rotate)
        return QWeight("q8", tuple(data.shape), data.contiguous(), scale, None, group, rotate)

    @staticmethod
    def from_fp8(data: Tensor, scale: Tensor | float = 1.0) -> QWeight:
        """Take float8 values (N, K) with one scale, or one a row, (N,) or (N, 1)."""
        if data.dtype not in FP8:
            raise KernelError(f"fp8 weights are {' or '.join(map(str, FP8))}, not {data.dtype}")
        scale, group = _scales(data, torch.as_tensor(scale, dtype=None if isinstance(scale, Tensor) else torch.float32))
        if group:
            raise KernelError(f"fp8 has a scale a tensor or a row; got {tuple(scale.shape)} for {tuple(data.shape)}")
        return QWeight("fp8", tuple(data.shape), data.contiguous(), scale)

    @staticmethod
    def from_affine(codes: Tensor, scale: Tensor, zero: Tensor) -> QWeight:
        """Take codes (N, K), uint8 0..15, with scale and zero (N, K / group): w = code * scale + zero."""
        if codes.dtype != torch.uint8 or codes.ndim != 2 or (codes.numel() and int(codes.max()) > 15):
            raise KernelError(f"4-bit codes are a uint8 (N, K) of 0..15; got {codes.dtype} {tuple(codes.shape)}")
        if scale.shape != zero.shape or scale.ndim != 2 or not scale.shape[1] or codes.shape[1] % scale.shape[1]:
            raise KernelError(
                f"scale {tuple(scale.shape)} and zero {tuple(zero.shape)} do not fit codes {tuple(codes.shape)}"
            )
        group = codes.shape[1] // scale.shape[1]
        _check("w4", tuple(codes.shape), group, None)
        if len(scale) != len(codes):
            raise KernelError(f"{len(scale)} rows of scales do not fit {len(codes)} rows of codes")
        packed = pack_nibbles(codes)
        return QWeight("w4", tuple(codes.shape), packed, scale.contiguous(), zero.contiguous(), group)

    @property
    def device(self) -> torch.device:
        return self.data.device

    @cached_property  # read in every call
    def layout(self) -> Layout:
        return Layout(self.data.dtype, self.group, self.rotate, self.scale.ndim)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(t.nbytes for t in self.buffers().values())

    def codes(self, dtype: torch.dtype) -> Tensor:
        """The dequantized codes (N, K): still rotated, without the low-rank part; rounded once to ``dtype``."""
        work = torch.float64 if dtype == torch.float64 else torch.float32
        n, k = self.shape
        data = unpack_nibbles(self.data) if self.format == "w4" else self.data
        scale = self.scale.to(work)
        if self.group is None:
            return (data.to(work) * (scale[:, None] if scale.ndim else scale)).to(dtype)
        wide = data.view(n, k // self.group, self.group).to(work) * scale[:, :, None]
        if self.zero is not None:
            wide += self.zero.to(work)[:, :, None]
        return wide.view(n, k).to(dtype)

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        """The dequantized weight (N, K) in a float dtype."""
        if self.rotate is None and self.low_rank is None:
            return self.codes(dtype)
        wide = self.codes(torch.float64 if dtype == torch.float64 else torch.float32)
        if self.rotate is not None:
            wide = rotate(wide, self.rotate)
        if self.low_rank is not None:
            wide = wide + self.low_rank.up.to(wide) @ self.low_rank.down.to(wide)
        return wide.to(dtype)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> QWeight:
        """The same on another device."""
        moved = {name: t.to(device, non_blocking=non_blocking) for name, t in self.buffers().items()}
        return QWeight.restore(moved, self.meta())

    def buffers(self) -> dict[str, Tensor]:
        """Every tensor, by a name that a safetensors file can hold."""
        all_ = {"data": self.data, "scale": self.scale, "zero": self.zero}
        if self.low_rank is not None:
            all_ |= {"down": self.low_rank.down, "up": self.low_rank.up}
        return {name: t for name, t in all_.items() if t is not None}

    def meta(self) -> dict[str, str | int]:
        """Metadata that the buffers do not contain."""
        fields: dict[str, str | int] = {"format": self.format, "n": self.shape[0], "k": self.shape[1]}
        return fields | {k: v for k, v in (("group", self.group), ("rotate", self.rotate)) if v is not None}

    @staticmethod
    def restore(buffers: Mapping[str, Tensor], meta: Mapping[str, str | int]) -> QWeight:
        """Restore a weight from ``buffers`` and ``meta``; numbers may be text, as from a file's header.

        Raises:
            KernelError: something is missing, left over or does not fit together.
        """
        left = dict(buffers)
        try:
            format, shape = str(meta["format"]), (int(meta["n"]), int(meta["k"]))
            data, scale = left.pop("data"), left.pop("scale")
        except KeyError as e:
            raise KernelError(f"a packed weight without {e}") from None
        group, turned = (int(meta[key]) if key in meta else None for key in ("group", "rotate"))
        zero, down, up = (left.pop(key, None) for key in ("zero", "down", "up"))
        if left or format not in get_args(Format) or (down is None) != (up is None):
            raise KernelError(f"not a packed weight: format {format!r}, buffers {', '.join(buffers)}")
        _check(format, shape, group, turned)
        columns = shape[1] // 2 if format == "w4" else shape[1]
        scales = {(shape[0], shape[1] // group)} if group else {(), (shape[0],)}
        wanted = {"w4": (torch.uint8,), "q8": (torch.int8,), "fp8": FP8}[format]
        fits = tuple(data.shape) == (shape[0], columns) and data.dtype in wanted and tuple(scale.shape) in scales
        if not fits or (zero is None) != (format != "w4") or (zero is not None and zero.shape != scale.shape):
            sizes = ", ".join(f"{name} {t.dtype} {tuple(t.shape)}" for name, t in buffers.items())
            raise KernelError(f"no {format} weight of {shape}: {sizes}")
        low = None if down is None or up is None else LowRank(down, up)
        return QWeight(format, shape, data.contiguous(), scale, zero, group, turned, low)  # type: ignore[arg-type]

    def rows(self, part: slice) -> QWeight:
        """Some of the rows, without a copy and without the low-rank part."""
        data = self.data[part]
        scale = self.scale[part] if self.scale.ndim else self.scale
        zero = None if self.zero is None else self.zero[part]
        return QWeight(self.format, (len(data), self.shape[1]), data, scale, zero, self.group, self.rotate)

    def with_low_rank(self, low_rank: LowRank | None) -> QWeight:
        """The same codes with another low-rank part."""
        return replace(self, low_rank=low_rank)


def pack_nibbles(codes: Tensor) -> Tensor:
    """(N, K) uint8 0..15 -> (N, K / 2): in each 32 columns, byte j holds column j and, in its high half, j + 16."""
    n, k = codes.shape
    low, high = codes.view(n, k // _NIBBLES, 2, _NIBBLES // 2).unbind(2)
    return (low | (high << 4)).view(n, k // 2)


def unpack_nibbles(packed: Tensor) -> Tensor:
    """The codes (N, K) of ``pack_nibbles``."""
    n, half = packed.shape
    pairs = packed.view(n, half * 2 // _NIBBLES, _NIBBLES // 2)
    return torch.stack((pairs & 15, pairs >> 4), 2).view(n, half * 2)


def int8_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric int8 over the last dimension: codes of -127..127, and the scales (float32 or float64).

    NaN in a row makes its scale NaN.
    """
    scale = _floored(x) / 127
    return (x / scale[..., None]).round().clamp(-127, 127).nan_to_num(0).to(torch.int8), scale


def fp8_rows(x: Tensor, dtype: torch.dtype = torch.float8_e4m3fn) -> tuple[Tensor, Tensor]:
    """float8 over the last dimension: each row's largest value becomes the largest of the dtype. NaN as in int8."""
    most = torch.finfo(dtype).max
    scale = _floored(x) / most
    return (x / scale[..., None]).clamp(-most, most).to(dtype), scale


def _floored(x: Tensor) -> Tensor:
    """The largest magnitude of each row, at least TINY; NaN stays."""
    if x.shape[-1] == 0:
        return x.new_full(x.shape[:-1], TINY)
    return x.abs().amax(-1).clamp(min=TINY)


def _q8(rows: Tensor, group: int | None) -> tuple[Tensor, ...]:
    n, k = rows.shape
    data, scale = int8_rows(rows.view(n, k // group, group) if group else rows)
    return data.view(n, k), scale.float()


def _fp8(rows: Tensor, group: int | None) -> tuple[Tensor, ...]:
    data, scale = fp8_rows(rows)
    return data, scale.float()


def _w4(rows: Tensor, group: int | None) -> tuple[Tensor, ...]:
    assert group is not None
    n, k = rows.shape
    parts = rows.view(n, k // group, group)
    low, high = parts.amin(-1), parts.amax(-1)
    scale, zero = _near_half((high - low) / 15), _near_half(low)  # codes are for the scales that will be kept
    steps = (parts - zero[..., None]) / scale.masked_fill(scale == 0, 1)[..., None]
    return pack_nibbles(steps.round().clamp(0, 15).to(torch.uint8).view(n, k)), scale, zero


_QUANTIZE: Final[Mapping[str, Any]] = {"q8": _q8, "fp8": _fp8, "w4": _w4}


def _near_half(x: Tensor) -> Tensor:
    """Float32, rounded to what float16 holds where that is in its range of full precision."""
    size = x.abs()
    return torch.where((size > 65504) | (size < 2.0**-14), x, x.half().float())


def _halves(*parts: Tensor) -> list[Tensor]:
    """In float16 if that loses nothing."""
    halves = [p.half() for p in parts]
    return halves if all(torch.equal(h.float(), p) for h, p in zip(halves, parts, strict=True)) else list(parts)


def _chunks(weight: Tensor, block: int | None) -> Iterator[Tensor]:
    """Rows of the weight in float32, rotated."""
    for rows in weight.split(max(1, _CHUNK // max(1, weight.shape[1]))):
        wide = rows.float().contiguous()
        if not bool(wide.isfinite().all()):
            raise KernelError("cannot quantize a weight that holds NaN or Inf")
        yield rotate(wide, block) if block else wide


def _scales(data: Tensor, scale: Tensor) -> tuple[Tensor, int | None]:
    """Scales in one of our three shapes, and the group if they are of groups."""
    if data.ndim != 2 or not scale.is_floating_point():
        raise KernelError(f"needs codes (N, K) and float scales, not {tuple(data.shape)} and {scale.dtype}")
    n, k = data.shape
    if scale.numel() == 1 and (n != 1 or scale.ndim == 0):
        return scale.reshape(()), None
    if tuple(scale.shape) in ((n,), (n, 1)):
        return scale.reshape(n).contiguous(), None
    if scale.ndim == 2 and len(scale) == n and scale.shape[1] and k % scale.shape[1] == 0:
        return scale.contiguous(), k // scale.shape[1]
    raise KernelError(f"scale {tuple(scale.shape)} does not fit codes {tuple(data.shape)}")


def _check(format: str, shape: tuple[int, ...], group: int | None, block: int | None) -> None:
    if len(shape) != 2:
        raise KernelError(f"a packed weight is (N, K), not {shape}")
    if group is not None and (group < 1 or shape[1] % group):
        raise KernelError(f"groups of {group} do not divide K = {shape[1]}")
    if format == "w4" and (group not in GROUPS or shape[1] % _NIBBLES):
        raise KernelError(
            f"w4 has groups of {', '.join(map(str, GROUPS))} that divide K; got {group} for K = {shape[1]}"
        )
    if block is not None:
        check_block(block, shape[1])
