from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
import transformers as hf

from pipegraph.generators import finish
from pipegraph.models.llm.cache.kv_cache import KVCache, MutableKVCache, held_bytes
from pipegraph.models.llm.cache.pages import PAGE, Pool, runs
from pipegraph.models.llm.decode.decode import Reply, decode
from pipegraph.models.llm.decode.prefill import ContextOverflow, Prefilled, chunks, prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens

from .networks import COMMON, language_model, prompts

LONG = 2 * PAGE + 5
"""A prompt that ends within a block."""


@pytest.fixture(scope="module")
def llama() -> LLM:
    return language_model("llama")


def ready(llm: LLM, lengths: tuple[int, ...] = (LONG,), **options: object) -> Prefilled:
    return finish(prefill(llm, Tokens.of(prompts(lengths)), **options))  # type: ignore[arg-type]


def greedy(llm: LLM, start: Prefilled, count: int, **settings: object) -> Reply:
    return finish(decode(llm, start, SamplingParams(max_tokens=count, **settings)))  # type: ignore[arg-type]


def content(cache: KVCache) -> list[torch.Tensor]:
    """The keys of all tokens of a cache, from its blocks."""
    found = []
    for pool, table in zip(cache.pools, cache.tables, strict=True):
        for row, length in zip(table, cache.lengths, strict=True):
            for store in pool.stores.values():
                pages = [store.k[block.number] for block in row if block is not None]
                found.append(torch.cat(pages)[:length].clone())
    return found


def blocks(cache: KVCache, sequence: int = 0) -> list[int]:
    return [id(block) for block in cache.tables[0][sequence]]


def test_decodes_from_one_prefill_leave_it_alone_and_share_its_full_blocks(llama: LLM) -> None:
    start = ready(llama)
    before = content(start.cache)
    first = greedy(llama, start, 6)
    other = greedy(llama, start, 6, logit_bias={first.tokens.ids[0][0]: -50.0})
    again = greedy(llama, start, 6)
    assert first.tokens == again.tokens != other.tokens
    assert all(torch.equal(a, b) for a, b in zip(before, content(start.cache), strict=True))
    assert first.prefilled is not None and other.prefilled is not None and again.prefilled is not None
    a, b, c = (blocks(r.prefilled.cache) for r in (first, other, again) if r.prefilled is not None)
    assert a[:2] == b[:2] == c[:2] == blocks(start.cache)[:2]
    assert len({a[2], b[2], c[2]}) == 3, "the partial block is copied where two go on from it"
    assert a[2] == blocks(start.cache)[2], "the first to go on appends where it lies"
    page = start.cache.pools[0].page_bytes
    assert held_bytes(start.cache, first.prefilled.cache, other.prefilled.cache) == 4 * page


def test_two_decodes_in_a_row_are_one_longer_one(llama: LLM) -> None:
    start = ready(llama, (7, 40))
    whole = greedy(llama, start, 12, temperature=0.8, seed=3)
    half = greedy(llama, start, 5, temperature=0.8, seed=3)
    assert half.prefilled is not None
    rest = greedy(llama, half.prefilled, 7, temperature=0.8, seed=3)
    assert half.tokens + rest.tokens == whole.tokens
    assert half.prefilled.cache.tokens == Tokens.of(prompts((7, 40))) + half.tokens


def test_a_fork_of_one_sequence_is_a_batch_over_the_same_blocks(llama: LLM) -> None:
    start = ready(llama)
    three = start.select([0, 0, 0])
    assert three.cache.nbytes == start.cache.nbytes == start.cache.fork().nbytes
    replies = greedy(llama, three, 40, temperature=1.0).tokens.ids
    assert len(set(replies)) == 3
    alone = greedy(llama, start, 40, temperature=1.0, seed=1).tokens.ids[0]
    assert replies[1] == alone, "a draw depends on its own seed only"


def test_blocks_are_free_when_nobody_holds_them(llama: LLM) -> None:
    start = ready(llama, reuse=False)
    pool = start.cache.pools[0]
    reply = greedy(llama, start, 3 * PAGE)
    assert sum(pool.used) == 3 + 3
    del reply
    gc.collect()
    assert sum(pool.used) == 3


