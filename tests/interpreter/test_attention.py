"""Triton's attention against the reference in float64, at the edges of its tiles (32 by 32 here)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.attention_varlen import attention_varlen
from pipegraph.kernels.ops.merge_attention import merge_attention

BOUNDS = {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}
SIZES = [1, 5, 31, 32, 33, 47, 64, 65]


def random(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def check(op: Any, backend: str, call: dict[str, Any], stored: dict[str, Any] | None = None) -> None:
    """The back end gives what the reference gives in float64; ``stored`` replaces arguments with others as good."""
    got, lse = op(**call | (stored or {}), return_lse=True, backend=backend)
    want, want_lse = op(**{name: exact(x) for name, x in call.items()}, return_lse=True, backend="reference")
    assert got.dtype == call["q"].dtype and got.shape == want.shape and lse.shape == want_lse.shape
    assert (got.double() - want).norm() <= BOUNDS[got.dtype] * want.norm()
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)


def laid_out(layout: str, x: Tensor) -> Tensor:
    """The same (B, H, S, D) numbers with other strides."""
    match layout:
        case "bshd":
            return x.transpose(1, 2).contiguous().transpose(1, 2)
        case "columns":
            return x.transpose(2, 3).contiguous().transpose(2, 3)
        case "packed":  # of a fused projection, at an odd address
            return torch.cat([x[..., :1], x, x], -1)[..., 1 : 1 + x.shape[-1]]
    return x


@st.composite
def calls(draw: Any, tma: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    gen = random(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from(list(BOUNDS)[1 if tma else 0 :]))
    hkv, group = draw(st.sampled_from([(1, 1), (2, 1), (1, 3), (2, 2)]))
    sq, skv = draw(st.sampled_from(SIZES)), draw(st.sampled_from(SIZES))
    d, dv = draw(st.sampled_from([(64, 64), (64, 128)] if tma else [(16, 16), (5, 40), (24, 24), (40, 17), (72, 64)]))
    causal = draw(st.booleans())
    q, k, v = (
        torch.randn(1, h, s, n, generator=gen).to(dtype)
        for h, s, n in ((hkv * group, sq, d), (hkv, skv, d), (hkv, skv, dv))
    )
    call = dict(
        q=q,
        k=k,
        v=v,
        causal=causal,
        window=draw(st.sampled_from([None, 1, 7, 40])) if causal else None,
        scale=draw(st.sampled_from([None, -0.3])),
        softcap=draw(st.sampled_from([None, None, 2.0])),
        sinks=torch.randn(hkv * group, generator=gen).to(dtype) if draw(st.booleans()) else None,
    )
    if not tma:
        shape = draw(st.sampled_from([(sq, skv), (1, 1, 1, skv), (hkv * group, sq, 1)]))
        if draw(st.booleans()):
            call["mask"] = torch.rand(shape, generator=gen) < 0.7
        if draw(st.booleans()):
            bias = torch.randn(shape, generator=gen, dtype=torch.float64 if draw(st.booleans()) else torch.float32)
            call["bias"] = bias.masked_fill(torch.rand(shape, generator=gen) < 0.2, -math.inf)
    layout = draw(st.sampled_from(["bhsd", "bshd", "columns", "packed"]))
    return call, {name: laid_out(layout, call[name]) for name in ("q", "k", "v")}


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(calls(tma=False))
def test_equals_float64(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    check(attention, "triton", *call)


@settings(max_examples=10, deadline=None, derandomize=True, database=None)
@given(calls(tma=True))
def test_descriptors_equal_float64(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    check(attention, "triton-tma", *call)


@pytest.mark.parametrize("d", [64, 72, 80, 96, 128, 256])
def test_head_sizes(d: int) -> None:
    q, k, v = torch.randn(3, 1, 1, 17, d, generator=random()).bfloat16()
    check(attention, "triton", dict(q=q, k=k, v=v, causal=True))


@pytest.mark.parametrize("backend", ["triton", "triton-tma"])
def test_hidden_nan_stays_hidden(backend: str) -> None:
    """Of a key that no row sees, and of one that later rows see."""
    q, k, v = torch.randn(3, 1, 1, 40, 64, generator=random()).half()
    clean = attention(q, k, v, causal=True, backend=backend)
    v[:, :, 36] = math.inf
    k[:, :, 38] = math.nan
    q[:, :, 3] = math.nan
    got = attention(q, k, v, causal=True, backend=backend)
    bad = [3, *range(36, 40)]
    assert got[:, :, bad].isnan().all()
    rest = [i for i in range(40) if i not in bad]
    assert torch.equal(got[:, :, rest], clean[:, :, rest])


def test_nan_under_a_mask_stays_hidden() -> None:
    q, k, v = torch.randn(3, 1, 2, 35, 72, generator=random())
    mask = torch.rand(35, generator=random()) < 0.5
    clean = attention(q, k, v, mask=mask, backend="triton")
    k[:, :, ~mask], v[:, :, ~mask] = math.inf, math.nan
    assert torch.equal(attention(q, k, v, mask=mask, backend="triton"), clean)
    bias = torch.zeros(35).masked_fill(~mask, -math.inf)
    assert torch.equal(attention(q, k, v, bias=bias, backend="triton"), clean)


@pytest.mark.parametrize("size", [1e4, 1e6])
def test_large_scores_choose_the_largest(size: float) -> None:
    eye = torch.eye(64)[None, None, :40]
    v = torch.randn(1, 1, 40, 64, generator=random())
    assert torch.equal(attention(eye * size, eye * size, v, scale=1.0, backend="triton"), v)
    even = attention(eye * 0, eye * size, v, backend="triton")
    torch.testing.assert_close(even, v.mean(2, keepdim=True).expand_as(v))


def test_heads_and_batch_do_not_mix() -> None:
    """What a head gives does not depend on where it stands, to the bit; nor on the run."""
    q, k, v = torch.randn(3, 2, 2, 33, 16, generator=random()).half()
    first = attention(q, k, v, backend="triton")
    turned = attention(*(x.flip(0, 1) for x in (q, k, v)), backend="triton")
    assert torch.equal(turned.flip(0, 1), first)
    assert torch.equal(attention(q, k, v, backend="triton"), first)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (dict(q=torch.ones(1, 1, 2, 512), k=torch.ones(1, 1, 2, 512), v=torch.ones(1, 1, 2, 4)), "up to 256"),
        (dict(zip("qkv", torch.ones(3, 1, 1, 2, 4, dtype=torch.float64), strict=True)), "not torch.float64"),
    ],
)
def test_refuses(call: dict[str, Any], says: str) -> None:
    with pytest.raises(KernelError, match=says):
        attention(**call, backend="triton")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", [dict(), dict(causal=True, window=9), dict(softcap=4.0)])
def test_sequences_equal_float64(dtype: torch.dtype, how: dict[str, Any]) -> None:
    """Empty ones, ones without keys, longer ones than a tile; what lies behind the last is not looked at."""
    gen = random()
    lengths, keys = [0, 5, 40, 1, 33], [3, 5, 33, 70, 0]
    cu_q, cu_k = (torch.tensor([0, *n]).cumsum(0).int() for n in (lengths, keys))
    q = torch.randn(sum(lengths), 4, 24, generator=gen).to(dtype)
    k, v = (torch.randn(sum(keys) + 3, 2, n, generator=gen).to(dtype) for n in (24, 40))
    k[-3:] = v[-3:] = math.nan
    call = dict(q=q, k=k, v=v, cu_q=cu_q, cu_k=cu_k, max_q=40, max_k=70, sinks=torch.randn(4, generator=gen), **how)
    check(attention_varlen, "triton", call)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_merged_parts_are_the_whole(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 2, s, 24, generator=random(s)).to(dtype) for s in (9, 50, 50))
    sinks = torch.randn(2, generator=random())
    whole, whole_lse = attention(*map(exact, (q, k, v)), sinks=sinks, return_lse=True, backend="reference")
    parts = []
    for i, (a, b) in enumerate(((0, 7), (7, 7), (7, 30), (30, 50))):
        one = sinks if i == 2 else None
        parts.append(attention(q, k[:, :, a:b], v[:, :, a:b], sinks=one, return_lse=True, backend="triton"))
    parts[1][0].fill_(math.nan)  # of no key: counts for nothing
    got, lse = merge_attention(parts, backend="triton")
    assert (got.double() - whole).norm() <= BOUNDS[dtype] * whole.norm()
    torch.testing.assert_close(lse.double(), whole_lse, rtol=1e-5, atol=1e-5)
