"""Prefill of a prompt against transformers, on one thread and on two.

The network is a Llama of SmolLM2-135M's shape with random float32 weights. Rounds alternate between both, and the ratio
is the median over rounds: ``python benchmarks/prefill.py [--tokens 512] [--rounds 9]``.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
import transformers

from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens


def network() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        tie_word_embeddings=True,
    )
    llama: transformers.LlamaForCausalLM = transformers.LlamaForCausalLM(config).eval()
    return llama


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    reference = network()
    llm = LLM.of(copy.deepcopy(reference))
    ids = [(i * 7919) % 40000 for i in range(args.tokens)]
    batch = torch.tensor([ids])

    def ours() -> None:
        for _ in prefill(llm, Tokens.of([ids]), reuse=False):
            pass

    @torch.no_grad()
    def theirs() -> None:
        reference(batch, use_cache=True, logits_to_keep=1)

    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {args.tokens} tokens")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        seconds(ours), seconds(theirs)
        rounds = [(seconds(ours), seconds(theirs)) for _ in range(args.rounds)]
        speeds = [args.tokens / statistics.median(times) for times in zip(*rounds, strict=True)]
        ratio = statistics.median(theirs / ours for ours, theirs in rounds)
        print(f"{threads} threads: pipegraph {speeds[0]:.0f}, transformers {speeds[1]:.0f} tokens/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
