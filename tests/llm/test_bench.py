"""What `pipegraph bench llm` measures of our own decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.models.llm import bench
from pipegraph.models.llm.decode.session import Session


def test_every_round_reads_the_whole_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[list[int]] = []
    step = Session.step

    def counted(self: Session, rows: Any, **options: Any) -> Any:
        counts[-1].append(sum(len(ids) for _, ids in rows))
        return step(self, rows, **options)

    monkeypatch.setattr(Session, "step", counted)
    ticks = iter(range(100))
    way = bench._ours(bench._in(bench._network("tiny"), "fp32"), bench._prompt(256, 40), 4, lambda: float(next(ticks)))
    for _ in range(2):
        counts.append([])
        assert way() == (1, 1 / 4)  # a tick for the prompt, one for four tokens behind the first
    assert counts == [[40, 1, 1, 1, 1]] * 2


def test_a_token_of_transformers_is_what_more_of_them_take() -> None:
    asked: list[int] = []

    class Clocked:
        """Takes 3 seconds for a prompt and 2 for each token behind the first."""

        now = 0.0

        def generate(self, ids: Any, max_new_tokens: int, **_: Any) -> None:
            asked.append(max_new_tokens)
            self.now += 3 + 2 * (max_new_tokens - 1)

    network = Clocked()
    assert bench._generate(network, bench._prompt(256, 8), 5, lambda: network.now) == (3, 2)
    assert asked == [1, 6]


def test_a_row_for_each_format() -> None:
    result = bench.bench("tiny", ("fp32", "q8"), prompt=8, tokens=2, rounds=2)
    assert [row.name for row in result.rows] == ["transformers", "ours fp32", "ours q8"]


def test_a_row_is_the_best_of_the_rounds() -> None:
    """Each way runs once before, which does not count."""
    a = iter([(1.0, 1.0), (5.0, 2.0), (4.0, 3.0)])
    b = iter([(1.0, 1.0), (6.0, 6.0), (7.0, 5.0)])
    ways: dict[str, bench.Way] = {"a": lambda: next(a), "b": lambda: next(b)}
    result = bench._in_turns(torch.nn.Linear(2, 2), ways, 8, 2, 1, lambda: 0.0, "clock")
    assert [(row.name, row.prefill, row.token) for row in result.rows] == [("a", 4, 2), ("b", 6, 5)]
