"""What was read before is not read again, and nothing else changes."""

from __future__ import annotations

import pytest
import torch

from pipegraph.generators import finish
from pipegraph.models.llm.cache.budget import OverBudget
from pipegraph.models.llm.cache.kv_cache import KVKind, held_bytes
from pipegraph.models.llm.cache.pages import PAGE
from pipegraph.models.llm.cache.prefixes import PrefixCache
from pipegraph.models.llm.decode.decode import Reply, decode
from pipegraph.models.llm.decode.prefill import Prefilled, prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens

from .networks import language_model, prompts

SHARED = prompts((3 * PAGE + 5,))[0]
OTHERS = prompts((20, 2, PAGE))


def read(llm: LLM, rows: list[list[int]], **options: object) -> Prefilled:
    return finish(prefill(llm, Tokens.of(rows), **options))  # type: ignore[arg-type]


def greedy(llm: LLM, start: Prefilled, count: int) -> Reply:
    return finish(decode(llm, start, SamplingParams(max_tokens=count), go_on=False))


@pytest.fixture(
    params=[
        "llama",
        "gemma3",
        pytest.param("gpt_oss", marks=pytest.mark.slow),
        pytest.param("mistral", marks=pytest.mark.slow),
        pytest.param("deepseek_v3", marks=pytest.mark.slow),
    ]
)
def llm(request: pytest.FixtureRequest) -> LLM:
    return language_model(request.param)


@pytest.mark.parametrize("kv", ["native", "int8"])
def test_what_was_read_gives_the_same_reply_and_is_not_read_again(llm: LLM, kv: KVKind) -> None:
    rows = [SHARED + OTHERS[0], OTHERS[1], SHARED[: 2 * PAGE] + OTHERS[2], SHARED[: 2 * PAGE]]
    plain = read(llm, rows, kv=kv, reuse=False)
    assert plain.stats.reused_tokens == 0 and not llm.prefix_caches
    read(llm, [SHARED], kv=kv, chunk=24)
    again = read(llm, rows, kv=kv)
    assert again.stats.reused_tokens == (3 + 0 + 2 + 1) * PAGE, "one token of a prompt is read at least"
    assert again.stats.prompt_tokens == sum(map(len, rows))
    assert again.cache.tokens == plain.cache.tokens
    assert float((again.logits - plain.logits).abs().max()) <= (1e-2 if kv == "int8" else 1e-4)
    if kv == "native":
        assert greedy(llm, again, 40).tokens == greedy(llm, plain, 40).tokens


def test_a_chat_goes_on_from_its_reply(llm: LLM) -> None:
    first = read(llm, [SHARED])
    reply = greedy(llm, first, 2 * PAGE).tokens.ids[0]
    longer = [*SHARED, *reply, *OTHERS[0]]
    second = read(llm, [longer])
    assert second.stats.reused_tokens == (len(SHARED) + len(reply) - 1) // PAGE * PAGE
    assert float((second.logits - read(llm, [longer], reuse=False).logits).abs().max()) <= 1e-4


def test_pages_are_shared_and_never_changed() -> None:
    llm = language_model("llama")
    first = read(llm, [SHARED])
    store = first.cache.pools[0].stores[0]
    held = [block for block in first.cache.tables[0][0] if block is not None]
    before = [store.k[block.number].clone() for block in held[:3]]
    second = read(llm, [SHARED + OTHERS[0]])
    assert second.cache.pools is first.cache.pools
    assert second.cache.tables[0][0][:3] == first.cache.tables[0][0][:3]
    page = first.cache.pools[0].page_bytes
    assert held_bytes(first.cache, second.cache) == (4 + 1) * page
    for start in (first, second):
        finish(decode(llm, start, SamplingParams(max_tokens=PAGE, temperature=2.0)))
    store = first.cache.pools[0].stores[0]
    assert all(torch.equal(store.k[b.number], k) for b, k in zip(held, before, strict=False))


def test_what_was_used_longest_ago_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = language_model("llama")
    rows = [[first, *SHARED[: 2 * PAGE]] for first in (5, 6, 7)]
    for row in rows[:2]:
        read(llm, [row])
    kept = PrefixCache.of(llm, "native")
    page = kept.pools[0].page_bytes
    assert kept.nbytes == 4 * page == 4 * PAGE * llm.facts.kv_bytes_per_token
    assert read(llm, [rows[0]]).stats.reused_tokens == 2 * PAGE
    monkeypatch.setenv("PIPEGRAPH_KV_BUDGET", str(6 * page))
    read(llm, [rows[2]])  # takes three pages itself while it is read
    assert kept.nbytes == 5 * page, "the end of the second is gone, its beginning is not"
    assert [read(llm, [row]).stats.reused_tokens for row in (rows[0], rows[2])] == [2 * PAGE] * 2
    monkeypatch.setenv("PIPEGRAPH_KV_BUDGET", "0")
    kept.shrink(0)
    assert kept.nbytes == 0 and not kept.pools[0].stores and not kept.pools[0].used


def test_a_request_beyond_the_budget_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = language_model("llama")
    page = PAGE * llm.facts.kv_bytes_per_token
    monkeypatch.setenv("PIPEGRAPH_KV_BUDGET", str(3 * page))
    with pytest.raises(OverBudget, match=r"101 tokens in llama's cache take 48.0 KiB.* budget of 36.0 KiB.*KV_BUDGET"):
        next(prefill(llm, Tokens.of([SHARED])))
    small = read(llm, [SHARED], kv="int8")
    assert small.cache.nbytes <= 3 * page
    whole = read(llm, [SHARED[: 3 * PAGE - 2]])
    assert greedy(llm, whole, 40).tokens.lengths == (2,), "a reply ends where the budget does"
    full = read(llm, [SHARED[: 3 * PAGE]])
    with pytest.raises(OverBudget, match="no room for a reply"):
        greedy(llm, full, 1)


@pytest.mark.parametrize("family, blocks", [("llama", 5), ("gemma3", 3)])
def test_a_beginning_without_the_pages_of_its_window_is_of_no_use(family: str, blocks: int) -> None:
    """While a reply is written, layers with a window forget its beginning."""
    llm = language_model(family)
    reply = greedy(llm, read(llm, [SHARED]), 4 * PAGE).tokens.ids[0]
    other = [*SHARED, *reply[: 2 * PAGE], *OTHERS[0]]
    found = read(llm, [other])
    assert found.stats.reused_tokens == blocks * PAGE
    assert float((found.logits - read(llm, [other], reuse=False).logits).abs().max()) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("family", ["nemotron_h", "falcon_h1", "phi3_long"])
def test_nothing_is_reused_of_states_and_of_positions_that_depend_on_the_length(family: str) -> None:
    llm = language_model(family)
    read(llm, [SHARED])
    assert read(llm, [SHARED]).stats.reused_tokens == 0
    assert PrefixCache.of(llm, "native").nbytes == 0
