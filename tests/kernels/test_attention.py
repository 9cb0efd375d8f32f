"""Every back end of attention against a plain float64 formula, on shapes, masks and strides that trip kernels."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipegraph.kernels.backends.torch.attention import causal_unseen
from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.ops.attention import attention

BACKENDS = sorted(name for name, b in backends("attention").items() if not b.missing())
BOUNDS = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def formula(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor,
    bias: Tensor | None,
    scale: float,
    softcap: float | None,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Row by row in float64; ``seen`` is (B, Hq, Sq, Skv)."""
    group = q.shape[1] // k.shape[1]
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=torch.float64)
    lse = torch.full(q.shape[:3], -math.inf, dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                keys = seen[b, h, i].nonzero().squeeze(1)
                scores = k[b, h // group, keys].double() @ q[b, h, i].double() * scale
                if softcap is not None:
                    scores = softcap * (scores / softcap).tanh()
                if bias is not None:
                    scores = scores + bias.double().expand(seen.shape)[b, h, i, keys]
                all_scores = scores if sinks is None else torch.cat([scores, sinks[h : h + 1].double()])
                if len(all_scores):
                    lse[b, h, i] = all_scores.logsumexp(0)
                out[b, h, i] = (scores - lse[b, h, i]).exp() @ v[b, h // group, keys].double()
    return out, lse


def visible(
    shape: tuple[int, ...], mask: Tensor | None, bias: Tensor | None, causal: bool, window: int | None
) -> Tensor:
    seen = torch.ones(shape, dtype=torch.bool)
    sq, skv = shape[2:]
    if mask is not None:
        seen &= mask
    if bias is not None:
        seen &= bias != -math.inf
    for i in range(sq if causal else 0):
        last = i + skv - sq
        for j in range(skv):
            seen[:, :, i, j] &= j <= last and (window is None or j > last - window)
    return seen


def tensor(gen: torch.Generator, layout: str, b: int, h: int, s: int, d: int, dtype: torch.dtype) -> Tensor:
    """Random (B, H, S, D) with the strides of a layout that models really pass."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen, dtype=torch.float64).to(dtype)

    match layout:
        case "bshd":
            return draw(b, s, h, d).transpose(1, 2)
        case "packed":  # one of q, k, v in a fused projection
            return draw(b, s, h, 3, d)[..., 1, :].transpose(1, 2)
        case "columns":
            return draw(b, h, d, s).transpose(2, 3)
        case "expanded":
            return draw(1, h, s, d).expand(b, h, s, d)
        case "offset":
            return draw(b, h, s + 1, d)[:, :, 1:]
    return draw(b, h, s, d)


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    gen = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from(list(BOUNDS)))
    layout = draw(st.sampled_from(["bhsd", "bshd", "packed", "columns", "expanded", "offset"]))
    b, hkv, group = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.sampled_from([1, 2, 3]))
    sq, skv = draw(st.integers(1, 9)), draw(st.integers(1, 17))
    d = draw(st.sampled_from([1, 5, 8, 16, 40]))
    dv = draw(st.sampled_from([d, d, 3, 24]))
    causal = draw(st.booleans())
    scores = (b, hkv * group, sq, skv)

    def extra(shape_of: str) -> tuple[int, ...] | None:
        keep = draw(st.sampled_from([None, None, "1111", "1001", "0001", "1010", "0011", "s", "qs"]), label=shape_of)
        if keep is None or keep in ("s", "qs"):
            return keep and (scores[3:] if keep == "s" else scores[2:])
        return tuple(n if c == "1" else 1 for n, c in zip(scores, keep, strict=True))

    mask_shape, bias_shape = extra("mask"), extra("bias")
    bias = None
    if bias_shape is not None:
        bias = torch.randn(bias_shape, generator=gen)
        bias = bias.masked_fill(torch.rand(bias_shape, generator=gen) < 0.2, -math.inf)
    return dict(
        q=tensor(gen, layout, b, hkv * group, sq, d, dtype),
        k=tensor(gen, layout, b, hkv, skv, d, dtype),
        v=tensor(gen, layout, b, hkv, skv, dv, dtype),
        mask=None if mask_shape is None else torch.rand(mask_shape, generator=gen) < 0.6,
        bias=bias,
        causal=causal,
        window=draw(st.sampled_from([None, 1, 3, 100])) if causal else None,
        scale=draw(st.sampled_from([None, 1.0, 0.3])),
        softcap=draw(st.sampled_from([None, None, 0.7, 20.0])),
        sinks=torch.randn(hkv * group, generator=gen) if draw(st.booleans()) else None,
    )


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(call=calls(), lse=st.booleans(), poison=st.booleans())
def test_equals_float64(backend: str, call: dict[str, Any], lse: bool, poison: bool) -> None:
    q, k, v = call["q"], call["k"], call["v"]
    shape = (*q.shape[:3], k.shape[2])
    seen = visible(shape, call["mask"], call["bias"], call["causal"], call["window"])
    scale = q.shape[3] ** -0.5 if call["scale"] is None else call["scale"]
    want, want_lse = formula(q, k, v, seen, call["bias"], scale, call["softcap"], call["sinks"])
    if poison:  # a key that no row sees may hold anything
        hidden = ~seen.reshape(len(k), k.shape[1], -1, k.shape[2]).any(2)[..., None]
        call["k"], call["v"] = k.masked_fill(hidden, math.nan), v.masked_fill(hidden, math.inf)
    if call["softcap"] and backend == "torch":
        with pytest.raises(KernelError, match="has no softcap"):
            attention(**call, return_lse=lse, backend=backend)  # type: ignore[call-overload]
        return
    result: Any = attention(**call, return_lse=lse, backend=backend)  # type: ignore[call-overload]
    got, got_lse = result if isinstance(result, tuple) else (result, None)
    assert got.shape == want.shape and got.dtype == q.dtype
    assert (got.double() - want).norm() <= BOUNDS[q.dtype] * want.norm()
    assert (got[~seen.any(-1)] == 0).all()
    assert (got_lse is not None) == lse
    if got_lse is not None:
        torch.testing.assert_close(got_lse.double(), want_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_reaches_only_rows_that_see_it(backend: str) -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    clean = attention(q, k, v, causal=True, backend=backend)
    v[:, :, 4] = math.nan
    got = attention(q, k, v, causal=True, backend=backend)
    assert got[:, :, 4:].isnan().all()
    torch.testing.assert_close(got[:, :, :4], clean[:, :, :4])


def test_gpu_route_of_causal_attention() -> None:
    """The one that never waits for the device, here on the CPU."""
    q = torch.randn(1, 4, 7, 8, generator=torch.Generator().manual_seed(0))
    k, v = torch.randn(2, 1, 2, 7, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(causal_unseen(q, k, v, 0.5), attention(q, k, v, causal=True, scale=0.5))
    k[:, 0, 5], v[:, 1, 3, 2] = math.nan, math.inf
    got = causal_unseen(q, k, v, 0.5)
    assert torch.equal(got.isnan().any(-1), got.isnan().all(-1))
    assert [int(h.isnan().any(-1).sum()) for h in got[0]] == [2, 2, 4, 4]
    torch.testing.assert_close(got[:, :, :3], attention(q, k, v, causal=True, scale=0.5)[:, :, :3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_sinks_are_keys_without_value(backend: str) -> None:
    """A sink is what a further key with that score and the value 0 is."""
    q, k, v = torch.randn(3, 1, 2, 5, 8, generator=torch.Generator().manual_seed(0))
    sinks = torch.tensor([0.4, -math.inf])
    got, lse = attention(q, k, v, sinks=sinks, return_lse=True, backend=backend)
    more, less = (torch.cat([x, torch.zeros_like(x[:, :, :1])], 2) for x in (k, v))
    bias = torch.cat([torch.zeros(2, 5), sinks[:, None]], 1)[:, None]
    want, want_lse = attention(q, more, less, bias=bias, return_lse=True, backend="reference")
    torch.testing.assert_close((got, lse), (want, want_lse))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_do(backend: str, sizes: tuple[int, int]) -> None:
    q, k, v = torch.ones(1, 2, sizes[0], 4), torch.ones(1, 2, sizes[1], 4), torch.ones(1, 2, sizes[1], 5)
    assert torch.equal(attention(q, k, v, backend=backend), torch.zeros(1, 2, sizes[0], 5))


def test_reference_walks_over_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of rows give what the whole gives."""
    q, k, v = torch.randn(3, 2, 2, 11, 8, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(2, 1, 11, 11) < 0.7
    whole = attention(q, k, v, mask=mask, causal=True, return_lse=True, backend="reference")
    monkeypatch.setattr("pipegraph.kernels.backends.torch.attention_reference._SCORES", 3 * 2 * 2 * 11)
    blocks = attention(q, k, v, mask=mask, causal=True, return_lse=True, backend="reference")
    torch.testing.assert_close(blocks, whole)


@pytest.mark.parametrize("shapes", [((8, 8, 8), 1), ((512, 512, 512), 1), ((16, 16, 5), 1), ((8, 8, 24), 2)])
def test_torch_stays_fused(shapes: tuple[tuple[int, int, int], int]) -> None:
    """No head size, stride or mask makes torch build the full score matrix."""
    (d, _, dv), group = shapes
    q = torch.randn(1, 2 * group, d, 7).transpose(2, 3)
    k, v = torch.randn(1, 2, 9, d), torch.randn(1, 2, 9, dv)
    launched: list[str] = []

    class Spy(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            launched.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Spy():  # type: ignore[no-untyped-call]
        attention(q, k, v, mask=torch.rand(7, 9) < 0.5, backend="torch")
    assert [n for n in launched if "attention" in n] == ["aten::_scaled_dot_product_flash_attention_for_cpu"]
    assert not [n for n in launched if "softmax" in n or "bmm" in n]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (dict(mask=torch.zeros(2, 3)), "give scores to add as `bias`"),
        (dict(mask=torch.ones(2, 3, dtype=torch.int64)), "a mask is bool"),
        (dict(bias=torch.ones(2, 3, dtype=torch.bool)), "as `mask`"),
        (dict(mask=torch.ones(3, 2, dtype=torch.bool)), "does not broadcast"),
        (dict(k=torch.ones(1, 1, 3, 5)), "do not fit"),
        (dict(k=torch.ones(1, 3, 3, 4), v=torch.ones(1, 3, 3, 4)), "do not fit"),
        (dict(v=torch.ones(1, 1, 3, 4).half()), "one float dtype"),
        (dict(q=torch.ones(1, 2, 4)), "are \\(B, H, S, D\\)"),
        (dict(window=3), "needs causal=True"),
        (dict(window=0, causal=True), "at least 1"),
        (dict(precision="quick"), "precision"),
        (dict(softcap=0.0), "softcap is positive"),
        (dict(sinks=torch.ones(1)), "sinks are \\(2,\\)"),
        (dict(sinks=torch.ones(2, dtype=torch.int64)), "sinks are"),
    ],
)
def test_refuses(wrong: dict[str, Any], says: str) -> None:
    call = dict(q=torch.ones(1, 2, 2, 4), k=torch.ones(1, 1, 3, 4), v=torch.ones(1, 1, 3, 4)) | wrong
    with pytest.raises(KernelError, match=says):
        attention(**call)
