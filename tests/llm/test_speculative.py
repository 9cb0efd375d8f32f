from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from pipegraph.generators import finish
from pipegraph.models.llm.cache.kv_cache import KVCache
from pipegraph.models.llm.decode.decode import decode
from pipegraph.models.llm.decode.prefill import Prefilled, prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.decode.session import Session
from pipegraph.models.llm.decode.speculative import speculate
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens

from .networks import language_model, make, perturbed, prompts


def near(family: str, noise: float = 0.03) -> LLM:
    """A draft that often guesses right."""
    return LLM.of(perturbed(make(family), noise), name="draft")


@pytest.mark.parametrize(
    "family", ["gemma3", *(pytest.param(f, marks=pytest.mark.slow) for f in ("llama", "deepseek_v3", "gpt_oss"))]
)
def test_a_greedy_reply_is_that_without_a_draft(family: str) -> None:
    llm, draft = language_model(family), near(family)
    start = finish(prefill(llm, Tokens.of(prompts())))
    params = SamplingParams(max_tokens=30)
    plain = finish(decode(llm, start, params))
    reply = finish(speculate(llm, start, draft, params, draft_tokens=3))
    assert reply.tokens == plain.tokens and reply.finish == plain.finish
    assert 0 < reply.stats.accepted < reply.stats.drafted
    assert reply.stats.steps < plain.stats.steps
    assert reply.prefilled is not None and plain.prefilled is not None
    assert reply.prefilled.cache.tokens == plain.prefilled.cache.tokens
    assert float((reply.prefilled.logits - plain.prefilled.logits).abs().max()) < 1e-4


def test_the_model_itself_as_draft_is_always_right() -> None:
    llm = language_model("llama")
    start = finish(prefill(llm, Tokens.of(prompts())))
    for guesses, steps in ((None, 6), (2, 10), (5, 5)):  # 4 if nothing is said
        how: Any = {} if guesses is None else {"draft_tokens": guesses}
        reply = finish(speculate(llm, start, llm, SamplingParams(max_tokens=31), **how))
        assert reply.stats.acceptance == 1
        assert reply.stats.steps == steps and set(reply.tokens.lengths) == {31}


def test_a_draft_reads_a_prompt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    llm, draft = language_model("llama"), near("llama")
    read: list[int] = []
    step = Session.step

    def counted(self: Session, rows: Any, **options: Any) -> torch.Tensor:
        read.append(sum(len(ids) for _, ids in rows) if self.llm is draft else 0)
        return step(self, rows, **options)

    monkeypatch.setattr(Session, "step", counted)
    replies, counts = [], []
    for _ in range(2):
        read.clear()
        start = finish(prefill(llm, Tokens.of(prompts((70,)))))
        replies.append(finish(speculate(llm, start, draft, SamplingParams(max_tokens=12))).tokens)
        counts.append(sum(read))
    assert replies[0] == replies[1]
    assert counts[0] - counts[1] == 64, "two blocks of 32 are known"


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.0, 1.5])
def test_samples_keep_the_distribution_of_the_model(penalty: float) -> None:
    """Pairs of tokens (the second and third of a reply) over many seeds: plain and speculative draws, chi-square."""
    llm, draft = language_model("llama"), near("llama", 0.1)
    batch, rounds = 250, 4
    start = finish(prefill(llm, Tokens.of(prompts((6,))))).select([0] * batch)
    counts = {}
    for name in ("plain", "speculative"):
        found = torch.zeros(4, 4)
        for seed in range(rounds):
            params = SamplingParams(
                temperature=1.0,
                top_k=4,
                seed=seed * batch,
                max_tokens=3,
                presence_penalty=penalty,
                logit_bias={i: -torch.inf for i in range(8, 128)},
            )
            if name == "plain":
                reply = finish(decode(llm, start, params, go_on=False))
            else:
                reply = finish(speculate(llm, start, draft, params, draft_tokens=2, go_on=False))
                assert 0.1 < (reply.stats.acceptance or 0) < 0.95
            for row in reply.tokens:
                found[row[1] % 4, row[2] % 4] += 1
        counts[name] = found.flatten()
    plain, ours = counts["plain"], counts["speculative"]
    kept = (plain + ours) >= 20
    total = (plain + ours)[kept]
    both = torch.stack([plain[kept], ours[kept]])
    expected = total * both.sum(1, keepdim=True) / both.sum()
    statistic = float(((both - expected) ** 2 / expected).sum())
    assert int(kept.sum()) >= 6
    assert _p_value(statistic, int(kept.sum()) - 1) > 1e-3, counts
    wrong = both.flip(1)[1]
    assert chisquare(wrong, expected[1] * wrong.sum() / expected[1].sum()).pvalue < 1e-6, "the test sees nothing"


def _p_value(statistic: float, degrees: int) -> float:
    from scipy.stats import chi2

    return float(chi2.sf(statistic, degrees))


@pytest.mark.parametrize("family", ["bamba", "falcon_h1", "nemotron_h", "qwen3_next"])
def test_models_that_cannot_take_tokens_back_are_refused(family: str) -> None:
    llm, other = language_model(family), language_model("llama")
    start = Prefilled(KVCache.empty(llm, 1), torch.zeros(1, llm.facts.vocabulary))
    for target, draft in ((llm, other), (other, llm)):
        with pytest.raises(ValueError, match=f"{family} cannot speculate: its state-space"):
            next(speculate(target, start, draft, SamplingParams()))
