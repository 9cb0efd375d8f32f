"""``pipegraph bench llm``: our decoding and transformers' ``generate`` on the same weights in one process.

A GGUF file runs packed here, unpacked in transformers, and in llama.cpp if the package ``xllamacpp`` is installed.

The floor is the time to read the weights once: one matrix-vector product with each matrix, in order, at float32.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from pipegraph.generators import finish
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.quantize import quantized

from .decode.decode import decode
from .decode.prefill import Prefilled, prefill
from .decode.sampling import SamplingParams
from .llm import LLM
from .load import find, load_llm
from .tokens import Tokens

R = TypeVar("R")
Way = Callable[[], tuple[float, float]]
"""Runs once; returns seconds of the prefill, and per token of the reply."""
SHAPES: dict[str, dict[str, int]] = {
    "135m": dict(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
    ),
    "tiny": dict(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    ),
}
"""Llama's architecture with random weights; 135m is SmolLM2's."""


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of one implementation: prefill, and per token of the reply."""

    name: str
    prefill: float
    token: float


@dataclass(frozen=True, slots=True)
class Result:
    """Measurements of the benchmark."""

    rows: tuple[Row, ...]
    floor: float
    """Seconds to read the float32 weights once."""
    prompt: int
    clock: str

    def table(self) -> str:
        """A table, with speedups over transformers, the first row."""
        theirs = self.rows[0]
        head = f"{'':<14}{'TTFT ms':>9}{'prefill tok/s':>14}{'':>8}{'decode tok/s':>14}"
        head += f"{'ms/token':>10}{'':>8}{'of floor':>10}"
        lines = [f"floor {1000 * self.floor:.2f} ms a token ({self.clock})", head]
        for r in self.rows:
            lines.append(
                f"{r.name:<14}{1000 * r.prefill:>9.1f}{self.prompt / r.prefill:>14.1f}"
                f"{theirs.prefill / r.prefill:>7.2f}x{1 / r.token:>14.2f}"
                f"{1000 * r.token:>10.2f}{theirs.token / r.token:>7.2f}x{self.floor / r.token:>10.0%}"
            )
        return "\n".join(lines)


def bench(
    shape: str = "135m",
    formats: tuple[str, ...] = ("fp32", "q8", "w4"),
    prompt: int = 64,
    tokens: int = 16,
    rounds: int = 3,
    threads: int = 1,
) -> Result:
    """Measure in turns and take the best of ``rounds``, since other load only adds time.

    With one thread the clock is processor time, else wall time.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    network = _network(shape)
    ids = _prompt(SHAPES[shape]["vocab_size"], prompt)
    ways: dict[str, Way] = {"transformers": lambda: _generate(network, ids, tokens, clock)}
    for format in formats:
        ways[f"ours {format}"] = _ours(_in(network, format), ids, tokens, clock)
    clock_name = "processor time, one thread" if threads == 1 else f"time on the wall, {threads} threads"
    return _in_turns(network, ways, prompt, rounds, threads, clock, clock_name)


def bench_file(name: str, prompt: int = 64, tokens: int = 16, rounds: int = 3, threads: int = 1) -> Result:
    """Measure a GGUF file in turns, in wall time; transformers reads it through the package ``gguf``."""
    from transformers import AutoModelForCausalLM

    file = find(name)
    if file.suffix != ".gguf":
        raise LoadError(f"{file} is no GGUF file")
    network = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    network.generation_config.eos_token_id = None
    llm, clock = load_llm(name, torch.device("cpu"), torch.float32), time.perf_counter
    ids = _prompt(llm.facts.vocabulary, prompt)
    ways: dict[str, Way] = {
        "transformers": lambda: _generate(network, ids, tokens, clock),
        "ours packed": _ours(llm, ids, tokens, clock),
    }
    if find_spec("xllamacpp"):
        ways["llama.cpp"] = _llama_cpp(file, ids, tokens, threads)
    return _in_turns(
        network, ways, prompt, rounds, threads, clock, f"time on the wall, {threads} thread{'s' * (threads > 1)}"
    )


def _prompt(vocabulary: int, count: int) -> torch.Tensor:
    """Random ids [1, count]."""
    return torch.randint(0, vocabulary, (1, count), generator=torch.Generator().manual_seed(0))


def _in_turns(
    network: Any,
    ways: dict[str, Way],
    prompt: int,
    rounds: int,
    threads: int,
    clock: Callable[[], float],
    clock_name: str,
) -> Result:
    """The best round of each, after a warm-up."""
    torch.set_num_threads(threads)
    for way in ways.values():
        way()
    floors: list[float] = []
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        floors.append(min(_floor(network, clock) for _ in range(3)))
        for name, way in ways.items():
            times[name].append(way())
    rows = [Row(name, min(t[0] for t in seconds), min(t[1] for t in seconds)) for name, seconds in times.items()]
    return Result(tuple(rows), min(floors), prompt, clock_name)


def _network(shape: str) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    settings: dict[str, Any] = dict(SHAPES[shape], max_position_embeddings=4096, eos_token_id=None, bos_token_id=0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network: Any = LlamaForCausalLM(LlamaConfig(**settings, tie_word_embeddings=False))
    network.config._attn_implementation = "sdpa"
    return network.eval().requires_grad_(False)


def _in(network: Any, format: str) -> LLM:
    """The network as an LLM: sharing its weights, or quantized."""
    shared = copy.deepcopy(network, {id(p): p for p in network.parameters()})
    llm = LLM.of(shared, name=format)
    if format == "fp32":
        return llm
    packed: Any = quantized(llm.loaded.network, format)
    return LLM.of(packed, name=format)


@torch.no_grad()
def _floor(network: nn.Module, clock: Callable[[], float]) -> float:
    weights = [part.weight for part in network.modules() if isinstance(part, nn.Linear)]
    vectors = {n: torch.ones(1, n) for n in {w.shape[1] for w in weights}}
    began = clock()
    for w in weights:
        F.linear(vectors[w.shape[1]], w)
    return clock() - began


@torch.no_grad()
def _generate(network: Any, ids: torch.Tensor, tokens: int, clock: Callable[[], float]) -> tuple[float, float]:
    """``generate`` of one token is the prefill; the time of further tokens is decoding."""
    taken = []
    for count in (1, tokens + 1):
        began = clock()
        network.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False)
        taken.append(clock() - began)
    return taken[0], (taken[1] - taken[0]) / tokens


def _llama_cpp(file: Path, ids: torch.Tensor, tokens: int, threads: int) -> Way:
    """llama.cpp's own timings of the same greedy completion."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.verbosity, settings.n_parallel = str(file), 0, 1
    settings.n_ctx = ids.shape[1] + tokens + 32
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(settings)
    ask = dict(prompt=ids[0].tolist(), n_predict=tokens + 1, temperature=0, ignore_eos=True, cache_prompt=False)

    def way() -> tuple[float, float]:
        timings = server.handle_completions(ask)["timings"]
        return timings["prompt_ms"] / 1000, timings["predicted_per_token_ms"] / 1000

    return way


def _ours(llm: LLM, ids: torch.Tensor, tokens: int, clock: Callable[[], float]) -> Way:
    prompt = Tokens.of(ids.tolist())

    def way() -> tuple[float, float]:
        began = clock()
        ready: Prefilled = finish(prefill(llm, prompt, reuse=False))
        read = clock()
        finish(decode(llm, ready, SamplingParams(max_tokens=tokens + 1), go_on=False))
        return read - began, (clock() - read) / tokens

    return way
