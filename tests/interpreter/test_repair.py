"""The repaired interpreter rounds, multiplies and compares 16-bit and 8-bit floats as torch does."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator]
def cast_kernel(x_ptr, out_ptr, n: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, n)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


@triton.jit  # type: ignore[untyped-decorator]
def dot_kernel(a_ptr, b_ptr, out_ptr, n: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, n)[:, None] * n + tl.arange(0, n)[None, :]
    tl.store(out_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i)))


@triton.jit  # type: ignore[untyped-decorator]
def arithmetic_kernel(a_ptr, b_ptr, out_ptr, n: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, n)
    a = tl.load(a_ptr + i)
    b = tl.load(b_ptr + i)
    tl.store(out_ptr + i, tl.where(a > b, a * b, -(a + b)))


def values() -> Tensor:
    """Every exponent and both signs, subnormal and huge numbers, ties of the 8-bit formats."""
    random = torch.randn(1024, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor([0.0, 240.0, 248.0, 447.0, 448.0, 464.0, 500.0, 57344.0, 60000.0, 1e-3, 17.0, 19.0])
    wide = random[:998] * 10.0 ** torch.linspace(-39, 38, 998)
    return torch.cat([random, edges, -edges, wide, torch.tensor([1.00390625, 3.4e38])])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_casts_equal_torch(dtype: torch.dtype) -> None:
    x = values()
    out = torch.empty(len(x), dtype=dtype)
    cast_kernel[(1,)](x, out, n=len(x))
    top = torch.finfo(dtype).max
    want = (x if dtype == torch.bfloat16 else x.clamp(-top, top)).to(dtype)
    assert torch.equal(out.view(torch.int8), want.view(torch.int8))
    back = torch.empty(len(x))
    cast_kernel[(1,)](out, back, n=len(x))
    assert torch.equal(back, out.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_dot_equals_torch(dtype: torch.dtype) -> None:
    a, b = torch.randn(2, 32, 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    out = torch.empty(32, 32)
    dot_kernel[(1,)](a, b, out, n=32)
    torch.testing.assert_close(out, a.float() @ b.float())


def test_arithmetic_equals_torch() -> None:
    a, b = torch.randn(2, 256, generator=torch.Generator().manual_seed(2)).bfloat16()
    out = torch.empty_like(a)
    arithmetic_kernel[(1,)](a, b, out, n=256)
    assert torch.equal(out, torch.where(a > b, a * b, -(a + b)))
