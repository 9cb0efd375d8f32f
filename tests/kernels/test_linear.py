"""The linear op and its low-rank side path against float64."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.ops.linear import LowRank, PackedWeight, linear
from pipegraph.kernels.weights.hadamard import rotate
from pipegraph.kernels.weights.qweight import QWeight

BACKENDS = sorted(
    name for name, b in backends("linear").items() if not b.missing() and b.numerics == "exact" and name != "few-rows"
)
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
    with pytest.raises(KernelError, match="no activation"):
        linear(x, weight, act="relu")  # type: ignore[arg-type]
    with pytest.raises(KernelError, match="gate"):
        linear(x, weight, gate=torch.ones(3, 4))
    with pytest.raises(KernelError, match="residual"):
        linear(x, weight, residual=torch.ones(4))
    with pytest.raises(KernelError, match="precision"):
        linear(x, weight, precision="high")
    with pytest.raises(KernelError, match="needs a q8 or fp8 weight"):
        linear(x, weight, backend="reference-w8a8")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("act", [None, "silu", "gelu_tanh"])
def test_activation_gate_and_residual(backend: str, dtype: torch.dtype, act: str | None) -> None:
    x, weight = random(2, 3, 8, seed=1, dtype=dtype), random(9, 8, seed=2, dtype=dtype)
    bias = random(9, seed=3, dtype=dtype)
    want = x.double() @ weight.double().T + bias.double()
    if act:
        want = torch.nn.functional.silu(want) if act == "silu" else torch.nn.functional.gelu(want, approximate="tanh")
    for gate_shape, residual in itertools.product((None, (9,), (2, 1, 9), (2, 3, 9), (3, 1)), (False, True)):
        gate = None if gate_shape is None else random(*gate_shape, seed=4, dtype=dtype)
        rest = random(2, 3, 9, seed=5, dtype=dtype) if residual else None
        wanted = want if gate is None else want * gate.double()
        wanted = wanted if rest is None else wanted + rest.double()
        got = linear(x, weight, bias, act=act, gate=gate, residual=rest, backend=backend)  # type: ignore[arg-type]
        assert got.dtype == dtype and (got.double() - wanted).norm() <= BOUNDS[dtype] * wanted.norm()


KINDS = [
    ("q8", None, None),
    ("q8", None, 64),
    ("q8", 32, None),
    ("fp8", None, None),
    ("fp8", None, 32),
    ("w4", 32, None),
    ("w4", 64, 64),
    ("w4", 128, None),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize(("format", "group", "block"), KINDS)
def test_quantized_weights(backend: str, dtype: torch.dtype, format: str, group: int | None, block: int | None) -> None:
    """Against what the weight stands for; a LoRA beside it keeps its effect, and one of strength 0 changes no bit."""
    weight = QWeight.quantize(random(24, 128, seed=2), format, group=group, rotate=block)  # type: ignore[arg-type]
    weight = weight.with_low_rank(LowRank(random(2, 128, seed=6), random(24, 2, seed=7)))
    x, bias = random(5, 128, seed=1, dtype=dtype), random(24, seed=3, dtype=dtype)
    want = x.double() @ weight.dequantize(torch.float64).T + bias.double()
    plain = linear(x, weight, bias, backend=backend)
    bound = BOUNDS[dtype] if dtype != torch.float64 else 1e-7  # scales are made in float32
    assert (plain.double() - want).norm() <= bound * want.norm()
    off = LowRank(random(4, 128, seed=4, dtype=dtype), torch.zeros(24, 4, dtype=dtype))
    assert torch.equal(linear(x, weight, bias, low_rank=off, backend=backend), plain)
    on = LowRank(off.down, 3 * random(24, 4, seed=5, dtype=dtype))
    effect = (linear(x, weight, bias, low_rank=on, backend=backend) - plain).double()
    wanted = x.double() @ (on.up.double() @ on.down.double()).T
    assert 0.98 < (effect * wanted).sum() / wanted.square().sum() < 1.02


@pytest.mark.parametrize(("format", "block"), [("q8", None), ("q8", 64), ("fp8", None), ("fp8", 128)])
def test_8_bit_inputs_as_defined(format: str, block: int | None) -> None:
    weight = QWeight.quantize(random(24, 128, seed=2), format, rotate=block)  # type: ignore[arg-type]
    x, bias = random(2, 3, 128, seed=1, dtype=torch.float32), random(24, seed=3, dtype=torch.float32)
    low = LowRank(random(4, 128, seed=4), random(24, 4, seed=5))
    turned = rotate(x.double(), block) if block else x.double()
    scale = turned.abs().amax(-1, keepdim=True) / (127 if format == "q8" else 448)
    codes = (turned / scale).round() if format == "q8" else (turned / scale).float().to(torch.float8_e4m3fn).double()
    want = codes * scale @ weight.codes(torch.float64).T + x.double() @ (low.up @ low.down).T + bias
    got = linear(x, weight, bias, low_rank=low, backend="reference-w8a8")
    assert (got - want).norm() < 2e-3 * want.norm()  # a code at a tie may fall either way
    full = x.double() @ (weight.dequantize(torch.float64) + low.up @ low.down).T + bias
    assert (got - full).norm() < {"q8": 0.012, "fp8": 0.04}[format] * full.norm()
    assert torch.equal(linear(x, weight, bias, low_rank=low, backend="reference-w8a8"), got)


def test_8_bit_inputs_need_leave() -> None:
    """They are never chosen for a call that did not say ``fast``; a rotation makes them better where x has outliers."""
    x, weight = random(32, 256, seed=1, dtype=torch.float32), random(16, 256, seed=2, dtype=torch.float32)
    x[:, 7] *= 50
    errors = []
    for block in (None, 256):
        packed = QWeight.quantize(weight, "q8", rotate=block)
        want = x @ packed.dequantize(torch.float32).T
        assert (linear(x, packed) - want).norm() < 1e-6 * want.norm()
        errors.append(float((linear(x, packed, backend="reference-w8a8") - want).norm() / want.norm()))
    assert errors[1] < 0.4 * errors[0]
