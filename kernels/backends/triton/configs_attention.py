"""Tile sizes of the attention kernels, by architecture: pure functions of what is known before a launch.

The tables come from ahead-of-time compilation: no spilled registers, shared memory that fits, the most warps at work.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .available import INTERPRETER, nearest


class Config(NamedTuple):
    """How a program of a kernel works."""

    rows: int
    """Query rows of a program."""
    keys: int
    """Keys of a step."""
    warps: int
    stages: int


_SMALL: Final = {64: Config(64, 64, 4, 3), 128: Config(128, 64, 8, 2), 256: Config(64, 32, 8, 2)}
_TABLES: Final = {
    "sm_80": {64: Config(128, 64, 4, 3), 128: Config(128, 64, 8, 2), 256: Config(64, 64, 8, 2)},
    "sm_86": _SMALL,
    "sm_89": _SMALL,
    "sm_90": {64: Config(128, 64, 4, 3), 128: Config(128, 64, 8, 3), 256: Config(128, 32, 8, 2)},
    "sm_100": {64: Config(128, 64, 8, 3), 128: Config(128, 64, 8, 2), 256: Config(128, 32, 8, 2)},
    "sm_120": _SMALL,
    "gfx942": {64: Config(64, 64, 4, 1), 128: Config(64, 32, 4, 1), 256: Config(64, 32, 4, 1)},
    "gfx1100": {64: Config(64, 32, 4, 1), 128: Config(64, 16, 8, 1), 256: Config(32, 16, 8, 1)},
    "gfx1201": {64: Config(64, 64, 4, 1), 128: Config(64, 32, 4, 1), 256: Config(64, 32, 8, 1)},
}
"""Architecture -> head size up to which it holds -> config, for 16-bit tensors."""
_SINGLE: Final = {64: Config(64, 32, 8, 2), 128: Config(32, 32, 8, 1), 256: Config(32, 32, 8, 1)}
"""float32, which no tensor core computes exactly."""
_SINGLE_RDNA: Final = {64: Config(32, 16, 8, 1), 128: Config(16, 16, 8, 1), 256: Config(16, 16, 8, 1)}
"""float32 on AMD GPUs without instructions for products of it."""


def attention_config(arch: str, itemsize: int, head_size: int, queries: int, masked: bool = False) -> Config:
    """For ``attention`` and ``attention_varlen``.

    Args:
        arch: Value of ``available.architecture``.
        itemsize: Bytes of an element of q.
        head_size: The larger of the two.
        queries: Queries of the longest sequence.
        masked: There is a mask or bias, whose tiles take registers, too.
    """
    if arch == INTERPRETER:
        return Config(32, 32, 4, 1)
    table = _table(nearest(arch), itemsize)
    config = next(config for size, config in table.items() if head_size <= size)
    if masked:
        config = config._replace(keys=min(32, config.keys), warps=8 if config.rows == 128 else config.warps)
    if queries <= config.rows // 2:  # few queries: no rows in vain, and as many blocks as there are heads
        rows = max(16, 1 << (queries - 1).bit_length())
        return config._replace(rows=rows, warps=4 if rows >= 64 or itemsize == 4 else min(4, config.warps))
    return config


def _table(arch: str, itemsize: int) -> dict[int, Config]:
    if itemsize == 4:
        return _SINGLE_RDNA if arch.startswith("gfx1") else _SINGLE
    return _TABLES.get(arch, _SMALL)


def tma_config(arch: str, head_size: int) -> Config:
    """For the variant with tensor descriptors; on sm_120 for head sizes up to 128."""
    if arch == INTERPRETER:
        return Config(32, 32, 4, 1)
    if arch.startswith("sm_12"):
        return _SMALL[head_size]
    return {64: Config(128, 128, 8, 2), 128: Config(128, 128, 8, 2), 256: Config(128, 64, 8, 2)}[head_size]


def decode_config(arch: str, itemsize: int, head_size: int) -> Config:
    """For ``paged_decode``; its ``rows`` are the most query heads that a program takes on."""
    if arch == INTERPRETER:
        return Config(16, 16, 4, 1)
    keys = 32 if head_size > 128 or itemsize == 4 or nearest(arch) == "gfx1100" else 64
    return Config(64, keys, 4, 1 if arch.startswith("gfx") else 2)


def decode_splits(keys: int, config: Config, programs: int, processors: int) -> int:
    """Into how many parts to cut the keys, at most ``keys`` of them, when there are ``programs`` without cutting.

    Enough for two programs on each processor, but at least four steps for each, and at most 64.
    """
    wanted = -(-2 * processors // max(1, programs))
    return max(1, min(wanted, -(-keys // (4 * config.keys)), 64))


def split(size: int) -> tuple[int, int]:
    """A head size as one tile, or as a large and a small one where that saves work: 72 -> (64, 16), 128 -> (128, 0)."""
    whole = max(16, 1 << (size - 1).bit_length())
    large = whole // 2
    rest = size - large
    if size == whole or rest <= 0:
        return whole, 0
    small = max(16, 1 << (rest - 1).bit_length())
    return (large, small) if large + small < whole else (whole, 0)
