"""Runs a network on new tokens of the sequences of a cache."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from ..cache.kv_cache import KVCache, MutableKVCache
from ..cache.prefixes import keep
from ..llm import LLM
from ..network.experts import counting
from ..network.fused import FusedDecoder
from ..network.layers import PagedCache, State, StepLayout, layers_of, running
from ..network.vision import VisionRunner
from ..tokens import Tokens

Row = tuple[int, Sequence[int]]
"""A sequence and its new tokens."""
Span = tuple[int, int, int]
"""A sequence, and the range (start, end) of a step's tokens in it."""


class Session:
    """A working copy of a cache with its network, while the network is resident."""

    def __init__(self, llm: LLM, network: Any, cache: KVCache) -> None:
        self.llm, self.network = llm, network
        self.working = MutableKVCache(cache, llm.loaded.device)
        config = network.config.get_text_config(decoder=True)
        self._latent = bool(getattr(config, "kv_lora_rank", None))
        numbers = [(layer.kind, layer.states) for layer in llm.facts.kinds]
        self._cache = PagedCache(layers_of(numbers, cache.pools, cache.kv == "int8", self._latent))
        self._states: list[tuple[State, ...]] = list(cache.states) or [() for _ in cache.tokens]
        self._loaded: list[int] = []
        self._experts: dict[int, Tensor] = {}
        self._alone = llm.facts.long_positions
        """Sequences run one by one: RoPE depends on the longest of a batch."""
        accepted = inspect.signature(network.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._keeps = "logits_to_keep" in accepted
        self._fused = FusedDecoder.of(network)
        self._vision = VisionRunner(llm, network, llm.vision) if llm.vision else None

    @classmethod
    @contextmanager
    def open(cls, llm: LLM, cache: KVCache) -> Iterator[Session]:
        """A session for the time of the block; the fast path's raw views of the weights end with it."""
        with llm.loaded.resident() as network:
            session = cls(llm, network, cache)
            try:
                yield session
            finally:
                session._fused = None

    @property
    def lengths(self) -> list[int]:
        return self.working.lengths

    def look(self, tokens: Tokens) -> None:
        """Run the vision tower on the images of tokens that will be appended, one sequence per row."""
        for sequence in range(len(tokens)):
            for picture in tokens.pictures_of(sequence):
                assert self._vision is not None
                placed = picture.moved(self.lengths[sequence])
                self._vision.look(sequence, placed)
                self.working.pictures[sequence].append(placed)

    def experts(self) -> dict[str, tuple[int, ...]]:
        """By layer with a mixture of experts: tokens routed to each expert so far."""
        names = {id(part): name for name, part in self.network.named_modules()} if self._experts else {}
        return {names[part]: tuple(counts.tolist()) for part, counts in self._experts.items()}

    def step(self, rows: Sequence[Row], *, every: bool = False, reserve: int = 0) -> Tensor:
        """Append tokens to sequences and run the network on them.

        Args:
            rows: Each sequence at most once, with at least one token.
            every: Return logits after each token, not only after the last of each row.
            reserve: Tokens per row to allocate for in addition.

        Returns:
            float32 [rows, V], or [tokens, V] in the order of the rows.
        """
        counts = [len(ids) for _, ids in rows]
        stateful = bool(self._cache.stateful)
        one_each = max(counts) == 1
        if len(rows) > 1 and (self._alone or (stateful and (self._latent or not one_each or self._fresh(rows)))):
            return torch.cat([self.step([row], every=every, reserve=reserve) for row in rows])
        for sequence, ids in rows:
            self.working.append(sequence, ids, reserve)
        if stateful:
            self._load([sequence for sequence, _ in rows])
        return self._run(rows, counts, tall=one_each and not self._latent, every=every)

    def _fresh(self, rows: Sequence[Row]) -> bool:
        """Whether a sequence has no recurrent state yet and cannot run in a batch."""
        return any(not self.lengths[sequence] for sequence, _ in rows)

    @torch.no_grad()
    def _run(self, rows: Sequence[Row], counts: list[int], *, tall: bool, every: bool) -> Tensor:
        device = self.llm.loaded.device
        lengths = self.lengths
        ids = torch.tensor([i for _, new in rows for i in new], device=device)
        spans = [(s, lengths[s] - len(new), lengths[s]) for s, new in rows]
        places = self.working.places([s for s, _ in rows], counts)
        by_layer = {layer: p for pool, p in zip(self.working.pools, places, strict=True) for layer in pool.layers}
        step = StepLayout(counts, by_layer)
        for layer in self._cache.paged:
            layer.length = max(lengths[s] - len(new) for s, new in rows)
        last = None if every else [end - 1 for end in step.bounds[1:]]
        with ExitStack() as stack:
            for pool in self.working.pools:
                stack.enter_context(pool.lock)
            stack.enter_context(running(step))
            stack.enter_context(counting(self._experts))
            logits = self._logits(ids, spans, tall, step, last)
        if last is not None and len(logits) > len(last):
            logits = logits[last]
        return logits.float()

    def _logits(
        self, ids: Tensor, spans: Sequence[Span], tall: bool, step: StepLayout, last: list[int] | None
    ) -> Tensor:
        """Logits [T, V] after the tokens of a step, or fewer that include those in ``last``."""
        if self._vision is not None:
            states = self._vision.states(ids, spans, self.working.pictures, self._cache, tall)
            head = self.network.get_output_embeddings()
            visual: Tensor = head(states if last is None or len(last) == len(states) else states[last])
            return visual
        places = [p for _, start, end in spans for p in range(start, end)]
        if self._fused is not None:
            return self._fused(ids, places, self._cache, step, last)
        positions = torch.tensor(places, device=ids.device)
        shape = (-1, 1) if tall else (1, -1)
        options: dict[str, Any] = {self._cache_name: self._cache}
        if self._keeps:
            options["logits_to_keep"] = _to_keep(last, tall, len(step.counts), ids.device)
        out = self.network(input_ids=ids.view(shape), position_ids=positions.view(shape), use_cache=True, **options)
        logits: Tensor = out.logits.flatten(0, 1)
        return logits

    def _load(self, rows: list[int]) -> None:
        """Load the recurrent states of these sequences into the layers."""
        if rows == self._loaded:
            return
        self._save()
        for i, layer in enumerate(self._cache.stateful):
            layer.load([self._states[s][i] for s in rows if self._states[s]])
        self._loaded = rows

    def _save(self) -> None:
        for at, s in enumerate(self._loaded):
            self._states[s] = tuple(layer.save(at) for layer in self._cache.stateful)

    def keep(self, sequences: Iterable[int]) -> None:
        """Add sequences to the model's prefix cache."""
        keep(self.llm, self.working, sequences)

    def freeze(self) -> KVCache:
        """The cache after the steps so far; later steps do not change it."""
        self.working.trim()
        self._save()
        return self.working.freeze(tuple(self._states) if self._cache.stateful else ())


def _to_keep(last: list[int] | None, tall: bool, rows: int, device: torch.device) -> int | Tensor:
    """Value of ``logits_to_keep`` of transformers: 0 for all, a count from the end, or indices."""
    if last is None or tall:
        return 0
    return 1 if rows == 1 else torch.tensor(last, device=device)
