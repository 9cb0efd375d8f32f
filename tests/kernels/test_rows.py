"""Norms, rotary embedding, gated activations and row quantization against formulas in float64, on every back end."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.ops.ada_norm import ada_norm, gate_add
from pipegraph.kernels.ops.gated import geglu, swiglu
from pipegraph.kernels.ops.qk_norm_rope import qk_norm_rope
from pipegraph.kernels.ops.quantize_rows import quantize_rows
from pipegraph.kernels.ops.rms_norm import rms_norm
from pipegraph.kernels.weights.hadamard import rotate

BOUNDS = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}
DTYPES = list(BOUNDS)


def able(op: str) -> list[str]:
    return sorted(name for name, b in backends(op).items() if not b.missing())


def random(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(
        dtype
    )


def near(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype and got.shape == want.shape
    assert (got.double() - want).norm() <= BOUNDS[dtype] * want.norm()


def layouts(x: Tensor) -> list[Tensor]:
    """The same values, also as a slice of something wider and with the last dimension apart in memory."""
    return [x, torch.cat([x, x], -1)[..., : x.shape[-1]], x.unsqueeze(-1).repeat_interleave(2, -1)[..., 0]]


def normed(x: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps)


@pytest.mark.parametrize(
    ("backend", "dtype"), [(b, d) for b in able("rms_norm") for d in DTYPES if b != "few-rows" or d == torch.float32]
)
def test_rms_norm(backend: str, dtype: torch.dtype) -> None:
    for shape in ((1,), (7,), (3, 64), (2, 3, 129), (0, 8)):
        weight, residual = random(shape[-1], dtype=dtype, seed=1), random(*shape, dtype=dtype, seed=2)
        for x in layouts(random(*shape, dtype=dtype)):
            near(rms_norm(x, weight, 1e-3, backend=backend), normed(x.double(), 1e-3) * weight.double(), dtype)
            y, total = rms_norm(x, weight.double(), 1e-3, residual=residual, backend=backend)
            assert torch.equal(total, x + residual)
            near(y, normed(total.double(), 1e-3) * weight.double(), dtype)
    zeros, ones = torch.zeros(2, 8, dtype=dtype), torch.ones(8, dtype=dtype)
    assert torch.equal(rms_norm(zeros, ones, backend=backend), zeros)
    poisoned = random(3, 8, dtype=dtype)
    poisoned[1, 2] = math.nan
    got = rms_norm(poisoned, ones, backend=backend)
    assert got[1].isnan().all() and got[::2].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", able("ada_norm"))
def test_ada_norm(backend: str, dtype: torch.dtype) -> None:
    for b, s, n in ((1, 1, 1), (2, 3, 65), (3, 2, 128)):
        for x in layouts(random(b, s, n, dtype=dtype) + 1):
            for shape in (None, (b, n), (b, 1, n), (n,), (b, s, n), (1, 1, 1)):
                shift, scale = (shape and random(*shape, dtype=dtype, seed=i) for i in (1, 2))
                wide = [
                    None if t is None else t.double()[:, None] if t.ndim == 2 else t.double() for t in (shift, scale)
                ]
                centred = x.double() - x.double().mean(-1, keepdim=True)
                for kind, base in (("layer", centred), ("rms", x.double())):
                    want = normed(base, 1e-2) * (1 + (0 if wide[1] is None else wide[1]))
                    want = want + (0 if wide[0] is None else wide[0])
                    near(ada_norm(x, shift, scale, 1e-2, kind=kind, backend=backend), want, dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", able("gate_add"))
def test_gate_add(backend: str, dtype: torch.dtype) -> None:
    x, other = random(2, 3, 65, dtype=dtype), random(2, 3, 65, dtype=dtype, seed=1)
    for shape in ((2, 65), (2, 1, 65), (65,), (2, 3, 65), (1, 1, 1)):
        for y in layouts(other):
            gate = random(*shape, dtype=dtype, seed=2)
            wide = gate.double()[:, None] if gate.ndim == 2 else gate.double()
            near(gate_add(x, y, gate, backend=backend), x.double() + y.double() * wide, dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pair by pair, as complex numbers; cos and sin are (S, R/2)."""
    half, out = cos.shape[-1], x.clone()
    for j in range(half):
        a, b = (2 * j, 2 * j + 1) if interleaved else (j, j + half)
        z = torch.complex(x[..., a], x[..., b]) * torch.complex(cos[:, j], sin[:, j])
        out[..., a], out[..., b] = z.real, z.imag
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(b, d) for b in able("qk_norm_rope") for d in DTYPES if b != "few-rows" or d == torch.float32],
)
def test_qk_norm_rope(backend: str, dtype: torch.dtype, interleaved: bool) -> None:
    for d, half in ((2, 1), (7, 2), (64, 32), (72, 36), (80, 20)):
        angle = random(9, half, seed=5)
        cos, sin = angle.cos(), angle.sin()
        if dtype != torch.float64:
            cos, sin = cos.float(), sin.float()
        weight = random(d, dtype=dtype, seed=3)
        for q in layouts(random(2, 3, 5, d, dtype=dtype)):
            k = random(2, 5, 1, d, dtype=dtype, seed=4).transpose(1, 2)
            place = torch.tensor([[8, 0, 3, 3, 1], [1, 2, 3, 4, 5]])
            gotten = qk_norm_rope(
                q, k, weight, None, cos, sin, 1e-3, interleaved=interleaved, positions=place, backend=backend
            )
            for got, x, w in zip(gotten, (q, k), (weight.double(), torch.ones(d)), strict=True):
                want = [
                    turned(normed(x[b].double(), 1e-3) * w, cos[p].double(), sin[p].double(), interleaved)
                    for b, p in enumerate(place)
                ]
                near(got, torch.stack(want), dtype)
        plain = qk_norm_rope(q, k, None, None, cos[:5], sin[:5], None, interleaved=interleaved, backend=backend)
        near(plain[0], turned(q.double(), cos[:5].double(), sin[:5].double(), interleaved), dtype)
        each = qk_norm_rope(q, k, None, None, cos[place], sin[place], None, interleaved=interleaved, backend=backend)
        near(each[1][1], turned(k[1].double(), cos[place[1]].double(), sin[place[1]].double(), interleaved), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["swiglu", "geglu", "geglu erf"])
