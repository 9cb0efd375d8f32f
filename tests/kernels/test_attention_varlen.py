"""Many sequences at once, and merged parts, against attention over each sequence and over all keys."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.attention_varlen import attention_varlen
from pipegraph.kernels.ops.merge_attention import merge_attention

BACKENDS = ["reference", "torch"]
BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def sequences(dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Empty ones, ones without keys, more queries than keys; NaN behind the last."""
    gen = torch.Generator().manual_seed(0)
    queries, keys = [0, 5, 11, 1, 4], [3, 5, 7, 20, 0]
    cu_q, cu_k = (torch.tensor([0, *n]).cumsum(0).int() for n in (queries, keys))
    q = torch.randn(sum(queries), 4, 8, generator=gen).to(dtype)
    k, v = (torch.randn(sum(keys) + 2, 2, n, generator=gen).to(dtype) for n in (8, 12))
    k[-2:] = v[-2:] = math.nan
    return dict(q=q, k=k, v=v, cu_q=cu_q, cu_k=cu_k, max_q=11, max_k=20)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("how", [dict(), dict(causal=True), dict(causal=True, window=3), dict(softcap=2.0)])
def test_is_attention_of_each_sequence(backend: str, dtype: torch.dtype, how: dict[str, Any]) -> None:
    call = sequences(dtype) | how | dict(sinks=torch.randn(4, generator=torch.Generator().manual_seed(1)))
    if backend == "torch" and "softcap" in how:
        with pytest.raises(KernelError, match="has no softcap"):
            attention_varlen(**call, backend=backend)
        return
    got, lse = attention_varlen(**call, return_lse=True, backend=backend)
    assert torch.equal(attention_varlen(**call, backend=backend), got)
    for (a, b), (c, d) in zip(pairwise(call["cu_q"].tolist()), pairwise(call["cu_k"].tolist()), strict=True):
        q, k, v = (x.double().transpose(0, 1)[None] for x in (call["q"][a:b], call["k"][c:d], call["v"][c:d]))
        want, want_lse = attention(q, k, v, **how, sinks=call["sinks"], return_lse=True, backend="reference")
        assert (got[a:b].double() - want[0].transpose(0, 1)).norm() <= BOUNDS[dtype] * want.norm()
        torch.testing.assert_close(lse[a:b].double(), want_lse[0].T, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(max_q=10), "sequence 2 has 11 queries and 7 keys, but max_q is 10"),
        (dict(cu_q=torch.tensor([0, 5, 11, 12, 14, 20]).int()), "cu_q goes from 0 to 21"),
        (dict(cu_k=torch.tensor([0, 3]).int()), "cu_q and cu_k are"),
        (dict(q=torch.ones(21, 3, 8)), "do not fit"),
        (dict(window=3), "needs causal=True"),
        (dict(sinks=torch.ones(2)), "sinks are"),
    ],
)
def test_refuses(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(KernelError, match=says):
        attention_varlen(**sequences() | wrong)


def parts(dtype: torch.dtype, *cuts: int) -> tuple[list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """Attention over pieces of 20 keys, the second with sinks, and over all of them in float64."""
    gen = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, s, 8, generator=gen).to(dtype) for s in (5, 20, 20))
    sinks = torch.randn(3, generator=gen)
    found = [
        attention(q, k[:, :, a:b], v[:, :, a:b], sinks=sinks if i == 1 else None, return_lse=True, backend="reference")
        for i, (a, b) in enumerate(pairwise((0, *cuts, 20)))
    ]
    whole = attention(q.double(), k.double(), v.double(), sinks=sinks, return_lse=True, backend="reference")
    return found, whole


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", BOUNDS)
def test_merged_parts_are_the_whole(backend: str, dtype: torch.dtype) -> None:
    found, (want, want_lse) = parts(dtype, 7, 7, 11)
    found.append((torch.full_like(found[0][0], math.nan), torch.full_like(found[0][1], -math.inf)))  # saw no key
    got, lse = merge_attention(found, backend=backend)
    assert got.dtype == dtype and (got.double() - want).norm() <= BOUNDS[dtype] * want.norm()
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_merging_nothing_seen_gives_nothing(backend: str) -> None:
    blind = torch.full((2, 3, 4), math.nan), torch.full((2, 3), -math.inf)
    got, lse = merge_attention([blind, blind], backend=backend)
    assert torch.equal(got, torch.zeros(2, 3, 4)) and torch.equal(lse, blind[1])


def test_merging_refuses() -> None:
    part = torch.ones(2, 3, 4), torch.ones(2, 3)
    for wrong, says in (
        ([], "no parts"),
        ([(part[0], torch.ones(2, 4))], "a part is"),
        ([part, (part[0].half(), part[1])], "differ"),
    ):
        with pytest.raises(KernelError, match=says):
            merge_attention(wrong)
