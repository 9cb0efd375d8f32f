"""Prefill: from a prompt to its keys and values and the logits of the next token."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple

import torch
from torch import Tensor

from ..cache.budget import check_budget, kv_budget
from ..cache.kv_cache import KVCache, KVKind
from ..cache.prefixes import PrefixCache
from ..llm import LLM
from ..network.vision import check_vision
from ..tokens import Tokens
from .session import Row, Session
from .stats import Stats


class Progress(NamedTuple):
    """Yielded after each chunk: ``done`` of ``total`` tokens."""

    done: int
    total: int


class ContextOverflow(ValueError):
    """A prompt, or a prompt with its reply, is longer than the model's context."""


@dataclass(frozen=True, eq=False)
class Prefilled:
    """Prefilled sequences, ready to decode."""

    cache: KVCache
    logits: Tensor
    """float32 [B, V]: logits of the next token of each sequence."""
    stats: Stats = field(default_factory=Stats)

    def select(self, sequences: list[int]) -> Prefilled:
        """Sequences by index, with repetition."""
        return Prefilled(self.cache.select(sequences), self.logits[sequences], self.stats)


def prefill(
    llm: LLM,
    tokens: Tokens,
    *,
    cache: KVCache | None = None,
    chunk: int = 512,
    kv: KVKind = "native",
    reuse: bool = True,
) -> Generator[Progress, None, Prefilled]:
    """Run the tokens of a batch of sequences, of any lengths, through the model.

    Args:
        llm: The model.
        tokens: At least one per sequence.
        cache: Cache to append the tokens to; not changed.
        chunk: Tokens of all sequences together that run through the network at once.
        kv: Format of keys and values, if there is no cache yet.
        reuse: Without a cache, use the model's prefix cache and add to it.

    Raises:
        OverBudget: the sequences need more memory than the budget; nothing has run then.
        ContextOverflow: a sequence would be longer than the model's context; nothing has run then.
        ValueError: a sequence without tokens, unknown ids, or a cache with another number of sequences.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, not {chunk}")
    prefixes = PrefixCache.of(llm, kv) if cache is None and reuse and not tokens.pictures else None
    cache = KVCache.empty(llm, len(tokens), kv) if cache is None else cache
    _check(llm, tokens, cache)
    if llm.facts.long_positions:
        chunk = max(chunk, sum(tokens.lengths))  # RoPE of all keys depends on the length
    began = time.perf_counter()
    prompt_tokens = sum(tokens.lengths)
    budget = kv_budget(llm.loaded.device)
    lengths = [*map(add, cache.lengths, tokens.lengths)]
    need = check_budget(llm, prefixes.pools if prefixes else cache.pools, cache.kv, lengths, chunk, budget)
    if prefixes:
        cache = prefixes.begin(tokens)
        tokens = Tokens(tuple(ids[n:] for ids, n in zip(tokens, cache.lengths, strict=True)))
        prefixes.shrink(budget - need + cache.nbytes)
    with Session.open(llm, cache) as session:
        session.look(tokens)
        total = sum(tokens.lengths)
        logits: list[Tensor] = [torch.empty(0)] * len(tokens)
        done = 0
        for rows in chunks(tokens, chunk):
            reserve = max(len(tokens.ids[s]) for s, _ in rows)
            new_logits = session.step(rows, reserve=reserve)
            for row, (sequence, _) in enumerate(rows):
                logits[sequence] = new_logits[row : row + 1]
            session.keep(s for s, _ in rows)
            session.working.trim()
            done += sum(len(ids) for _, ids in rows)
            yield Progress(done, total)
        held = session.freeze()
        seconds = time.perf_counter() - began
        stats = Stats(
            prompt_tokens=prompt_tokens,
            reused_tokens=prompt_tokens - total,
            prefill_s=seconds,
            kv_bytes=held.nbytes,
            experts=session.experts(),
        )
        return Prefilled(held, torch.cat(logits), stats)


def chunks(tokens: Tokens, size: int) -> list[list[Row]]:
    """Cut sequences into steps of ``size`` tokens; the end of one and the beginning of the next may share a step."""
    steps: list[list[Row]] = [[]]
    room = size
    for sequence, ids in enumerate(tokens):
        at = 0
        while at < len(ids):
            if not room:
                steps.append([])
                room = size
            piece = ids[at : at + room]
            steps[-1].append((sequence, piece))
            at += len(piece)
            room -= len(piece)
    return steps


def _check(llm: LLM, tokens: Tokens, cache: KVCache) -> None:
    if not len(tokens) or not all(tokens.lengths):
        raise ValueError("each sequence needs at least one token; an empty text has none without a start token")
    if len(cache) != len(tokens):
        raise ValueError(f"the cache holds {len(cache)} sequences, but there are tokens for {len(tokens)}")
    if tokens.pictures:
        check_vision(llm)
    known = llm.facts.vocabulary
    if bad := sorted({i for row in tokens for i in row if not 0 <= i < known})[:5]:
        raise ValueError(f"{llm.loaded.name} knows the ids 0 to {known - 1}, not {bad}: another model's tokenizer?")
    for sequence, (held, new) in enumerate(zip(cache.lengths, tokens.lengths, strict=True)):
        if held + new > llm.facts.context:
            earlier = f" after {held} that are held" if held else ""
            raise ContextOverflow(
                f"sequence {sequence} has {new} tokens{earlier}; {llm.loaded.name} reads {llm.facts.context} at most"
            )
