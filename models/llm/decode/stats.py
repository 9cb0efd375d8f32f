"""Times, rates and bytes of language-model work, for the run record and the progress line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Stats:
    """Times are wall-clock seconds."""

    prompt_tokens: int = 0
    """Tokens of all sequences passed to prefill."""
    reused_tokens: int = 0
    """Prompt tokens from the prefix cache."""
    prefill_s: float = 0.0
    reply_tokens: int = 0
    """Tokens of all sequences decoded."""
    decode_s: float = 0.0
    first_s: float = 0.0
    """From the start of decode to its first token."""
    gaps_s: tuple[float, ...] = ()
    """Inter-token latencies: the time of each later step."""
    kv_bytes: int = 0
    drafted: int = 0
    accepted: int = 0
    steps: int = 0
    """Runs of the (target) network in decode."""
    experts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By layer: tokens routed to each expert."""

    @property
    def ttft_s(self) -> float:
        """Time to first token: prefill and the first sample."""
        return self.prefill_s + self.first_s

    @property
    def prefill_rate(self) -> float:
        """Tokens per second through the network."""
        return (self.prompt_tokens - self.reused_tokens) / self.prefill_s if self.prefill_s else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens per second of all sequences together."""
        return self.reply_tokens / self.decode_s if self.decode_s else 0.0

    @property
    def gap_s(self) -> float:
        """Median inter-token latency."""
        return median(self.gaps_s) if self.gaps_s else 0.0

    @property
    def acceptance(self) -> float | None:
        """Share of drafted tokens that the target accepted; None without a draft."""
        return self.accepted / self.drafted if self.drafted else None

    def after(self, prefill: Stats) -> Stats:
        """Stats of a decode together with those of its prefill."""
        return replace(
            self, prompt_tokens=prefill.prompt_tokens, reused_tokens=prefill.reused_tokens, prefill_s=prefill.prefill_s
        )

    def record(self) -> dict[str, Any]:
        """JSON for the run record; entries that do not apply are left out."""
        values: dict[str, Any] = {"kv_bytes": self.kv_bytes}
        if self.prefill_s:
            values |= {
                "prompt_tokens": self.prompt_tokens,
                "reused_tokens": self.reused_tokens,
                "prefill_tokens_per_s": round(self.prefill_rate, 2),
            }
        if self.reply_tokens:
            values |= {
                "reply_tokens": self.reply_tokens,
                "ttft_ms": round(1000 * self.ttft_s, 2),
                "decode_tokens_per_s": round(self.decode_rate, 2),
                "inter_token_ms": round(1000 * self.gap_s, 3),
                "steps": self.steps,
            }
        if self.drafted:
            values |= {"drafted": self.drafted, "accepted": self.accepted, "acceptance": round(self.acceptance or 0, 4)}
        if self.experts:
            values["experts"] = {layer: list(counts) for layer, counts in self.experts.items()}
        return values

    def line(self) -> str:
        """Summary for a progress line."""
        parts = [f"{self.prompt_tokens} tok in {self.prefill_s:.2f} s"] if self.prefill_s else []
        if self.reused_tokens:
            parts.append(f"{self.reused_tokens} reused")
        if self.reply_tokens:
            parts += [f"{self.decode_rate:.1f} tok/s", f"TTFT {1000 * self.ttft_s:.0f} ms"]
        if self.drafted:
            parts.append(f"{self.acceptance:.0%} accepted")
        return ", ".join([*parts, f"KV {self.kv_bytes / 2**20:.1f} MiB"])
