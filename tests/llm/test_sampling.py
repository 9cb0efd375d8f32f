from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.llm.decode.decode import Reply, TokenEvent, decode
from pipegraph.models.llm.decode.prefill import Prefilled, prefill
from pipegraph.models.llm.decode.sampling import SamplingParams, TokenSampler
from pipegraph.models.llm.decode.speculative import speculate
from pipegraph.models.llm.decode.stats import Stats
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens

from .networks import language_model, prompts


@pytest.fixture(scope="module")
def llama() -> LLM:
    return language_model("llama")


@pytest.fixture(scope="module")
def start(llama: LLM) -> Prefilled:
    return finish(prefill(llama, Tokens.of(prompts())))


def ruled(params: SamplingParams, logits: list[float], prompt: list[int], reply: list[int]) -> list[float]:
    sampler = TokenSampler(params, [prompt], [3])
    for token in reply:
        sampler.taken(0, token)
    given = torch.tensor([logits])
    before = given.clone()
    found = sampler.processed(given, [0], [len(reply)])
    assert torch.equal(given, before)
    return [round(x, 5) for x in found[0].tolist()]


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({}, [2.0, -1.0, 0.5, 1.0]),
        ({"repetition_penalty": 2.0}, [1.0, -2.0, 0.5, 1.0]),
        ({"presence_penalty": 0.5}, [2.0, -1.5, 0.5, 1.0]),
        ({"frequency_penalty": 0.5}, [2.0, -2.0, 0.5, 1.0]),
        ({"logit_bias": {2: 1.5}}, [2.0, -1.0, 2.0, 1.0]),
        ({"min_tokens": 3}, [2.0, -1.0, 0.5, -math.inf]),
        ({"min_tokens": 2}, [2.0, -1.0, 0.5, 1.0]),
    ],
)
def test_rules(settings: dict[str, object], expected: list[float]) -> None:
    """The prompt holds token 0; the reply token 1, twice."""
    assert ruled(SamplingParams(**settings), [2.0, -1.0, 0.5, 1.0], [0], [1, 1]) == expected  # type: ignore[arg-type]


def test_temperature_0_takes_the_lowest_of_equals() -> None:
    sampler = TokenSampler(SamplingParams(), [[]], [])
    assert sampler.draw(torch.tensor([[1.0, 3.0, 3.0]]), [0], [0]) == [1]


def test_a_draw_depends_on_seed_sequence_and_position_only() -> None:
    logits = torch.randn(1, 64, generator=torch.Generator().manual_seed(0))
    five = TokenSampler(SamplingParams(temperature=1.0, seed=5), [[]] * 9, [])
    draws = five.draw(logits.expand(9, -1), range(9), [7] * 9)
    assert [five.draw(logits, [s], [7])[0] for s in range(9)] == draws
    other = TokenSampler(SamplingParams(temperature=1.0, seed=6), [[]] * 9, [])
    assert other.draw(logits.expand(8, -1), range(8), [7] * 8) == draws[1:]
    assert five.draw(logits.expand(9, -1), range(9), [8] * 9) != draws


