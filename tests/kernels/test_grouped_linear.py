"""The linear layer for each expert against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.ops.grouped_linear import grouped_linear
from pipegraph.kernels.weights.qweight import QWeight

BACKENDS = sorted(name for name, b in backends("grouped_linear").items() if not b.missing())
BOUNDS = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("format", [None, "q8", "fp8", "w4"])
@pytest.mark.parametrize("dtype", list(BOUNDS))
@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_float64(backend: str, dtype: torch.dtype, format: str | None) -> None:
    full, x, bias = (
        random(4, 9, 64, dtype=dtype),
        random(13, 64, dtype=dtype, seed=1),
        random(4, 9, dtype=dtype, seed=2),
    )
    weights = full if format is None else [QWeight.quantize(w, format) for w in full]  # type: ignore[arg-type]
    for runs in ([0, 5, 5, 6, 13], [0, 13, 13, 13, 13], [2, 3, 3, 3, 11]):
        want = torch.zeros(13, 9, dtype=torch.float64)
        for e in range(4):
            w = weights[e] if isinstance(weights, Tensor) else weights[e].dequantize(torch.float64)
            rows = slice(runs[e], runs[e + 1])
            want[rows] = torch.nn.functional.silu(x[rows].double() @ w.double().T + bias[e].double())
        offsets = torch.tensor(runs, dtype=torch.int32)
        got = grouped_linear(x, weights, offsets, bias, act="silu", backend=backend)
        bound = max(BOUNDS[dtype], 1e-6 if format else 0)  # scales are made in float32
        assert got.dtype == dtype and (got.double() - want).norm() <= bound * want.norm()
        assert (got[: runs[0]] == 0).all() and (got[runs[-1] :] == 0).all()


def test_refuses() -> None:
    x, weights, offsets = torch.ones(3, 8), torch.ones(2, 4, 8), torch.tensor([0, 1, 3], dtype=torch.int32)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: grouped_linear(torch.ones(3, 7), weights, offsets),
        lambda: grouped_linear(x, weights, offsets[:2]),
        lambda: grouped_linear(x, weights, offsets.long()),
        lambda: grouped_linear(x, weights, offsets, torch.ones(4)),
        lambda: grouped_linear(x, weights.to(torch.int8), offsets),
        lambda: grouped_linear(x, [QWeight.quantize(torch.ones(4, 8), f) for f in ("q8", "fp8")], offsets),
    )
    for call in calls:
        with pytest.raises(KernelError):
            call()