def test_gated(op: str, dtype: torch.dtype) -> None:
    both = random(3, 130, dtype=dtype) * 4
    for backend in able(op.split()[0]):
        for gate, value in (both.chunk(2, -1), (both[:, ::2], both[:, 1::2]), (both[:0], both[:0]), (both[0], both[1])):
            x = gate.double()
            match op:
                case "swiglu":
                    got, want = swiglu(gate, value, backend=backend), x * torch.sigmoid(x)
                case "geglu":
                    got = geglu(gate, value, backend=backend)
                    want = x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
                case _:
                    got = geglu(gate, value, tanh=False, backend=backend)
                    want = x * torch.special.ndtr(x)
            near(got, want * value.double(), dtype)
            assert got.is_contiguous()
    far = torch.tensor([-3e4, -100, 0, 100, 3e4], dtype=dtype)
    for backend in able("swiglu"):
        for function in (swiglu, geglu):
            got = function(far, torch.ones_like(far), backend=backend)
            torch.testing.assert_close(got, far.clamp(min=0), rtol=0, atol=1e-30)


@pytest.mark.parametrize("format", ["int8", "fp8"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", able("quantize_rows"))
def test_quantize_rows(backend: str, dtype: torch.dtype, format: Any) -> None:
    most = 127 if format == "int8" else 448
    for k, block in ((1, None), (7, None), (96, None), (96, 32), (129, None), (256, 256), (8, 2)):
        rows = random(2, 5, k, dtype=dtype)
        rows[0, 1] = 0
        rows[0, 2] *= 1e-4
        for x in layouts(rows):
            got = quantize_rows(x, format, rotate=block, backend=backend)
            wide = rotate(x.double(), block) if block else x.double()
            scale = wide.abs().amax(-1) / most
            torch.testing.assert_close(got.scale[scale > 0].double(), scale[scale > 0], rtol=1e-6, atol=0)
            step = scale[..., None] * (0.5 if format == "int8" else 0) + wide.abs() * (0 if format == "int8" else 2**-4)
            loss = (got.dequantize(torch.float64) - wide).abs()
            assert (loss <= step * 1.001 + scale[..., None] * 2e-3).all()
            assert (got.data[0, 1].float() == 0).all() and got.data.float().abs().max() <= most
            again = quantize_rows(x, format, rotate=block, backend=backend)
            assert torch.equal(again.data.view(torch.int8), got.data.view(torch.int8))


@pytest.mark.parametrize("backend", able("quantize_rows"))
def test_quantize_rows_of_nothing_and_of_nan(backend: str) -> None:
    assert quantize_rows(torch.ones(0, 8), backend=backend).data.shape == (0, 8)
    x = torch.ones(3, 8)
    x[1, 2] = math.nan
    for format in ("int8", "fp8"):
        got = quantize_rows(x, format, backend=backend).dequantize(torch.float32)
        assert got[1].isnan().all() and (got[::2] == 1).all()


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("weight", lambda: rms_norm(torch.ones(2, 8), torch.ones(7))),
    ("residual", lambda: rms_norm(torch.ones(2, 8), residual=torch.ones(8))),
    ("float", lambda: rms_norm(torch.ones(2, 8, dtype=torch.int32))),
    ("shift", lambda: ada_norm(torch.ones(2, 3, 8), torch.ones(3, 8), None)),
    ("B, S, N", lambda: ada_norm(torch.ones(2, 8), None, None)),
    ("kind is", lambda: ada_norm(torch.ones(2, 3, 8), None, None, kind="batch")),  # type: ignore[arg-type]
    ("do not fit", lambda: gate_add(torch.ones(2, 3, 8), torch.ones(2, 3, 4), torch.ones(8))),
    ("must be alike", lambda: swiglu(torch.ones(2), torch.ones(3))),
    ("no format", lambda: quantize_rows(torch.ones(2, 8), "int4")),  # type: ignore[arg-type]
    ("divides K", lambda: quantize_rows(torch.ones(2, 8), rotate=16)),
    ("do not fit", lambda: rope((2, 4), (2, 4))),
    ("does not fit", lambda: rope((3, 2), (3, 2))),
    ("positions", lambda: rope((9, 2), (9, 2), positions=torch.zeros(3, dtype=torch.int64))),
    ("needs eps", lambda: rope((2, 2), (2, 2), q_weight=torch.ones(4), eps=None)),
]


def rope(cos: tuple[int, ...], sin: tuple[int, ...], q_weight: Tensor | None = None, **how: Any) -> Any:
    x = torch.ones(1, 1, 2, 4)
    return qk_norm_rope(x, x, q_weight, None, torch.ones(cos), torch.ones(sin), **how)


@pytest.mark.parametrize(("message", "call"), CALLS)
def test_refuses(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(KernelError, match=message):
        call()
