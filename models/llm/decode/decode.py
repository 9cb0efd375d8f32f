"""Decode: from logits to a reply, one token at a time."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from ..cache.budget import kv_budget, room_for
from ..llm import LLM
from ..tokens import Tokens
from .prefill import ContextOverflow, Prefilled
from .sampling import SamplingParams, TokenSampler
from .session import Session
from .stats import Stats

Finish = Literal["stop", "length", "constraint"]
AHEAD = 256
"""Tokens that memory is allocated for at once."""


class Constraint(Protocol):
    """Limits the next token."""

    def mask(self, sequence: int, ids: Sequence[int]) -> Tensor | None:
        """Mask [V] of bool after the reply ``ids``, true = allowed; None allows all. All false ends the reply."""
        ...

    def advance(self, sequence: int, id: int) -> None: ...


class Stopper(Protocol):
    """Turns the ids of each sequence into text that never splits a character nor shows the start of a stop string."""

    def push(self, sequence: int, id: int) -> tuple[str, bool]:
        """The text that is certain now, and whether a stop string ended the reply."""
        ...

    def finish(self, sequence: int) -> str:
        """The text that was held back."""
        ...


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Yielded for each decoded token."""

    sequence: int
    id: int
    """-1 for held-back text that comes without a token."""
    text: str
    """Text that became certain with this token; may be empty or of several tokens."""


@dataclass(frozen=True, eq=False)
class Reply:
    """The replies of a batch."""

    tokens: Tokens
    """Without the prompt; with the id that stopped the reply."""
    texts: tuple[str, ...]
    """Without stop strings and stop ids; empty without a stopper."""
    finish: tuple[Finish, ...]
    """``stop``: a stop id or stop string. ``length``: max_tokens, or the context or the cache's budget is full."""
    prefilled: Prefilled | None
    """Prompt and reply, to continue from; None without ``go_on``."""
    stats: Stats


class Sequences:
    """The replies of a batch during decoding: tokens, texts, and why each ended."""

    def __init__(
        self,
        llm: LLM,
        prefilled: Prefilled,
        params: SamplingParams,
        constraint: Constraint | None,
        stopper: Stopper | None,
    ) -> None:
        self.params = params
        self.constraint = constraint
        self.stopper = stopper
        self.stop_ids = llm.facts.stop_ids | set(params.stop_ids)
        self.held = prefilled.cache.tokens
        self.sampler = TokenSampler(params, self.held.ids, self.stop_ids)
        self.ids: list[list[int]] = [[] for _ in self.held]
        self.texts: list[list[str]] = [[] for _ in self.held]
        self.finish: list[Finish | None] = [None] * len(self.held)
        fits = room_for(llm, prefilled.cache, kv_budget(llm.loaded.device))
        self.room = [min(params.max_tokens, llm.facts.context - n, fits) for n in self.held.lengths]
        for sequence, room in enumerate(self.room):
            if room < 1:
                raise ContextOverflow(f"sequence {sequence} fills the context of {llm.facts.context} tokens already")

    def position(self, sequence: int) -> int:
        return len(self.held.ids[sequence]) + len(self.ids[sequence])

    def allowed(self, logits: Tensor, sequences: Sequence[int]) -> Tensor:
        """Logits [rows, V] after penalties and the constraint; a sequence without allowed tokens is finished."""
        logits = self.sampler.processed(logits, sequences, [len(self.ids[s]) for s in sequences])
        if self.constraint is None:
            return logits
        masks: list[Tensor] = []
        for s in sequences:
            mask = self.constraint.mask(s, self.ids[s])
            full = torch.zeros(logits.shape[1], dtype=torch.bool)
            full[: len(full) if mask is None else len(mask)] = True if mask is None else mask[: len(full)].cpu()
            masks.append(full)
            if not bool(full.any()):
                self.finish[s] = "constraint"
        return logits.masked_fill(~torch.stack(masks).to(logits.device), -torch.inf)

    def take(self, sequence: int, token: int) -> TokenEvent:
        """Add a token to a reply, and finish the reply if it ends there."""
        self.ids[sequence].append(token)
        self.sampler.taken(sequence, token)
        text, stopped = "", token in self.stop_ids
        if stopped:
            self.finish[sequence] = "stop"
        else:
            if self.constraint is not None:
                self.constraint.advance(sequence, token)
            if self.stopper is not None:
                text, stopped = self.stopper.push(sequence, token)
            if stopped:
                self.finish[sequence] = "stop"
                return self._event(sequence, token, text)
            if len(self.ids[sequence]) >= self.room[sequence]:
                self.finish[sequence] = "length"
        if self.finish[sequence] and self.stopper is not None:
            text += self.stopper.finish(sequence)
        return self._event(sequence, token, text)

    def rest(self, sequences: Sequence[int]) -> list[TokenEvent]:
        """Held-back text of sequences that ended without another token."""
        if self.stopper is None:
            return []
        texts = [(s, self.stopper.finish(s)) for s in sequences]
        return [self._event(s, -1, text) for s, text in texts if text]

    def _event(self, sequence: int, token: int, text: str) -> TokenEvent:
        self.texts[sequence].append(text)
        return TokenEvent(sequence, token, text)

    def reply(self, prefilled: Prefilled | None, stats: Stats) -> Reply:
        """The replies; all sequences must be finished."""
        finish = tuple(f for f in self.finish if f is not None)
        return Reply(Tokens.of(self.ids), tuple(map("".join, self.texts)), finish, prefilled, stats)


