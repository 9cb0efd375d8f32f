"""Sampling of the next token from logits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pipegraph.kernels.ops.sample import LEAST_TEMPERATURE, kept_weights, sample

_MOST = torch.finfo(torch.float32).max


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Settings of a decode. Each rule is off at its default."""

    temperature: float = 0.0
    """0 (or below what float32 holds, 1e-38) is greedy: the most probable token, of equals the lowest id."""
    top_k: int = 0
    """Keep the k most probable; 0: all."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose probabilities sum up to this; 1: all."""
    min_p: float = 0.0
    """Keep tokens with at least this share of the highest probability; 0: all."""
    repetition_penalty: float = 1.0
    """Divides positive logits of tokens of the prompt and the reply, multiplies negative ones (arXiv 1909.05858)."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens in the reply."""
    frequency_penalty: float = 0.0
    """Subtracted from the logits of tokens in the reply, once per occurrence."""
    seed: int = 0
    """Sequence i of a batch draws with seed + i, whatever else is in the batch."""
    max_tokens: int = 256
    min_tokens: int = 0
    """Stop ids are not drawn before this many tokens."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply and are not part of it."""
    stop_ids: tuple[int, ...] = ()
    """Ids that end the reply, with those of the model."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of these ids; -inf forbids one."""

    def __post_init__(self) -> None:
        checks = (
            ("temperature", 0 <= self.temperature <= _MOST, f"from 0 (greedy) to {_MOST:.1e}"),
            ("top_k", self.top_k >= 0, "at least 0 (0: off)"),
            ("top_p", 0 < self.top_p <= 1, "above 0, at most 1 (1: off)"),
            ("min_p", 0 <= self.min_p <= 1, "from 0 to 1 (0: off)"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "above 0 (1: off)"),
            ("presence_penalty", math.isfinite(self.presence_penalty), "finite"),
            ("frequency_penalty", math.isfinite(self.frequency_penalty), "finite"),
            ("max_tokens", self.max_tokens >= 1, "at least 1"),
            ("min_tokens", 0 <= self.min_tokens <= self.max_tokens, "from 0 to max_tokens"),
            ("stop", all(self.stop), "texts that are not empty"),
            ("logit_bias", all(b < math.inf for b in self.logit_bias.values()), "below infinity"),
        )
        for name, holds, need in checks:
            if not holds:
                raise ValueError(f"{name} must be {need}; got {getattr(self, name)!r}")

    @property
    def idle(self) -> tuple[str, ...]:
        """Settings without effect in greedy decoding."""
        off = {"top_k": 0, "top_p": 1, "min_p": 0}
        return tuple(name for name, value in off.items() if self.greedy and getattr(self, name) != value)

    @property
    def greedy(self) -> bool:
        """Whether decoding is greedy."""
        return self.temperature < LEAST_TEMPERATURE


