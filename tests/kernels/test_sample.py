"""Tokens drawn from logits: the generator's own vectors, the rules one by one, and the frequencies."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from pipegraph.kernels.dispatch import KernelError, backends
from pipegraph.kernels.ops.sample import kept_weights, philox, sample, uniform

BACKENDS = sorted(name for name, b in backends("sample").items() if not b.missing())


def logits(rows: int, tokens: int, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(rows, tokens, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("key", "counter", "first"),  # Random123's kat_vectors for philox4x32-10, the rest of the counter being 0
    [(0, 0, 0x6627E8D5)],
)
def test_philox_known_answer(key: int, counter: int, first: int) -> None:
    assert philox(torch.tensor([key]), torch.tensor([counter])).item() == first


def test_philox_is_what_the_algorithm_says() -> None:
    """Against plain integers of any size."""

    def plain(key: int, counter: int) -> int:
        c, k = [counter & 0xFFFFFFFF, counter >> 32, 0, 0], [key & 0xFFFFFFFF, key >> 32]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return c[0]

    pairs = [(1, 2), (2**64 - 1, 2**63 + 5), (0xDEADBEEF12345678, 2**40 + 7), (2**32, 2**32 - 1)]
    signed = [[v - (v >> 63 << 64) for v in pair] for pair in pairs]
    got = philox(*torch.tensor(signed).unbind(1))
    assert got.tolist() == [plain(*pair) for pair in pairs]
    u = uniform(torch.zeros(4096, dtype=torch.int64), torch.arange(4096))
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 0.02 and len(u.unique()) > 4000


@pytest.mark.parametrize("backend", BACKENDS)
def test_temperature_0_takes_the_best_and_the_first_of_equals(backend: str) -> None:
    x = logits(5, 33)
    assert torch.equal(sample(x, 0.0, backend=backend), x.argmax(-1))
    assert sample(torch.tensor([[0.0, 2, 2, 1]]), 0.0, backend=backend).item() == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("temperature", [1e-46, 1e-40, 1e-38, 2e-38, 1e-30, 1e-3])
def test_a_small_temperature_draws_the_best_and_never_what_is_hidden(backend: str, temperature: float) -> None:
    x = torch.tensor([[1.0, 2, 3, -math.inf], [-math.inf, -1e30, -math.inf, -3e38], [5, 4, -3e38, 3e38]])
    for heat in (temperature, torch.full((3,), temperature, dtype=torch.float64)):
        assert sample(x, heat, seed=torch.arange(3), backend=backend).tolist() == [2, 1, 3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_settings_beyond_their_bounds_are_as_at_them(backend: str) -> None:
    x, n = torch.tensor([[1.0, 2, -math.inf, 3]]).expand(64, -1), torch.arange(64)
    hot = sample(x, 1e300, offset=n, backend=backend)
    assert sorted(set(hot.tolist())) == [0, 1, 3]
    whole = sample(x, offset=n, backend=backend)
    assert torch.equal(sample(x, top_k=2**40, offset=n, backend=backend), whole)
    assert torch.equal(sample(x, top_k=torch.full((64,), 2**40), offset=n, backend=backend), whole)
    assert set(sample(x, min_p=2.0, offset=n, backend=backend).tolist()) == {3}
    assert set(sample(x, top_p=0.0, offset=n, backend=backend).tolist()) == {3}


@pytest.mark.parametrize("backend", BACKENDS)
def test_frequencies(backend: str) -> None:
    """20,000 draws of one row: each token within 4 standard deviations of its probability."""
    n, x = 20000, torch.tensor([[1.0, 0.0, -1.0, 2.0, -math.inf, 0.5]])
    for temperature in (0.5, 1.0, 2.0):
        drawn = sample(x.expand(n, -1), temperature, seed=7, offset=torch.arange(n), backend=backend)
        p = (x[0].double() / temperature).softmax(0)
        count = drawn.bincount(minlength=6).double()
        assert ((count - n * p).abs() <= 4 * (n * p * (1 - p)).sqrt()).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "how", [dict(top_k=3), dict(top_p=0.6), dict(min_p=0.2), dict(top_k=5, top_p=0.8, min_p=0.05, temperature=0.7)]
)
def test_rules_keep_what_they_say(backend: str, how: dict[str, Any]) -> None:
    """All that is kept is drawn at some time, and nothing else."""
    x = logits(1, 12)
    p = (x[0].double() / how.get("temperature", 1.0)).softmax(0)
    order = p.argsort(descending=True)
    kept = order[: how.get("top_k", 12)]
    q = p[kept] / p[kept].sum()
    kept = kept[: int(((q.cumsum(0) - q) < how.get("top_p", 1.0)).sum())]
    kept = kept[p[kept] >= how.get("min_p", 0.0) * p.max()]
    n = 4000
    drawn = sample(x.expand(n, -1), **how, seed=3, offset=torch.arange(n), backend=backend)
    assert drawn.unique().tolist() == sorted(kept.tolist())


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        (dict(), [2, 5, 1, 2]),
        (dict(top_p=0.49), [0, 5, 0, 0]),  # what comes before a token is less than top_p of the whole
        (dict(top_p=0.51), [2, 5, 0, 2]),  # equals go or stay together
        (dict(top_p=0.89), [2, 5, 0, 2]),
        (dict(top_p=0.91), [2, 5, 1, 2]),
        (dict(top_p=0.0), [0, 5, 0, 0]),
        (dict(top_k=1), [0, 5, 0, 0]),
        (dict(top_k=2), [2, 5, 0, 2]),
        (dict(top_k=4), [2, 5, 1, 2]),
        (dict(top_k=2, top_p=0.6), [2, 5, 0, 2]),
        (dict(top_k=1, top_p=0.99), [0, 5, 0, 0]),
        (dict(min_p=0.39), [2, 5, 0, 2]),
        (dict(min_p=0.41), [0, 5, 0, 0]),
        (dict(top_p=0.51, min_p=0.3), [2, 5, 0, 2]),
    ],
)
def test_what_tokens_weigh(how: dict[str, float], kept: list[int]) -> None:
    """Of chances 0.2, 0.5, 0.1 and 0.2; the best weighs 1. A row of another setting beside it changes nothing."""
    x = torch.tensor([0.2, 0.5, 0.1, 0.2], dtype=torch.float64).log().repeat(2, 1)
    one, two = ({"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | part for part in (how, {}))
    kinds = {"temperature": torch.float64, "top_k": torch.int32, "top_p": torch.float32, "min_p": torch.float32}
    weights = kept_weights(x, *(torch.tensor([one[name], two[name]], dtype=kind) for name, kind in kinds.items()))
    wanted = torch.tensor([kept, [2, 5, 1, 2]]) / 5
    assert torch.allclose(weights.float(), wanted, atol=1e-6)


def test_a_row_without_top_p_keeps_all_beside_one_with_it() -> None:
    """Whatever rounding makes of the sum of many."""
    x = logits(1, 100_000).float().repeat(2, 1)
    settings = [torch.tensor(pair) for pair in ((1.0, 1.0), (0, 0), (0.5, 1.0), (0.0, 0.0))]
    some, all_ = kept_weights(x, *settings)
    assert int((all_ > 0).sum()) == 100_000 > 2 * int((some > 0).sum()) > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_have_their_own_settings_and_streams(backend: str) -> None:
    x = logits(6, 50)
    how = dict(
        temperature=torch.tensor([0, 0.5, 1, 1, 2, 1]),
        top_k=torch.tensor([0, 0, 1, 7, 99, 0]),
        top_p=torch.tensor([1, 0.5, 1, 0.9, 1, 0.0]),
        min_p=torch.tensor([0, 0, 0, 0.1, 0, 0]),
        seed=torch.tensor([1, 2, 3, 4, 5, -6]),
        offset=torch.tensor([0, 1, 2, 3, 4, 2**40]),
    )
    together = sample(x, **how, backend=backend)
    for i in range(6):
        alone = sample(x[i : i + 1], **{k: v[i : i + 1] for k, v in how.items()}, backend=backend)
        assert alone.item() == together[i]
    assert together[0] == x[0].argmax() and together[2] == x[2].argmax() and together[5] == x[5].argmax()
    assert torch.equal(sample(x, seed=-1, backend=backend), sample(x, seed=2**64 - 1, backend=backend))
    assert sample(x.bfloat16()[:, ::2], seed=1, backend=backend).dtype == torch.int64


def test_float32_draws_what_float64_draws() -> None:
    x = logits(16, 2000)
    for how in (dict(), dict(top_p=0.9), dict(top_k=40, top_p=0.95, min_p=0.02)):
        for offset in range(4):
            call: dict[str, Any] = dict(seed=torch.arange(16), offset=offset, **how)
            same = sample(x, **call, backend="torch") == sample(x, **call, backend="reference")
            assert same.sum() >= 15  # a number may fall on a boundary


def test_refuses() -> None:
    with pytest.raises(KernelError, match="B, V"):
        sample(torch.ones(4))
    with pytest.raises(KernelError, match="do not fit 2 rows"):
        sample(torch.ones(2, 4), temperature=torch.ones(3))