def test_probabilities_are_those_of_draws() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 1.5, -1.0]])
    sampler = TokenSampler(SamplingParams(temperature=0.7, top_k=3, min_p=0.3), [[]], [])
    expected = sampler.probabilities(logits)[0]
    draws = torch.tensor(sampler.draw(logits.expand(4000, -1), [0] * 4000, range(4000)))
    found = torch.bincount(draws, minlength=5) / 4000
    assert (expected == 0).tolist() == [True, True, False, False, True]
    assert float((found - expected).abs().max()) < 0.03


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": 1e39},
        {"top_k": -1},
        {"top_p": 0},
        {"top_p": 1.1},
        {"min_p": 2},
        {"repetition_penalty": 0},
        {"max_tokens": 0},
        {"min_tokens": 300},
        {"stop": ("",)},
        {"presence_penalty": math.inf},
        {"logit_bias": {1: math.inf}},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        SamplingParams(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", [0.0, 1e-46, 1e-40, 2e-38, 0.7])
@pytest.mark.parametrize(
    ("logits", "why"),
    [([1.0, math.nan], "NaN"), ([1.0, math.inf], "infinite"), ([-math.inf, -math.inf], "all tokens are forbidden")],
)
def test_logits_that_choose_no_token(temperature: float, logits: list[float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        TokenSampler(SamplingParams(temperature=temperature), [[]], []).draw(torch.tensor([logits]), [0], [0])


@pytest.mark.parametrize("temperature", [1e-46, 1e-40, 1e-38, 2e-38])
def test_a_small_temperature_takes_the_best(temperature: float) -> None:
    sampler = TokenSampler(SamplingParams(temperature=temperature, top_p=0.9, min_p=0.1, top_k=1 << 40), [[]], [])
    logits = torch.tensor([[1.0, 2, 3, -math.inf]])
    assert {sampler.draw(logits, [0], [n])[0] for n in range(20)} == {2}
    assert sampler.probabilities(logits).tolist() == [[0, 0, 1, 0]]


def test_penalties_leave_forbidden_tokens_forbidden() -> None:
    params = SamplingParams(
        temperature=1.0,
        repetition_penalty=0.5,
        presence_penalty=-9.0,
        frequency_penalty=-9.0,
        logit_bias={0: -math.inf},
    )
    sampler = TokenSampler(params, [[0, 1]], [])
    sampler.taken(0, 1)
    logits = sampler.processed(torch.tensor([[3.0, -math.inf, 0.0]]), [0], [1])
    assert logits[0, :2].tolist() == [-math.inf, -math.inf]
    assert {sampler.draw(logits, [0], [n])[0] for n in range(50)} == {2}


def made(llm: LLM, start: Prefilled, **settings: object) -> Reply:
    return finish(decode(llm, start, SamplingParams(**settings), go_on=False))  # type: ignore[arg-type]


def test_a_finished_sequence_leaves_the_others_alone(llama: LLM, start: Prefilled) -> None:
    whole = made(llama, start, max_tokens=12)
    stop = whole.tokens.ids[1][3]
    reply = made(llama, start, max_tokens=12, stop_ids=(stop,))
    for row, full, end in zip(reply.tokens, whole.tokens, reply.finish, strict=True):
        cut = full.index(stop) + 1 if stop in full else 12
        assert (row, end) == (full[:cut], "stop" if stop in full else "length")
    assert reply.finish[1] == "stop"
    assert reply.prefilled is None
    longer = made(llama, start, max_tokens=12, min_tokens=6, stop_ids=(stop,))
    assert stop not in longer.tokens.ids[1][:6]


def test_penalties_count_what_a_reply_holds_already(llama: LLM, start: Prefilled) -> None:
    """Two tokens 100 apart, far above all others: each time that one is taken costs it 200, so they alternate."""
    bias = {7: 3100.0, 9: 3000.0}
    settings = {"max_tokens": 8, "logit_bias": bias, "frequency_penalty": 200.0}
    for reply in (made(llama, start, **settings), finish(_drafted(llama, start, settings))):
        assert set(reply.tokens.ids) == {(7, 9) * 4}
    once = made(llama, start, max_tokens=4, logit_bias=bias, presence_penalty=200.0)
    assert set(once.tokens.ids) == {(7, 9, 7, 7)}, "both have been penalized once"


def _drafted(llm: LLM, start: Prefilled, settings: Any) -> Generator[TokenEvent, None, Reply]:
    return speculate(llm, start, llm, SamplingParams(**settings), go_on=False)


class Cycle:
    """Allows 7, 8, 9 in turn, then nothing."""

    def __init__(self) -> None:
        self.seen: dict[int, list[int]] = {}

    def mask(self, sequence: int, ids: Sequence[int]) -> Tensor | None:
        assert list(ids) == self.seen.get(sequence, [])
        mask = torch.zeros(100, dtype=torch.bool)  # fewer than the model has
        if len(ids) < 3:
            mask[7 + len(ids)] = True
        return mask

    def advance(self, sequence: int, id: int) -> None:
        self.seen.setdefault(sequence, []).append(id)


class Spell:
    """Shows each token one token later."""

    def __init__(self) -> None:
        self.held: dict[int, str] = {}

    def push(self, sequence: int, id: int) -> tuple[str, bool]:
        text, self.held[sequence] = self.held.get(sequence, ""), f"<{id}>"
        return text, False

    def finish(self, sequence: int) -> str:
        return self.held.pop(sequence, "")


def test_a_constraint_masks_and_ends_and_no_text_is_lost(llama: LLM, start: Prefilled) -> None:
    events: list[TokenEvent] = []
    stream = decode(llama, start, SamplingParams(max_tokens=9), constraint=Cycle(), stopper=Spell())
    while True:
        try:
            events.append(next(stream))
        except StopIteration as end:
            reply: Reply = end.value
            break
    assert reply.tokens.ids == ((7, 8, 9),) * 3
    assert reply.finish == ("constraint",) * 3
    assert reply.texts == ("<7><8><9>",) * 3
    assert "".join(e.text for e in events if e.sequence == 2) == "<7><8><9>"
    assert reply.prefilled is not None
    assert reply.prefilled.cache.lengths == tuple(n + 3 for n in start.cache.lengths)


class Shorter(Cycle):
    """Has nothing more to say to sequence 1 after one token."""

    def mask(self, sequence: int, ids: Sequence[int]) -> Tensor | None:
        mask = super().mask(sequence, ids)
        assert mask is not None
        return mask & (sequence != 1 or not ids)


def test_a_constraint_that_ends_one_reply_leaves_the_others_going(llama: LLM, start: Prefilled) -> None:
    reply = finish(decode(llama, start, SamplingParams(max_tokens=9), constraint=Shorter(), stopper=Spell()))
    assert reply.tokens.ids == ((7, 8, 9), (7,), (7, 8, 9))
    assert reply.texts == ("<7><8><9>", "<7>", "<7><8><9>")
    assert reply.finish == ("constraint",) * 3


class EndsAt(Spell):
    """Ends a reply at its third token, which is not shown."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Counter[int]()

    def push(self, sequence: int, id: int) -> tuple[str, bool]:
        self.count[sequence] += 1
        return super().push(sequence, id)[0], self.count[sequence] == 3


def test_each_token_is_an_event_and_the_last_brings_what_was_held_back(llama: LLM, start: Prefilled) -> None:
    for stopper, count, end in ((Spell(), 5, "length"), (EndsAt(), 3, "stop")):
        events: list[TokenEvent] = []
        stream = decode(llama, start, SamplingParams(max_tokens=5), stopper=stopper)
        with pytest.raises(StopIteration) as stop:
            while True:
                events.append(next(stream))
        reply: Reply = stop.value.value
        assert reply.finish == (end,) * 3
        for s, row in enumerate(reply.tokens.ids):
            mine = [event for event in events if event.sequence == s]
            assert [event.id for event in mine] == list(row) and len(row) == count
            shown = row if end == "length" else row[:2]
            assert "".join(event.text for event in mine) == "".join(f"<{i}>" for i in shown) == reply.texts[s]


def test_stats(llama: LLM, start: Prefilled) -> None:
    stats = made(llama, start, max_tokens=5).stats
    assert (stats.prompt_tokens, stats.reply_tokens, stats.steps) == (55, 15, 4)
    assert len(stats.gaps_s) == 12 and min(stats.gaps_s) > 0
    assert stats.ttft_s > stats.prefill_s > 0 and stats.decode_rate > 0
    assert stats.acceptance is None
    assert stats.record().keys() >= {"ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "kv_bytes"}
    assert "tok/s" in stats.line()


def test_rates() -> None:
    prefill = Stats(prompt_tokens=30, reused_tokens=10, prefill_s=4.0)
    both = Stats(reply_tokens=6, decode_s=2.0, first_s=0.5, gaps_s=(0.1, 0.25, 0.9), kv_bytes=3 << 19).after(prefill)
    assert (both.prefill_rate, both.decode_rate, both.ttft_s, both.gap_s) == (5, 3, 4.5, 0.25)
    assert both.line() == "30 tok in 4.00 s, 10 reused, 3.0 tok/s, TTFT 4500 ms, KV 1.5 MiB"
    record = both.record()
    assert (record["prefill_tokens_per_s"], record["decode_tokens_per_s"]) == (5, 3)
    assert (record["ttft_ms"], record["inter_token_ms"]) == (4500, 250)
    assert Stats(drafted=8, accepted=6).acceptance == 0.75 and Stats().acceptance is None
    assert (Stats().prefill_rate, Stats().decode_rate, Stats().gap_s) == (0, 0, 0)
