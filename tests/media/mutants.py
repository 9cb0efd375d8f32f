"""Damaged files, each made from its number alone."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

NUMBERS = (0, 1, 2, 7, 8, 16, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""What sizes, counts and places become."""


def mutant(files: Sequence[tuple[str, bytes]], seed: int, number: int) -> tuple[str, bytes]:
    """The ending and the bytes of a damaged file."""
    rng = random.Random(f"{seed}/{number}")
    ending, data = rng.choice(files)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice((_flip, _flip, _number, _number, _cut, _remove, _repeat, _splice, _noise))(data, rng, files)
    if data.startswith(b"\x89PNG") and rng.random() < 0.7:
        data = with_checksums(data)
    return ending, data


def _place(data: bytes, rng: random.Random) -> int:
    """Somewhere; half of the time in the first 200 bytes, where headers are."""
    return rng.randrange(max(1, len(data) if rng.random() < 0.5 else min(len(data), 200)))


def _flip(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    changed, at = bytearray(data), _place(data, rng)
    if changed:
        changed[at] = rng.randrange(256) if rng.random() < 0.5 else changed[at] ^ 1 << rng.randrange(8)
    return bytes(changed)


def _number(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    size, at = rng.choice((1, 2, 4, 8)), _place(data, rng)
    value = rng.choice(NUMBERS) % (1 << 8 * size)
    return data[:at] + value.to_bytes(size, rng.choice(("big", "little"))) + data[at + size :]


def _cut(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _remove(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + rng.randrange(1, 64) :]


def _repeat(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    at, size = _place(data, rng), rng.randrange(1, 300)
    return data[: at + size] + data[at : at + size] * rng.choice((1, 2, 50)) + data[at + size :]


def _splice(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    other = rng.choice(files)[1]
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _noise(data: bytes, rng: random.Random, files: Sequence[tuple[str, bytes]]) -> bytes:
    at, size = _place(data, rng), rng.randrange(1, 100)
    return data[:at] + rng.randbytes(size) + data[at + size :]


def with_checksums(png: bytes) -> bytes:
    """A PNG whose checksums are right again, as far as its chunks can be followed."""
    whole, at = bytearray(png), 8
    while at + 12 <= len(whole):
        end = at + 8 + int.from_bytes(whole[at : at + 4], "big")
        if end + 4 > len(whole):
            break
        whole[end : end + 4] = zlib.crc32(whole[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(whole)
