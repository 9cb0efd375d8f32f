"""Tile sizes of the matrix products and row kernels, by architecture: pure functions of what is known before a launch.

The tables come from ahead-of-time compilation (registers, spills, shared memory, matrix instructions).
"""

from __future__ import annotations

from typing import NamedTuple

from .available import INTERPRETER, nearest


class Config(NamedTuple):
    """How a program of a matrix product works."""

    rows: int
    """Rows of x (BM)."""
    columns: int
    """Columns of the result (BN)."""
    depth: int
    """Columns of x in a step (BK)."""
    warps: int
    stages: int
    band: int = 8
    """Row tiles that are walked together, so that weights are read from the cache."""


SMALL = frozenset({"sm_86", "sm_89", "sm_120", "gfx942", "gfx1100", "gfx1201"})
"""Architectures whose blocks have at most 99 KiB of shared memory."""


def bucket(rows: int) -> int:
    """The tile height for a number of rows: 16, 32, 64 or 128."""
    return min(128, max(16, 1 << (rows - 1).bit_length())) if rows > 1 else 16


def weights_config(arch: str, kind: str, itemsize: int, rows: int) -> Config:
    """For x of 16 or 32 bits times weights that are unpacked on the way.

    Args:
        arch: Value of ``available.architecture``.
        kind: ``plain``, ``int8``, ``e4m3``, ``e5m2``, ``int8-groups`` or ``w4``.
        itemsize: Bytes of an element of x.
        rows: Rows of x.
    """
    if arch == INTERPRETER:
        return Config(16 if rows <= 16 else 32, 32, 64, 4, 1)
    arch, high = nearest(arch), bucket(rows)
    if itemsize == 4:
        return Config(min(high, 64), 64, 32, 8 if high >= 64 else 4, 2)  # 4 warps have too few registers for 64 rows
    if high == 16:
        return Config(16, 64, 128, 4, 3 if arch in SMALL else 4)
    if high == 32:
        return Config(32, 64, 128, 4, 3)
    if arch.startswith("gfx"):
        return Config(64, 64, 64, 4, 2)
    if high == 64 or (arch in ("sm_80", "sm_86", "sm_89", "sm_120") and kind != "plain"):
        return Config(64, 128, 64, 4, 3)
    return Config(128, 128, 64, 8, 3)


def weights_splits(processors: int, tiles: int, config: Config, k: int) -> int:
    """In how many parts to sum over k where tiles are too few to keep the device busy: those of few rows."""
    if config.rows > 32 or not tiles:
        return 1
    return max(1, min(2 * processors // tiles, k // (4 * config.depth), 16))


def bytes_config(arch: str, rows: int) -> Config:
    """For 8-bit x times 8-bit weights."""
    if arch == INTERPRETER:
        return Config(32, 32, 64, 4, 1)
    arch, high = nearest(arch), bucket(rows)
    if high <= 32:
        return Config(high, 64, 128, 4, 4)
    if high == 64:
        return Config(64, 128, 128, 4, 3)
    if arch.startswith("gfx"):
        return Config(128, 128, 64, 8, 2)
    if arch in SMALL:
        return Config(128, 128, 64, 8, 3)
    return Config(128, 128, 128, 8, 3)


def row_warps(columns: int) -> int:
    """Warps of a program that holds whole rows of so many columns (a power of two)."""
    return min(16, max(1, columns // 512))
