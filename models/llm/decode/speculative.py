"""Speculative decoding: a small model drafts tokens, the target model verifies them all in one run.

A drafted token x is accepted with probability min(1, p(x) / q(x)), p being the distribution of the target, q that of
the draft. The first rejected token is replaced by a draw from max(p - q, 0), normalized; if none is rejected, another
token is drawn from p. Replies are distributed as without a draft, and equal in greedy decoding (Leviathan, Kalman and
Matias 2023, arXiv 2211.17192).
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pipegraph.kernels.ops.sample import sample, uniform

from ..cache.prefixes import PrefixCache
from ..llm import LLM
from ..tokens import Tokens
from .decode import AHEAD, Constraint, Reply, Sequences, Stopper, TokenEvent
from .prefill import Prefilled, chunks
from .sampling import SamplingParams, TokenSampler
from .session import Session
from .stats import Stats

TEST, REPLACE, DRAFT = 1, 2, 3
"""Random streams, independent of that of plain draws."""


def speculate(
    llm: LLM,
    prefilled: Prefilled,
    draft: LLM,
    params: SamplingParams,
    *,
    draft_tokens: int = 4,
    constraint: Constraint | None = None,
    stopper: Stopper | None = None,
    go_on: bool = True,
) -> Generator[TokenEvent, None, Reply]:
    """As ``decode``, in fewer runs of the model if many drafted tokens are accepted.

    Args:
        llm: The target model.
        prefilled: Of the target model.
        draft: A faster model with the same tokenizer; it first prefills the tokens of ``prefilled``.
        params: Sampling and stopping. Drafts use temperature, top_k, top_p and min_p, no penalties.
        draft_tokens: Drafted tokens per run of the target.
        constraint: As in ``decode``.
        stopper: As in ``decode``.
        go_on: As in ``decode``.

    Raises:
        ValueError: a model whose cache cannot be cropped, or different tokenizers.
    """
    check_pair(llm, draft)
    if draft_tokens < 1:
        raise ValueError(f"draft_tokens must be at least 1, not {draft_tokens}")
    work = Sequences(llm, prefilled, params, constraint, stopper)
    drafted = PrefixCache.of(draft, prefilled.cache.kv).begin(work.held)
    with Session.open(llm, prefilled.cache) as target, Session.open(draft, drafted) as guessing:
        reply = yield from _Speculation(target, guessing, work).run(prefilled, draft_tokens, go_on)
    return reply


def check_pair(llm: LLM, draft: LLM) -> None:
    """Check that two models can speculate together.

    Raises:
        ValueError: says which and why.
    """
    for model in (llm, draft):
        if not model.facts.croppable:
            raise ValueError(
                f"{model.loaded.name} cannot speculate: its state-space or linear attention layers keep one state "
                "for all tokens, and guesses that turn out wrong cannot be taken out of it again; use decode"
            )
    sizes = [m.facts.vocabulary if m.tokenizer is None else m.tokenizer.size for m in (llm, draft)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            f"{draft.loaded.name} ({sizes[1]} tokens) cannot draft for {llm.loaded.name} ({sizes[0]} tokens): "
            "both must have the same tokenizer"
        )


class _Speculation:
    """The sessions of both models. A session may lag behind the decided tokens: the rest is run next."""

    def __init__(self, target: Session, draft: Session, work: Sequences) -> None:
        self.target, self.draft, self.work = target, draft, work
        self.context = min(target.llm.facts.context, draft.llm.facts.context)
        self.guess = TokenSampler(
            replace(work.params, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, min_tokens=0),
            work.held.ids,
            (),
        )
        self.decided = [list(row) for row in work.held]
        self.drafted = self.accepted = self.steps = 0

    def run(self, prefilled: Prefilled, count: int, go_on: bool) -> Generator[TokenEvent, None, Reply]:
        began = last = time.perf_counter()
        work = self.work
        gaps: list[float] = []
        ends: list[Tensor] = list(prefilled.logits.split(1))
        active = list(range(len(ends)))
        for s in active:
            yield from self._choose(s, prefilled.logits[s : s + 1])
        first_s = (last := time.perf_counter()) - began
        self._read_prompts()
        while active := [s for s in active if not work.finish[s]]:
            guesses, chances = self._draft(active, count)
            rows = [(s, [*self._pending(self.target, s), *guesses[s]]) for s in active]
            room = max(work.room[s] - len(work.ids[s]) for s in active)
            logits = self.target.step(rows, every=True, reserve=min(room, AHEAD))
            self.steps += 1
            for (s, new), part in zip(rows, logits.split([len(new) for _, new in rows]), strict=True):
                before = len(self.decided[s])
                behind = part[len(new) - len(guesses[s]) - 1 :]
                yield from self._verify(s, guesses[s], chances[s], behind)
                taken = len(self.decided[s]) - before
                now = time.perf_counter()
                gaps += [(now - last) / max(taken, 1)] * taken
            last = time.perf_counter()
            for s in active:
                self._back(s)
            for session in (self.target, self.draft):
                session.working.trim()  # only after rejected tokens are cropped
        if go_on:
            for s in range(len(ends)):
                if pending := self._pending(self.target, s):
                    ends[s] = self.target.step([(s, pending)])
        for session in (self.target, self.draft):
            session.keep(range(len(ends)))
        cache = self.target.freeze()
        stats = Stats(
            reply_tokens=sum(map(len, work.ids)),
            decode_s=last - began,
            first_s=first_s,
            gaps_s=tuple(gaps),
            kv_bytes=cache.nbytes,
            drafted=self.drafted,
            accepted=self.accepted,
            steps=self.steps,
            experts=self.target.experts(),
        ).after(prefilled.stats)
        return work.reply(Prefilled(cache, torch.cat(ends), stats) if go_on else None, stats)

    def _pending(self, session: Session, sequence: int) -> list[int]:
        return self.decided[sequence][len(session.working.ids[sequence]) :]

    def _read_prompts(self) -> None:
        """Prefill the draft with the target's tokens that it lacks."""
        rest = Tokens.of(self._pending(self.draft, s)[:-1] for s in range(len(self.decided)))
        for rows in chunks(rest, 512):
            if rows:
                self.draft.step(rows)
                self.draft.keep(s for s, _ in rows)
        self.draft.working.trim()

    def _draft(self, active: Sequence[int], count: int) -> tuple[dict[int, list[int]], dict[int, list[Tensor]]]:
        """Drafted tokens of each sequence, and the distributions they were drawn from."""
        guesses: dict[int, list[int]] = {s: [] for s in active}
        chances: dict[int, list[Tensor]] = {s: [] for s in active}
        room = {
            s: min(count, self.context - len(self.decided[s]), self.work.room[s] - len(self.work.ids[s]) - 1)
            for s in active
        }
        for at in range(count):
            rows = [(s, self._pending(self.draft, s) if at == 0 else guesses[s][-1:]) for s in active if room[s] > at]
            if not rows:
                break
            logits = self._fitted(self.draft.step(rows, reserve=count))
            sequences = [s for s, _ in rows]
            logits = self.guess.processed(logits, sequences, [0] * len(rows))
            places = [len(self.decided[s]) + at for s in sequences]
            drawn = self.guess.draw(logits, sequences, places, DRAFT)
            for s, token, chance in zip(sequences, drawn, self.guess.probabilities(logits), strict=True):
                guesses[s].append(token)
                chances[s].append(chance)
        return guesses, chances

    def _fitted(self, logits: Tensor) -> Tensor:
        """The draft's logits, padded or cut to the target's vocabulary size."""
        size = self.target.llm.facts.vocabulary
        logits = logits.to(self.target.llm.loaded.device)[:, :size]
        return torch.nn.functional.pad(logits, (0, size - logits.shape[1]), value=-torch.inf)

    def _verify(
        self, s: int, guesses: Sequence[int], chances: Sequence[Tensor], logits: Tensor
    ) -> Generator[TokenEvent, None, None]:
        """Accept drafted tokens of a sequence up to the first rejected, then add another token."""
        for at, (guess, q) in enumerate(zip(guesses, chances, strict=True)):
            self.drafted += 1
            processed = self.work.allowed(logits[at : at + 1], [s])
            if self.work.finish[s]:
                yield from self.work.rest([s])
                return
            p = self.work.sampler.probabilities(processed)[0]
            seeds, offsets = self.work.sampler.stream([s], [len(self.decided[s])], TEST, p.device)
            if float(uniform(seeds, offsets)) * float(q[guess]) >= float(p[guess]):
                left = (p - q).clamp(min=0)
                left = left if bool(left.any()) else p
                seeds, offsets = self.work.sampler.stream([s], [len(self.decided[s])], REPLACE, p.device)
                yield self._take(s, int(sample(left.log()[None], seed=seeds, offset=offsets)))
                return
            self.accepted += 1
            yield self._take(s, guess)
            if self.work.finish[s]:
                return
        yield from self._choose(s, logits[-1:])

    def _choose(self, s: int, logits: Tensor) -> Generator[TokenEvent, None, None]:
        """Draw the next token of a sequence without a draft."""
        processed = self.work.allowed(logits, [s])
        if self.work.finish[s]:
            yield from self.work.rest([s])
            return
        yield self._take(s, self.work.sampler.draw(processed, [s], [len(self.decided[s])])[0])

    def _take(self, s: int, token: int) -> TokenEvent:
        self.decided[s].append(token)
        return self.work.take(s, token)

    def _back(self, s: int) -> None:
        """Crop rejected tokens from both caches."""
        for session in (self.target, self.draft):
            held = session.working.ids[s]
            same = next((i for i, (a, b) in enumerate(zip(held, self.decided[s], strict=False)) if a != b), None)
            keep = min(len(held), len(self.decided[s]) - 1) if same is None else same
            if keep < len(held):
                session.working.crop(s, keep)
