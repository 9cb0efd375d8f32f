"""Greedy replies of our core against transformers' ``generate`` on the same tiny random weights, at every step."""

from __future__ import annotations

import pytest
import torch

from pipegraph.generators import finish
from pipegraph.models.llm.cache.kv_cache import KVCache
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.session import Session
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.network.experts import _counts, counting
from pipegraph.models.llm.network.fused import FusedDecoder
from pipegraph.models.llm.tokens import Tokens

from .networks import CONFIGS, expected, language_model, make, perturbed, prompts, reply, same

STEPS = 40
ALL = (0, 1, 2)
FAST = ("gemma3",)
"""Sliding windows, grouped heads and ragged batches; the others are slow."""
FAMILIES = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS]
INT8 = 0.05
"""Median over steps of |logits - exact| / |exact|, both as root mean squares, with an int8 cache."""


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_equal_those_of_transformers(family: str) -> None:
    theirs, llm = expected(family, STEPS), language_model(family)
    same(reply(llm, [0], STEPS), theirs, [0])
    same(reply(llm, ALL, STEPS, chunk=7), theirs, ALL)
    same(reply(llm, [2, 1], STEPS), theirs, [2, 1])


@pytest.mark.parametrize("family", FAMILIES)
def test_an_int8_cache_stays_near(family: str) -> None:
    theirs, llm = expected(family, STEPS), language_model(family)
    ready = finish(prefill(llm, Tokens.of(prompts()), kv="int8", chunk=16))
    logits = [ready.logits]
    with Session.open(llm, ready.cache) as session:
        for step in range(STEPS - 1):
            logits.append(session.step([(row, [theirs.tokens[row][step]]) for row in ALL]))
    error = (torch.stack(logits, 1) - theirs.logits).square().mean(-1).sqrt()
    relative = error / theirs.logits.square().mean(-1).sqrt()
    assert 0 < float(relative.median()) <= INT8, relative
    whole = finish(prefill(llm, Tokens.of(prompts()), kv="int8", reuse=False))
    near = float((whole.logits - ready.logits).abs().max())
    assert near <= 3e-3, "an int8 cache depends on the chunks"  # of what is half a step, some rounds the other way:
    # each moves a key or value by 1/127 of its largest number, and logits by up to 2e-4, as measured; without, 1e-5


def test_the_check_sees_a_small_difference_in_one_weight() -> None:
    llm = LLM.of(perturbed(make("gemma3"), 0.003, "layers.1.mlp.up_proj"))
    with pytest.raises(AssertionError, match="differ"):
        same(reply(llm, [0], STEPS), expected("gemma3", STEPS), [0])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3_next", "deepseek_v3"])
def test_the_check_sees_a_lost_position_and_a_lost_token(family: str) -> None:
    llm = language_model(family)
    rows = prompts()
    shifted = finish(prefill(llm, Tokens.of([rows[0][1:]]))).logits
    alone = finish(prefill(llm, Tokens.of([rows[0]]))).logits
    assert float((shifted - alone).abs().max()) > 1e-2
    assert float((alone - expected(family, STEPS).logits[:1, 0]).abs().max()) <= 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_short_way_is_that_of_transformers_modules(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = language_model(family)
    assert FusedDecoder.of(llm.loaded.network) is not None
    short = reply(llm, ALL, 12)
    monkeypatch.setattr(FusedDecoder, "of", lambda network: None)
    same(reply(llm, ALL, 12), short, ALL)


def test_hooks_and_other_classes_take_the_long_way() -> None:
    network = language_model("llama").loaded.network
    handle = network.get_submodule("model.norm").register_forward_hook(lambda *_: None)
    assert FusedDecoder.of(network) is None
    handle.remove()
    assert FusedDecoder.of(network) is not None
    assert FusedDecoder.of(language_model("gemma3").loaded.network) is None


@pytest.mark.slow
@pytest.mark.parametrize("family, each", [("qwen3_moe", 2), ("gpt_oss", 2)])
def test_the_tokens_of_experts_are_counted(family: str, each: int) -> None:
    llm = language_model(family)
    stats = finish(prefill(llm, Tokens.of(prompts()), chunk=20)).stats
    assert len(stats.experts) == 3
    assert all(sum(counts) == each * sum(map(len, prompts())) for counts in stats.experts.values())
    assert stats.record()["experts"].keys() == stats.experts.keys()


def test_experts_are_counted_for_the_innermost_work_only() -> None:
    outer: dict[int, torch.Tensor] = {}
    with counting(outer):
        with counting({}):
            pass
        assert _counts.get() is outer
    assert _counts.get() is None


@pytest.mark.slow
@pytest.mark.parametrize("family", ["llama", "mistral", "nemotron_h", "deepseek_v3"])
def test_a_prompt_in_two_prefills_is_the_prompt(family: str) -> None:
    llm, rows = language_model(family), prompts()
    first = finish(prefill(llm, Tokens.of([row[:3] for row in rows])))
    second = finish(prefill(llm, Tokens.of([row[3:] for row in rows]), cache=first.cache, chunk=9))
    assert second.cache.tokens == Tokens.of(rows)
    assert first.cache.lengths == (3, 3, 3)
    theirs = expected(family, STEPS).logits[:, 0]
    assert float((second.logits - theirs).abs().max()) <= 1e-4
    assert isinstance(second.cache, KVCache)
