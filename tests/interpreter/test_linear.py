"""Matrix products and row kernels at the edges of their tiles; the conformance kit has the rest."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.grouped_linear import grouped_linear
from pipegraph.kernels.ops.linear import LowRank, linear
from pipegraph.kernels.ops.quantize_rows import quantize_rows
from pipegraph.kernels.weights.qweight import QWeight

BOUNDS = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
HALF = torch.bfloat16


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def near(got: Tensor, want: Tensor, bound: float) -> None:
    assert got.shape == want.shape and (got.double() - want.double()).norm() <= bound * want.double().norm()


@pytest.mark.parametrize("dtype", list(BOUNDS))
def test_ragged_tiles(dtype: torch.dtype) -> None:
    """Rows, columns and depth of 1, a tile and one to either side, primes; rows of x apart in memory."""
    for m, n, k in ((1, 1, 1), (31, 33, 65), (33, 31, 63), (32, 32, 64), (17, 67, 7)):
        x, weight = random(m, 2 * k, dtype=dtype)[:, :k], random(n, k + 3, dtype=dtype, seed=1)[:, 3:]
        near(linear(x, weight, backend="triton"), x.double() @ weight.double().T, BOUNDS[dtype])
    assert linear(random(0, 8), random(3, 8), backend="triton").shape == (0, 3)


@pytest.mark.parametrize(
    ("format", "group", "block", "dtype"),
    [
        ("q8", None, None, HALF),
        ("q8", 32, None, torch.float32),
        ("fp8", None, 32, HALF),
        ("w4", 32, None, HALF),
        ("w4", 32, 16, torch.float32),
        ("w4", 64, None, HALF),
    ],
)
def test_packed_weights(format: str, group: int | None, block: int | None, dtype: torch.dtype) -> None:
    """A depth that the tile does not divide, a side path of an odd rank, and one of strength 0, bit by bit."""
    k = 192 if group == 64 else 96
    weight = QWeight.quantize(random(40, k), format, group=group, rotate=block)  # type: ignore[arg-type]
    x, bias = random(33, k, dtype=dtype, seed=1), random(40, dtype=dtype, seed=2)
    want = x.double() @ weight.dequantize(torch.float64).T + bias.double()
    plain = linear(x, weight, bias, backend="triton")
    near(plain, want, BOUNDS[dtype])
    low = LowRank(random(33, k, dtype=dtype, seed=3), random(40, 33, dtype=dtype, seed=4))
    got = linear(x, weight, bias, low_rank=low, backend="triton")
    near(got, want + x.double() @ low.down.double().T @ low.up.double().T, BOUNDS[dtype])
    off = LowRank(low.down, torch.zeros_like(low.up))
    assert torch.equal(linear(x, weight, bias, low_rank=off, backend="triton"), plain)


def test_few_rows_are_summed_in_parts() -> None:
    """A depth of several parts, the last one short; the same bits each time and at strength 0."""
    x, full = random(3, 800, dtype=HALF), random(40, 800, seed=1)
    low = LowRank(random(16, 800, seed=2), torch.zeros(40, 16))
    for weight in (full.to(HALF), QWeight.quantize(full, "q8"), QWeight.quantize(full, "w4")):
        whole = weight.double() if isinstance(weight, Tensor) else weight.dequantize(torch.float64)
        got = linear(x, weight, backend="triton")
        near(got, x.double() @ whole.T, BOUNDS[HALF])
        assert torch.equal(linear(x, weight, low_rank=low, backend="triton"), got)


@pytest.mark.parametrize(("format", "block"), [("q8", None), ("q8", 32), ("fp8", None)])
def test_8_bit_inputs(format: str, block: int | None) -> None:
    """What the definition gives; all codes at their extremes overflow nothing."""
    weight = QWeight.quantize(random(40, 96), format, rotate=block)  # type: ignore[arg-type]
    x, low = random(2, 17, 96, seed=1), LowRank(random(20, 96, seed=2), random(40, 20, seed=3))
    x[0, 3] = 0
    for gate, act in itertools.product((None, random(40, seed=4), random(2, 1, 40, seed=5)), (None, "silu")):
        call: Any = dict(low_rank=low, gate=gate, act=act, residual=random(2, 17, 40, seed=6))
        got, want = (linear(x, weight, backend=b, **call) for b in ("triton-w8a8", "reference-w8a8"))
        near(got, want, 1e-6)
    if format == "q8":
        extreme = QWeight.quantize(torch.ones(32, 2048), "q8")
        got = linear(-torch.ones(1, 2048), extreme, backend="triton-w8a8")
        torch.testing.assert_close(got, torch.full((1, 32), -2048.0), rtol=1e-6, atol=0)


def test_experts_without_rows() -> None:
    x, weights, bias = random(40, 24), random(5, 33, 24, seed=1), random(5, 33, seed=2)
    offsets = torch.tensor([1, 1, 35, 35, 36, 38], dtype=torch.int32)
    got, want = (grouped_linear(x, weights, offsets, bias, act="silu", backend=b) for b in ("triton", "reference"))
    near(got, want, 1e-6)
    assert (got[0] == 0).all() and (got[38:] == 0).all()


@pytest.mark.parametrize("block", [None, 2, 4, 8, 32, 128, 256, 512, 1024])
def test_quantized_rows_are_the_same_bits(block: int | None) -> None:
    x = random(6, max(256, block) if block else 251, dtype=HALF)
    x[1], x[2] = 0, x[2] * 1e-30
    x[3, ::2], x[3, 1::2] = 127, 63.5
    for format in ("int8", "fp8"):
        got, want = (quantize_rows(x, format, rotate=block, backend=b) for b in ("triton", "torch"))
        assert torch.equal(got.scale, want.scale)
        assert torch.equal(got.data.view(torch.int8), want.data.view(torch.int8))
        assert format == "fp8" or got.data.min() >= -127


def test_blocks_too_large_for_shared_memory_are_left_to_torch() -> None:
    """Every GPU has 64 KiB of it for a block of threads; rows of any length fit, as they are rotated part by part."""
    x = random(2, 16384)
    with pytest.raises(KernelError, match="rotates blocks of at most 8192 columns, not 16384"):
        quantize_rows(x, rotate=16384, backend="triton")
    weight = QWeight.quantize(random(16, 16384), "q8", rotate=16384)
    for name, precision in (("triton", "exact"), ("triton-w8a8", "fast")):
        with pytest.raises(KernelError, match="rotates blocks of at most 8192 columns, not 16384"):
            linear(x, weight, precision=precision, backend=name)
