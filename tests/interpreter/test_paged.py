"""Triton's paged attention and the writing of pages, against the definitions in torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.backends.triton.configs_attention import decode_config, decode_splits
from pipegraph.kernels.ops.paged import kv_append, paged_decode

BOUNDS = {torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}
LENGTHS = torch.tensor([0, 1, 50], dtype=torch.int32)


def paged(page: int, heads: int, d: int, dv: int, dtype: torch.dtype, int8: bool) -> dict[str, Any]:
    """Random caches that are slices of larger ones, and tables with garbage where they are not used."""
    gen = torch.Generator().manual_seed(0)
    most = -(-int(LENGTHS.max()) // page) + 1
    table = torch.randperm(len(LENGTHS) * most, generator=gen).int().view(len(LENGTHS), most)
    pages = table.numel()

    def draw(size: int) -> Tensor:
        if int8:
            return torch.randint(-127, 128, (pages, page, heads, 2, size), generator=gen, dtype=torch.int8)[..., 1, :]
        return torch.randn(pages, page, heads, 2, size, generator=gen).to(dtype)[..., 1, :]

    made: dict[str, Any] = dict(k_cache=draw(d), v_cache=draw(dv), block_table=table, seq_lens=LENGTHS)
    if int8:
        small = torch.rand(2, pages, page, heads, generator=gen)
        made |= dict(k_scale=(small[0] * 0.02).half(), v_scale=(small[1] * 1e-4).half())
    for i, n in enumerate(LENGTHS.tolist()):
        table[i, -(-n // page) :] = 2**30
    return made


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(
    ("page", "heads", "group", "d", "dv", "how"),
    [
        (16, 2, 4, 64, 64, dict()),
        (1, 1, 1, 24, 40, dict(window=5, sinks=True)),
        (64, 1, 20, 72, 72, dict(softcap=3.0)),  # more query heads than a program takes on
    ],
)
def test_decode_equals_float64(
    page: int, heads: int, group: int, d: int, dv: int, how: dict[str, Any], dtype: torch.dtype, int8: bool
) -> None:
    call = paged(page, heads, d, dv, dtype, int8) | how
    gen = torch.Generator().manual_seed(1)
    call["q"] = torch.randn(len(LENGTHS), heads * group, d, generator=gen).to(dtype)
    if "sinks" in how:
        call["sinks"] = torch.randn(heads * group, generator=gen)
    got, lse = paged_decode(**call, return_lse=True, backend="triton")
    wide: dict[str, Any] = {
        n: x.double() if isinstance(x, Tensor) and x.dtype in (dtype, torch.float32) else x for n, x in call.items()
    }
    want, want_lse = paged_decode(**wide, return_lse=True, backend="reference")
    assert got.dtype == dtype and (got.double() - want).norm() <= BOUNDS[dtype] * want.norm()
    torch.testing.assert_close(lse.double(), want_lse, rtol=1e-5, atol=1e-5)


def test_garbage_in_pages_stays_hidden() -> None:
    """NaN behind the last token of a sequence and before its window."""
    call = paged(16, 1, 16, 16, torch.float32, False) | dict(q=torch.ones(3, 1, 16), window=20)
    clean = paged_decode(**call, backend="triton")
    for i, n in enumerate(LENGTHS.tolist()):
        for t in [*range(max(0, n - 20)), *range(n, -(-n // 16) * 16)]:
            for name in ("k_cache", "v_cache"):
                call[name][call["block_table"][i, t // 16], t % 16] = math.nan
    assert torch.equal(paged_decode(**call, backend="triton"), clean)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("scales", [None, torch.float16, torch.float32])
def test_append_equals_the_definition(dtype: torch.dtype, scales: torch.dtype | None) -> None:
    """Integers may be a step off where they were between two; NaN, zeros and what is left out are the same."""
    gen = torch.Generator().manual_seed(0)
    k = torch.randn(7, 2, 24, generator=gen).to(dtype)
    v = torch.randn(7, 2, 40, generator=gen).to(dtype)
    k[0], k[1, 0], v[2], k[3, 1, 7], v[4, 0, 3] = 0, 1e-9, v[2] * 1e4, math.nan, -math.inf
    slots = torch.tensor([3, 9, 0, 17, 30, -1, 11], dtype=torch.int32)
    made = []
    for backend in ("reference", "triton"):
        kind = dtype if scales is None else torch.int8
        caches = {n: torch.full((8, 4, 2, d), 77, dtype=kind) for n, d in (("k_cache", 24), ("v_cache", 40))}
        if scales is not None:
            caches |= {name: torch.full((8, 4, 2), 7, dtype=scales) for name in ("k_scale", "v_scale")}
        kv_append(k, v, **caches, slots=slots, backend=backend)
        made.append(caches)
    for name, want in made[0].items():
        got = made[1][name]
        if want.dtype == torch.int8:
            assert (got.int() - want.int()).abs().max() <= 1 and (got != want).float().mean() < 0.01
        else:
            torch.testing.assert_close(got, want, rtol=1e-6 if want.dtype == scales else 0, atol=0, equal_nan=True)


def test_splits() -> None:
    config = decode_config("sm_90", 2, 128)
    assert decode_splits(64 * 1024, config, programs=8, processors=132) == 33
    assert decode_splits(64 * 1024, config, programs=1024, processors=132) == 1
    assert decode_splits(1 << 20, config, programs=1, processors=132) == 64
    assert decode_splits(10, config, programs=1, processors=132) == 1
    assert decode_splits(0, config, programs=1, processors=132) == 1
