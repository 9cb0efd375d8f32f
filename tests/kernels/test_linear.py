"""The linear op and its low-rank side path against float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.linear import LowRank, PackedWeight, linear

BACKENDS = sorted(name for name, b in backends("linear").items() if not b.missing())
BOUNDS = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", list(BOUNDS))
def test_equals_float64(backend: str, dtype: torch.dtype) -> None:
    stores, shapes = (None, torch.float16, torch.float8_e4m3fn), ((7,), (1, 7), (2, 3, 7), (0, 7))
    for stored, shape, rank in itertools.product(stores, shapes, (0, 1, 5)):
        x, weight, bias = random(*shape, seed=1, dtype=dtype), random(9, 7, seed=2), random(9, seed=3, dtype=dtype)
        weight = weight.to(stored or dtype)
        low = LowRank(random(rank, 7, seed=4, dtype=dtype), random(9, rank, seed=5, dtype=dtype)) if rank else None
        want = x.double() @ weight.double().T + bias.double()
        if low:
            want = want + x.double() @ (low.up.double() @ low.down.double()).T
        got = linear(x, weight, bias, low_rank=low, backend=backend)
        assert got.dtype == dtype and got.shape == want.shape
        assert (got.double() - want).norm() <= BOUNDS[dtype] * want.norm()


def test_stack_is_the_sum() -> None:
    x, weight = random(3, 6, seed=0), random(4, 6, seed=1)
    parts = [LowRank(random(r, 6, seed=r), random(4, r, seed=10 + r)) for r in (1, 2, 4)]
    want = x @ (weight + sum(p.up @ p.down for p in parts)).T
    stacked = LowRank.stack(parts)
    assert stacked.rank == 7
    torch.testing.assert_close(linear(x, weight, low_rank=stacked), want)


@dataclass
class Int8:
    """A weight in 8 bit with a scale a row: what a quantized format looks like to the op."""

    data: Tensor
    scale: Tensor
    format: str = "int8-rows"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def device(self) -> torch.device:
        return self.data.device

    def dequantize(self, dtype: torch.dtype) -> Tensor:
        return (self.data * self.scale).to(dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_weight_with_a_side_path(backend: str) -> None:
    x, full = random(5, 32, seed=0, dtype=torch.float32), random(16, 32, seed=1, dtype=torch.float32)
    scale = full.abs().amax(1, keepdim=True) / 127
    packed = Int8((full / scale).round().to(torch.int8), scale)
    assert isinstance(packed, PackedWeight)
    low = LowRank(random(2, 32, seed=2, dtype=torch.float32), random(16, 2, seed=3, dtype=torch.float32))
    effect = linear(x, packed, low_rank=low, backend=backend) - linear(x, packed, backend=backend)
    torch.testing.assert_close(effect, x @ (low.up @ low.down).T, rtol=1e-4, atol=1e-4)


def test_refuses() -> None:
    x, weight = torch.ones(2, 6), torch.ones(4, 6)
    with pytest.raises(KernelError, match="does not fit a weight"):
        linear(x, weight.T)
    with pytest.raises(KernelError, match="bias"):
        linear(x, weight, torch.ones(5))
    with pytest.raises(KernelError, match="scales are missing"):
        linear(x, weight.to(torch.int8))
    with pytest.raises(KernelError, match="low rank"):
        linear(x, weight, low_rank=LowRank(torch.ones(2, 6), torch.ones(5, 2)))