def test_a_block_is_copied_once_and_then_ones_own(llama: LLM) -> None:
    start = ready(llama).cache.select([0, 0])
    shared = start.tables[0][0][-1]
    working = MutableKVCache(start, torch.device("cpu"))

    def last() -> list[Any]:
        return [table[-1] for table in working.tables[0]]

    working.append(0, [1])
    working.append(1, [2])
    own = last()
    assert own[0] is shared and own[1] is not shared
    for _ in range(3):
        for sequence in (0, 1):
            working.append(sequence, [3])
        assert last() == own, "copied again"
    assert own[1].filled == LONG % PAGE + 4
    frozen = working.freeze(())
    working.append(0, [4])
    assert last()[0] is own[0] and own[0].since == LONG % PAGE + 4
    assert [table[-1] for table in frozen.tables[0]] == own
    before = sum(working.pools[0].used)
    working.append(1, list(range(PAGE)), reserve=2 * PAGE)  # what is expected is taken side by side
    assert sum(working.pools[0].used) == before + 3
    assert [len(table) for table in working.tables[0]] == [3, 4]


@pytest.mark.slow
def test_a_window_keeps_its_blocks_only_and_a_reply_crosses_it() -> None:
    llm = language_model("mistral")
    start = ready(llm, (5 * PAGE + 3,), chunk=32)
    assert [block is None for block in start.cache.tables[0][0]] == [True] * 4 + [False] * 2
    whole = ready(llm, (5 * PAGE + 3,), reuse=False)
    assert float((start.logits - whole.logits).abs().max()) < 1e-4
    reply = greedy(llm, start, 2 * PAGE)
    assert reply.prefilled is not None
    assert sum(block is not None for block in reply.prefilled.cache.tables[0][0]) <= 2
    assert [block is None for block in start.cache.tables[0][0]] == [True] * 4 + [False] * 2


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bamba", "falcon_h1", "nemotron_h", "qwen3_next"])
def test_states_are_snapshots(family: str) -> None:
    llm = language_model(family)
    start = ready(llm, (9, 4))
    before = [t.clone() for row in start.cache.states for state in row for t in state.tensors()]
    first, again = greedy(llm, start, 6), greedy(llm, start, 6)
    assert first.tokens == again.tokens
    after = [t for row in start.cache.states for state in row for t in state.tensors()]
    assert before and all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not llm.facts.croppable


def test_a_cache_that_is_not_known_is_refused_before_anything_is_read() -> None:
    """Llama 4 attends within chunks, and counts positions by the length of the cache."""
    config = hf.Llama4TextConfig(**COMMON, head_dim=16, intermediate_size_mlp=48, num_local_experts=2)
    with pytest.raises(ValueError, match="Llama4ForCausalLM: layer 0 keeps a cache of the kind `chunked_attention`"):
        LLM.of(hf.Llama4ForCausalLM(config))


def test_int8_takes_a_third_of_float32(llama: LLM) -> None:
    small, large = (ready(llama, kv=kv).cache for kv in ("int8", "native"))
    size = llama.facts.head_dim
    assert small.nbytes * 4 * size == large.nbytes * (size + 4)
    assert large.nbytes == llama.facts.kv_bytes_per_token * 3 * PAGE


def test_a_prompt_that_is_too_long_is_refused_before_anything_runs(llama: LLM) -> None:
    with pytest.raises(ContextOverflow, match=r"sequence 1 has 257 tokens; llama reads 256 at most"):
        next(prefill(llama, Tokens.of([[5], [5] * 257])))
    full = ready(llama, (250,))
    with pytest.raises(ContextOverflow, match="7 tokens after 250 that are held"):
        next(prefill(llama, Tokens.of([[5] * 7]), cache=full.cache))
    reply = greedy(llama, full, 100)
    assert (reply.tokens.lengths, reply.finish) == ((6,), ("length",))


@pytest.mark.parametrize(
    "rows, message", [([[1], []], "at least one token"), ([], "at least one token"), ([[1, 128]], r"not \[128\]")]
)
def test_tokens_that_make_no_sense_are_refused(llama: LLM, rows: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        next(prefill(llama, Tokens.of(rows)))


def test_chunks_fill_each_step() -> None:
    steps = chunks(Tokens.of([range(5), range(2), range(9)]), 6)
    assert [[(s, len(ids)) for s, ids in rows] for rows in steps] == [[(0, 5), (1, 1)], [(1, 1), (2, 5)], [(2, 4)]]


def test_runs() -> None:
    assert runs([4, 5, 6, 2, 9, 10]) == [(4, 3), (2, 1), (9, 2)]
    assert runs([]) == []


def test_memory_for_a_reply_is_reserved_at_once(llama: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    start, blocks = ready(llama), []
    allocate = Pool.allocate

    def counted(self: Pool, count: int, *rest: Any) -> Any:
        blocks.append(count)
        return allocate(self, count, *rest)

    monkeypatch.setattr(Pool, "allocate", counted)
    greedy(llama, start, 3 * PAGE)
    assert blocks == [3]
