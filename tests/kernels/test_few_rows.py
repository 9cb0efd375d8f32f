"""The CPU's product of a few rows with packed weights, against float64."""

from __future__ import annotations

import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

from pipegraph.kernels.backends.cpu import few_rows, plain
from pipegraph.kernels.backends.cpu.few_rows import product
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.linear import OP, LowRank, linear
from pipegraph.kernels.weights.hadamard import rotate
from pipegraph.kernels.weights.qweight import QWeight

SHAPES = [(1, 32), (7, 64), (130, 96), (33, 160), (17, 1024)]


def weights(n: int, k: int) -> dict[str, QWeight]:
    gen = torch.Generator().manual_seed(n * k)
    w = torch.randn(n, k, generator=gen)
    scale, zero = torch.rand(2, n, k // 32, generator=gen)
    codes = torch.randint(0, 16, (n, k), generator=gen).to(torch.uint8)
    found = {
        "q8": QWeight.quantize(w, "q8"),
        "q8 rotated": QWeight.quantize(w, "q8", rotate=32),
        "q8 one scale": QWeight.from_int8(QWeight.quantize(w, "q8").data, torch.tensor(0.5)),
        "q8 groups": QWeight.quantize(w, "q8", group=32),
        "q8 half": QWeight.from_int8(QWeight.quantize(w, "q8").data, scale.half()),
        "w4": QWeight.quantize(w, "w4"),
        "w4 float": QWeight.from_affine(codes, scale, zero - 0.5),
        "w4 bfloat16": QWeight.from_affine(codes, scale.bfloat16(), zero.bfloat16()),
    }
    if k % 128 == 0:
        found["w4 128"] = QWeight.quantize(w, "w4", group=128)
        found["q8 256"] = QWeight.quantize(w, "q8", group=256)
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equals_float64(shape: tuple[int, int], rows: int, dtype: torch.dtype) -> None:
    x = torch.randn(rows, 2 * shape[1], generator=torch.Generator().manual_seed(rows))[:, ::2].to(dtype)
    for name, weight in weights(*shape).items():
        want = x.double() @ weight.dequantize(torch.float64).T
        got = product(x, weight)
        assert got.dtype == torch.float32 and got.shape == want.shape
        assert (got - want).norm() <= 2e-6 * want.norm(), name
        assert torch.equal(got, product(x, weight)), f"{name}: twice gives other bits"


@pytest.mark.parametrize("block", [2, 4, 8, 64, 256])
def test_rotates_with_the_bits_of_the_definition(block: int) -> None:
    x = torch.randn(3, 768, generator=torch.Generator().manual_seed(block))
    turned = x.clone()
    few_rows._rotate(turned.numpy(), block)
    assert torch.equal(turned, rotate(x, block))


def test_nan_stays_in_its_row() -> None:
    x = torch.ones(3, 64)
    x[1, 5] = torch.nan
    for weight in weights(9, 64).values():
        assert product(x, weight).isnan().all(1).tolist() == [False, True, False]


@pytest.mark.slow
def test_numba_leaves_torchs_threads() -> None:
    """numba starts its own through OpenMP, where torch keeps how many it uses."""
    code = (
        "import torch; torch.set_num_threads(1); import pipegraph.kernels.backends.cpu.few_rows; "
        "print(torch.get_num_threads())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"


def test_what_is_prepared_goes_with_the_weight() -> None:
    weight = QWeight.quantize(torch.ones(4, 32), "q8")
    product(torch.ones(1, 32), weight)
    gone = weakref.ref(weight)
    del weight
    assert gone() is None


def test_nothing_to_do() -> None:
    weight = QWeight.quantize(torch.ones(4, 32), "q8")
    assert product(torch.ones(0, 32), weight).shape == (0, 4)


@pytest.mark.parametrize("name", ["q8 rotated", "q8 groups", "w4"])
def test_serves_linear(name: str) -> None:
    """Chosen for few rows, with bias, side paths and epilogue; a product that unpacks gives the same."""
    gen = torch.Generator().manual_seed(1)
    x, bias = torch.randn(2, 3, 96, generator=gen), torch.randn(40, generator=gen)
    weight = weights(40, 96)[name]
    path = LowRank(torch.randn(4, 96, generator=gen), torch.randn(40, 4, generator=gen))
    call: dict[str, Any] = dict(low_rank=path, act="silu", gate=bias, residual=torch.randn(2, 3, 40, generator=gen))
    OP.memo.clear()
    got = linear(x, weight, bias, **call)
    assert [b.name for b in OP.memo.values()] == ["few-rows"]
    torch.testing.assert_close(got, linear(x, weight, bias, **call, backend="reference"), rtol=1e-5, atol=1e-5)
    OP.memo.clear()
    linear(x.repeat(10, 1, 1), weight, bias)
    assert [b.name for b in OP.memo.values()] == ["torch"]


@pytest.mark.parametrize("format", ["q8", "fp8"])
def test_large_weights_are_unpacked_in_parts(format: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gen = torch.Generator().manual_seed(1)
    x, bias = torch.randn(5, 64, generator=gen), torch.randn(70, generator=gen)
    weight = QWeight.quantize(torch.randn(70, 64, generator=gen), format)
    whole = linear(x, weight, bias, backend="torch")
    monkeypatch.setattr("pipegraph.kernels.backends.torch.linear._LARGE", 0)
    monkeypatch.setattr("pipegraph.kernels.backends.torch.linear._PART", 64 * 16)
    torch.testing.assert_close(linear(x, weight, bias, backend="torch"), whole)


def test_refuses() -> None:
    x = torch.ones(1, 96)
    with pytest.raises(KernelError, match="not fp8"):
        linear(x, QWeight.quantize(torch.ones(4, 96), "fp8"), backend="few-rows")
    with pytest.raises(KernelError, match="not 48"):
        linear(x, QWeight.quantize(torch.ones(4, 96), "q8", group=48), backend="few-rows")
    with pytest.raises(KernelError, match="packed"):
        linear(x, torch.ones(4, 96, dtype=torch.float16), backend="few-rows")


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 9])
def test_plain_weights(rows: int) -> None:
    gen = torch.Generator().manual_seed(rows)
    for n, k in ((1, 1), (7, 33), (130, 96)):
        x, weight = torch.randn(rows, 2 * k, generator=gen)[:, ::2], torch.randn(n, k, generator=gen)
        want = x.double() @ weight.double().T
        assert (plain.product(x, weight) - want).norm() <= 1e-6 * want.norm()
        several = torch.empty(rows, n)
        plain.prepare(weight)(x.contiguous().numpy(), several.numpy(), 2)
        assert torch.equal(several, plain.product(x, weight)), "threads change the result"


def test_plain_weights_are_chosen_where_they_are_large_and_rows_few() -> None:
    large, small = torch.randn(512, 512), torch.randn(64, 64)
    for rows, weight, name in ((8, large, "few-rows"), (9, large, "torch"), (1, small, "torch")):
        OP.memo.clear()
        linear(torch.ones(rows, weight.shape[1]), weight)
        assert [b.name for b in OP.memo.values()] == [name]


def test_plain_weights_serve_linear_and_are_differentiated() -> None:
    gen = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(*shape, generator=gen) for shape in ((2, 3, 96), (40, 96), (40,)))
    path = LowRank(torch.randn(4, 96, generator=gen), torch.randn(40, 4, generator=gen))
    call: dict[str, Any] = dict(low_rank=path, act="silu", gate=bias, residual=torch.randn(2, 3, 40, generator=gen))
    got = linear(x, weight, bias, **call, backend="few-rows")
    torch.testing.assert_close(got, linear(x, weight, bias, **call, backend="reference"), rtol=1e-5, atol=1e-5)
    turned = weight.T.contiguous().T
    torch.testing.assert_close(linear(x, turned, backend="few-rows"), x @ weight.T)
    grads = []
    for backend in ("few-rows", "reference"):
        inputs = x.clone().requires_grad_(), weight.clone().requires_grad_()
        linear(*inputs, bias, backend=backend).square().sum().backward()
        grads.append([i.grad for i in inputs])
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