def decode(
    llm: LLM,
    prefilled: Prefilled,
    params: SamplingParams,
    *,
    constraint: Constraint | None = None,
    stopper: Stopper | None = None,
    go_on: bool = True,
) -> Generator[TokenEvent, None, Reply]:
    """Decode a reply to each sequence of a batch; finished sequences leave the batch.

    Args:
        llm: The model that prefilled.
        prefilled: Where to start; not changed, so other decodes can start from it.
        params: Sampling and stopping.
        constraint: Allowed tokens.
        stopper: Detokenizes and looks for stop strings.
        go_on: Run the last token of each reply, too, so that ``Reply.prefilled`` can be continued: two decodes in a
            row then equal a longer one.

    Raises:
        ContextOverflow: the context is full before the first token.
        ValueError: no token can be chosen.
    """
    began = last = time.perf_counter()
    work = Sequences(llm, prefilled, params, constraint, stopper)
    with Session.open(llm, prefilled.cache) as session:
        ends: list[Tensor] = list(prefilled.logits.split(1))
        active = list(range(len(work.ids)))
        logits = prefilled.logits
        gaps: list[float] = []
        steps, first_s = 0, 0.0
        while active:
            logits = work.allowed(logits, active)
            rows = [row for row, s in enumerate(active) if not work.finish[s]]
            if rows != list(range(len(active))):  # the constraint allows nothing more
                yield from work.rest([s for s in active if work.finish[s]])
                logits, active = logits[rows], [active[row] for row in rows]
                if not active:
                    break
            chosen = work.sampler.draw(logits, active, [work.position(s) for s in active])
            now = time.perf_counter()
            gaps += [now - last] * len(active) if steps else []
            first_s, last = (first_s, now) if steps else (now - began, now)
            for sequence, token in zip(active, chosen, strict=True):
                yield work.take(sequence, token)
            ended = [bool(work.finish[s]) for s in active]
            run = [(s, [t]) for s, t, end in zip(active, chosen, ended, strict=True) if go_on or not end]
            if not run:
                break
            ahead = max(work.room[s] - len(work.ids[s]) for s, _ in run)
            new_logits = session.step(run, reserve=min(ahead, AHEAD))
            steps += 1
            for row, (s, _) in enumerate(run):
                ends[s] = new_logits[row : row + 1]
            going = [row for row, (s, _) in enumerate(run) if not work.finish[s]]
            active = [run[row][0] for row in going]
            logits = new_logits if len(going) == len(run) else new_logits[going]
            session.working.trim()
        session.keep(range(len(work.ids)))
        cache = session.freeze()
        stats = Stats(
            reply_tokens=sum(map(len, work.ids)),
            decode_s=last - began,
            first_s=first_s,
            gaps_s=tuple(gaps),
            kv_bytes=cache.nbytes,
            steps=steps,
            experts=session.experts(),
        ).after(prefilled.stats)
        return work.reply(Prefilled(cache, torch.cat(ends), stats) if go_on else None, stats)
