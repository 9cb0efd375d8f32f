"""Decoding from pages and writing to them, against attention over the same tokens in a row."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.backends.triton import available
from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.ops.attention import attention
from pipegraph.kernels.ops.paged import (
    APPEND,
    DECODE,
    AppendSignature,
    Signature,
    _refuses_triton,
    kv_append,
    paged_decode,
)

BACKENDS = ["reference", "torch"]
BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}
LENGTHS = (0, 1, 9, 33)


def tokens(dtype: torch.dtype, heads: int) -> list[tuple[Tensor, Tensor]]:
    """Keys (n, H, 24) and values (n, H, 40) of each sequence."""
    gen = torch.Generator().manual_seed(0)
    return [
        (torch.randn(n, heads, 24, generator=gen).to(dtype), torch.randn(n, heads, 40, generator=gen).to(dtype))
        for n in LENGTHS
    ]


def cache(
    page: int, heads: int, dtype: torch.dtype, scales: torch.dtype | None = None
) -> tuple[dict[str, Any], Tensor, list[Tensor]]:
    """Caches full of garbage, a block table with garbage where it is not used, and the slots of each sequence."""
    most = -(-max(LENGTHS) // page) + 1
    order = torch.randperm(len(LENGTHS) * most, generator=torch.Generator().manual_seed(1))
    table = order.int().view(len(LENGTHS), most)
    slots = [(table[i, :, None] * page + torch.arange(page)).flatten()[:n] for i, n in enumerate(LENGTHS)]
    for i, n in enumerate(LENGTHS):
        table[i, -(-n // page) :] = 2**30
    garbage = 77 if dtype == torch.int8 else math.nan
    made: dict[str, Any] = {
        name: torch.full((len(order), page, heads, d), garbage, dtype=dtype)
        for name, d in (("k_cache", 24), ("v_cache", 40))
    }
    if scales is not None:
        made |= {name: torch.full((len(order), page, heads), math.nan, dtype=scales) for name in ("k_scale", "v_scale")}
    return made, table, slots


@pytest.mark.parametrize(
    ("backend", "dtype"), [*((b, d) for b in BACKENDS for d in BOUNDS), ("few-rows", torch.float32)]
)
@pytest.mark.parametrize("page", [1, 16])
@pytest.mark.parametrize("how", [dict(), dict(window=5), dict(softcap=2.0), dict(scale=0.5)])
def test_decodes_what_was_appended(backend: str, dtype: torch.dtype, page: int, how: dict[str, Any]) -> None:
    heads, group = 2, 3
    made, table, slots = cache(page, heads, dtype)
    written = tokens(dtype, heads)
    for (k, v), slot in zip(written, slots, strict=True):
        kv_append(k, v, **made, slots=slot, backend=backend)
    gen = torch.Generator().manual_seed(2)
    q = torch.randn(len(LENGTHS), heads * group, 24, generator=gen).to(dtype)
    call: dict[str, Any] = dict(sinks=torch.randn(heads * group, generator=gen)) | how
    if backend == "torch" and "softcap" in how:
        with pytest.raises(KernelError, match="has no softcap"):
            paged_decode(q, **made, block_table=table, seq_lens=torch.tensor(LENGTHS).int(), backend=backend, **call)
        return
    got, lse = paged_decode(
        q, **made, block_table=table, seq_lens=torch.tensor(LENGTHS).int(), return_lse=True, backend=backend, **call
    )
    for i, (k, v) in enumerate(written):
        keys, values = (x.double().transpose(0, 1)[None] for x in (k, v))
        want, want_lse = attention(
            q[i, None, :, None].double(), keys, values, causal=True, return_lse=True, backend="reference", **call
        )
        assert (got[i].double() - want[0, :, 0]).norm() <= BOUNDS[dtype] * want.norm()
        torch.testing.assert_close(lse[i].double(), want_lse[0, :, 0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", [*BACKENDS, "few-rows"])
@pytest.mark.parametrize("scales", [torch.float16, torch.float32])
def test_int8_pages_are_nearly_as_good(backend: str, scales: torch.dtype) -> None:
    made, table, slots = cache(16, 2, torch.int8, scales)
    written = tokens(torch.float32, 2)
    for (k, v), slot in zip(written, slots, strict=True):
        kv_append(k, v * 1e-2, **made, slots=slot, backend=backend if backend in BACKENDS else None)
    q = torch.randn(len(LENGTHS), 4, 24, generator=torch.Generator().manual_seed(2))
    got = paged_decode(q, **made, block_table=table, seq_lens=torch.tensor(LENGTHS).int(), backend=backend)
    for i, (k, v) in enumerate(written):
        keys, values = (x.transpose(0, 1)[None] for x in (k, v * 1e-2))
        want = attention(q[i, None, :, None], keys, values)
        assert (got[i] - want[0, :, 0]).norm() <= 2e-2 * want.norm()


@pytest.mark.parametrize("backend", BACKENDS)
def test_quantizes_as_said(backend: str) -> None:
    """Within half a step of what was given; zeros, tiny numbers and NaN, too; never -128; negative slots left out."""
    made, _, _ = cache(4, 2, torch.int8, torch.float16)
    gen = torch.Generator().manual_seed(0)
    k, v = torch.randn(6, 2, 24, generator=gen), torch.randn(6, 2, 40, generator=gen)
    k[0], k[1, 0], v[2] = 0, torch.linspace(-1e-9, 1e-9, 24), v[2] * 1e4
    k[3, 1, 7], v[4, 0, 3] = math.nan, -math.inf
    slots = torch.tensor([3, 9, 0, 17, 30, -1])
    kv_append(k, v, **made, slots=slots, backend=backend)
    for x, name in ((k, "k"), (v, "v")):
        steps, scale = made[f"{name}_cache"].flatten(0, 1), made[f"{name}_scale"].flatten(0, 1).float()
        assert steps.min() >= -127 and (steps == 77).flatten(1).all(1).sum() == len(steps) - 5
        for i, slot in enumerate(slots[:5].tolist()):
            for h in range(2):
                if not x[i, h].isfinite().all():
                    assert scale[slot, h].isnan()
                    continue
                rounded = scale[slot, h] * 127 < x[i, h].abs().max()  # the scale itself was rounded, down
                step = scale[slot, h] * (0.5 + 127 * 2**-11 * rounded)
                assert ((steps[slot, h] * scale[slot, h] - x[i, h]).abs() <= step + 1e-12).all()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(k_scale=torch.ones(6, 4, 2)), "for int8 caches only"),
        (
            dict(k_cache=torch.ones(6, 4, 2, 8).to(torch.int8), v_cache=torch.ones(6, 4, 2, 8).to(torch.int8)),
            "needs k_",
        ),
        (dict(v_cache=torch.ones(6, 3, 2, 8)), "caches are"),
        (dict(v_cache=torch.ones(6, 4, 2, 8).half()), "caches are int8 or"),
        (dict(block_table=torch.zeros(2, 3)), "block_table is int32"),
        (dict(seq_lens=torch.zeros(3).int()), "seq_lens is int32"),
        (dict(q=torch.ones(2, 3, 8)), "no multiple"),
        (dict(window=0), "at least 1"),
    ],
)
def test_refuses(wrong: dict[str, Any], says: str) -> None:
    call = dict(
        q=torch.ones(2, 4, 8),
        k_cache=torch.ones(6, 4, 2, 8),
        v_cache=torch.ones(6, 4, 2, 8),
        block_table=torch.zeros(2, 3).int(),
        seq_lens=torch.ones(2).int(),
    )
    with pytest.raises(KernelError, match=says):
        paged_decode(**call | wrong)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(slots=torch.zeros(2).int()), "slots are"),
        (dict(slots=torch.zeros(3, 1).int()), "slots are"),
        (dict(slots=torch.zeros(3)), "slots are"),
        (dict(k=torch.ones(3, 1, 8)), "k and v are"),
        (dict(v=torch.ones(2, 2, 4)), "k and v are"),
        (dict(v=torch.ones(3, 8)), "k and v are"),
        (dict(v=torch.ones(3, 2, 4).half()), "k and v are"),
        (dict(k=torch.ones(3, 2, 8).int(), v=torch.ones(3, 2, 4).int()), "k and v are"),
        (dict(k=torch.ones(3, 1, 8), v=torch.ones(3, 1, 4)), "do not fit"),
        (dict(v=torch.ones(3, 2, 5)), "do not fit"),
        (dict(k=torch.ones(3, 2, 9)), "caches are"),
        (dict(k=torch.ones(3, 2, 8).half(), v=torch.ones(3, 2, 4).half()), "caches are int8 or"),
        (dict(k_scale=torch.ones(6, 4, 2).half()), "scales are for int8 caches"),
    ],
)
def test_append_refuses(wrong: dict[str, Any], says: str) -> None:
    call: dict[str, Any] = dict(
        k=torch.ones(3, 2, 8),
        v=torch.ones(3, 2, 4),
        k_cache=torch.ones(6, 4, 2, 8),
        v_cache=torch.ones(6, 4, 2, 4),
        slots=torch.tensor([0, 5, 2]),
    )
    kv_append(**call)
    with pytest.raises(KernelError, match=says):
        kv_append(**call | wrong)


def test_what_back_ends_are_told() -> None:
    """Shapes of keys and values apart, the size of pages, and dtypes of tensors and caches."""
    f32, half, i8, i64 = torch.float32, torch.float16, torch.int8, torch.int64
    cache, values, scales = ((6, 16, 2, 8), i8), ((6, 16, 2, 4), i8), ((6, 16, 2), half)
    key = (3, 2, 8), f32, torch.device("cpu"), ((3, 2, 4), f32), cache, values, ((3,), i64), scales, scales
    assert APPEND.describe(key) == AppendSignature((3, 2, 8), (3, 2, 4), 16, f32, i8, "cpu")
    rows = ((5, 7), torch.int32), ((5,), torch.int32)
    decode = (5, 4, 8), f32, torch.device("cpu"), cache, values, *rows, scales, scales, 9, 5.0, ((4,), f32), True
    assert DECODE.describe(decode) == Signature(
        (5, 4, 8), (6, 16, 2, 8), (6, 16, 2, 4), f32, i8, "cpu", 7, 9, True, True, True
    )


def test_heads_of_values_are_looked_at_too() -> None:
    small = AppendSignature((3, 2, 64), (3, 2, 64), 16, torch.float32, torch.float32, "cpu")
    assert _refuses_triton(small) == available.refuses("cpu")
    assert _refuses_triton(small._replace(v=(3, 2, 264))) == "head sizes up to 256"
    assert _refuses_triton(small._replace(k=(3, 2, 264))) == "head sizes up to 256"
    decode = DECODE.sample("cpu", "float32")
    assert _refuses_triton(decode) == available.refuses("cpu")
    assert _refuses_triton(decode._replace(v_cache=(6, 16, 2, 264))) == "head sizes up to 256"
    assert _refuses_triton(decode._replace(q=(5, 4, 264))) == "head sizes up to 256"
    assert "not torch.float64" in _refuses_triton(decode._replace(dtype=torch.float64))