class TokenSampler:
    """Logit processing and sampling of a decode, with token counts of each sequence."""

    def __init__(self, params: SamplingParams, prompts: Sequence[Sequence[int]], stop_ids: Iterable[int]) -> None:
        """``prompts`` are the tokens of each sequence so far; ``stop_ids`` all that end a reply."""
        self.params = params
        self._stops = sorted(stop_ids)
        self._prompts = [frozenset(p) if params.repetition_penalty != 1 else frozenset() for p in prompts]
        self._replies = [Counter[int]() for _ in prompts]
        self._counts = bool(params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1)
        self._tensors: dict[tuple[int, ...], tuple[Tensor, ...]] = {}

    def taken(self, sequence: int, token: int) -> None:
        """Count a token of the reply."""
        if self._counts:
            self._replies[sequence][token] += 1

    def processed(self, logits: Tensor, sequences: Sequence[int], lengths: Sequence[int]) -> Tensor:
        """Logits after bias, penalties and ``min_tokens``; the input is not changed.

        Args:
            logits: float32 [rows, V].
            sequences: Sequence of each row.
            lengths: How many tokens the reply of each row has.
        """
        p = self.params
        early = [row for row, n in enumerate(lengths) if n < p.min_tokens] if self._stops else []
        if not (p.logit_bias or self._counts or early):
            return logits
        logits = logits.clone()
        if p.logit_bias:
            ids = torch.tensor(list(p.logit_bias), device=logits.device)
            if int(ids.max()) >= logits.shape[1] or int(ids.min()) < 0:
                raise ValueError(f"logit_bias: {sorted(p.logit_bias)} are not all ids below {logits.shape[1]}")
            logits[:, ids] += torch.tensor(list(p.logit_bias.values()), device=logits.device)
        for row, sequence in enumerate(sequences if self._counts else ()):
            self._penalize(logits[row], sequence)
        if early:
            stops = torch.tensor([s for s in self._stops if s < logits.shape[1]], device=logits.device)
            logits[torch.tensor(early, device=logits.device)[:, None], stops] = -torch.inf
        return logits

    def _penalize(self, logits: Tensor, sequence: int) -> None:
        p, reply = self.params, self._replies[sequence]
        if p.repetition_penalty != 1 and (used := self._prompts[sequence] | reply.keys()):
            ids = torch.tensor(sorted(used), device=logits.device)
            old = logits[ids]
            logits[ids] = torch.where(old > 0, old / p.repetition_penalty, old * p.repetition_penalty)
        if reply and (p.presence_penalty or p.frequency_penalty):
            ids = torch.tensor(list(reply), device=logits.device)
            counts = torch.tensor(list(reply.values()), device=logits.device, dtype=logits.dtype)
            logits[ids] -= p.presence_penalty + p.frequency_penalty * counts

    def draw(self, logits: Tensor, sequences: Sequence[int], positions: Sequence[int], stream: int = 0) -> list[int]:
        """One token per row from processed logits; a draw depends only on the seed, the sequence and its position.

        Args:
            logits: float32 [rows, V].
            sequences: Sequence of each row.
            positions: Position of the drawn token.
            stream: Draws of different streams are independent.

        Raises:
            ValueError: a row holds NaN or an infinite logit, or forbids all tokens.
        """
        p = self.params
        if p.greedy:
            chosen = logits.argmax(-1)
        else:
            seeds, offsets = self.stream(sequences, positions, stream, logits.device)
            chosen = sample(logits, p.temperature, p.top_k, p.top_p, p.min_p, seed=seeds, offset=offsets)
        best = logits.gather(1, chosen[:, None])[:, 0] if p.greedy else logits.amax(-1)
        if not bool(best.isfinite().all()):
            raise ValueError(f"no token can be chosen: {_why_none(best)}")
        ids: list[int] = chosen.tolist()
        return ids

    def stream(
        self, sequences: Sequence[int], positions: Sequence[int], stream: int, device: torch.device
    ) -> tuple[Tensor, Tensor]:
        """Seeds and offsets of the random numbers for one draw per row, int64."""
        seeds = [_signed(self.params.seed + s + stream * 0x9E3779B97F4A7C15) for s in sequences]
        numbers = torch.tensor([seeds, list(positions)], dtype=torch.int64, device=device)
        return numbers[0], numbers[1]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities from which ``draw`` samples processed logits, float64 [rows, V]."""
        p = self.params
        if p.greedy:
            return torch.zeros_like(logits, dtype=torch.float64).scatter_(1, logits.argmax(-1, keepdim=True), 1)
        settings = [
            torch.full((len(logits),), x, device=logits.device) for x in (p.temperature, p.top_k, p.top_p, p.min_p)
        ]
        weights = kept_weights(logits.double(), *settings)
        return weights / weights.sum(-1, keepdim=True)


def _why_none(best: Tensor) -> str:
    """Why no token can be chosen, from the best logit of each row."""
    if bool(best.isnan().any()):
        return "the model's logits are not numbers (NaN); its weights or its data type are broken"
    if bool((best > 0).logical_and(best.isinf()).any()):
        return "a logit is infinite; repetition_penalty, presence_penalty or logit_bias is beyond what float32 can hold"
    return "all tokens are forbidden by logit_bias, min_tokens or the form of the reply"


def _signed(seed: int) -> int:
    """A seed as a signed 64-bit integer."""
    seed &= (1 << 64) - 1
    return seed - (1 << 64) if seed >> 63 else seed
