"""Tiny language models of many architectures with random weights, and replies of transformers to compare with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from unittest.mock import patch

import torch
import transformers as hf
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.models.llm.cache.kv_cache import KVKind
from pipegraph.models.llm.decode import decode as decoding
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.decode.session import Session
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokens import Tokens

R = TypeVar("R")
COMMON: dict[str, Any] = dict(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    eos_token_id=None,
    bos_token_id=1,
    pad_token_id=0,
    tie_word_embeddings=False,
)
FOUR = {**COMMON, "num_hidden_layers": 4}
WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
MOE: dict[str, Any] = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaConfig(**COMMON),
    "mistral": lambda: hf.MistralConfig(**COMMON, head_dim=16, sliding_window=9),
    "qwen2": lambda: hf.Qwen2Config(**COMMON),
    "qwen3": lambda: hf.Qwen3Config(**COMMON, head_dim=16),
    "gemma2": lambda: hf.Gemma2Config(
        **COMMON, head_dim=16, sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=5.0,
        final_logit_softcapping=10.0,
    ),
    "gemma3": lambda: hf.Gemma3TextConfig(
        **COMMON, head_dim=16, sliding_window=8, layer_types=WINDOWS, query_pre_attn_scalar=16
    ),
    "phi3": lambda: hf.Phi3Config(**COMMON),
    "phi3_long": lambda: hf.Phi3Config(
        **COMMON, original_max_position_embeddings=4, rope_parameters={
            "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 3.0, 4.0],
            "original_max_position_embeddings": 4,
        },
    ),
    "qwen3_moe": lambda: hf.Qwen3MoeConfig(**{**COMMON, **MOE, "head_dim": 16, "norm_topk_prob": True}),
    "deepseek_v3": lambda: hf.DeepseekV3Config(
        **{**COMMON, "num_key_value_heads": 4}, q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8,
        qk_rope_head_dim=8, v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1,
    ),
    "gpt_oss": lambda: hf.GptOssConfig(
        **COMMON, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, layer_types=WINDOWS
    ),
    "nemotron_h": lambda: hf.NemotronHConfig(
        **{k: v for k, v in COMMON.items() if k != "num_hidden_layers"},
        layers_block_type=["mamba", "attention", "moe", "mamba"], head_dim=16, mamba_num_heads=4, mamba_head_dim=16,
        n_groups=1, ssm_state_size=8, chunk_size=8, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
        topk_group=1, moe_intermediate_size=16, moe_shared_expert_intermediate_size=16,
    ),
    "bamba": lambda: hf.BambaConfig(
        **COMMON, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_state=8, mamba_chunk_size=8
    ),
    "falcon_h1": lambda: hf.FalconH1Config(
        **{**COMMON, "head_dim": 16}, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_state=8, mamba_chunk_size=8,
        key_multiplier=0.5,
    ),
    "qwen3_next": lambda: hf.Qwen3NextConfig(
        **FOUR, **MOE, head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, linear_conv_kernel_dim=4, shared_expert_intermediate_size=16,
        layer_types=["linear_attention"] * 3 + ["full_attention"],
    ),
}  # fmt: skip
SEEDS = {"qwen3": 9, "qwen3_moe": 10, "falcon_h1": 10}
"""Where the usual one gives a reply of few different tokens."""
EAGER = ("gpt_oss", "gemma2")
"""transformers' fused attention has no sinks and no softcap."""
PROMPT_LENGTHS = (13, 37, 5)


def make(name: str, seed: int | None = None) -> Any:
    """A network of transformers, on its own attention."""
    with torch.random.fork_rng():
        torch.manual_seed(0)  # for what is not set below
        network = hf.AutoModelForCausalLM.from_config(
            CONFIGS[name](), attn_implementation="eager" if name in EAGER else "sdpa"
        ).eval()
    generator = torch.Generator().manual_seed(SEEDS.get(name, 5) if seed is None else seed)
    with torch.no_grad():
        for part, p in network.named_parameters():
            if p.ndim >= 2 and "conv" not in part:
                p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
            elif "sink" in part:
                p.copy_(torch.randn(p.shape, generator=generator))
    return network


def language_model(name: str, seed: int | None = None) -> LLM:
    """The same network on the kernel layer."""
    return LLM.of(make(name, seed), name=name)


def prompts(lengths: Sequence[int] = PROMPT_LENGTHS) -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, 128, (n,), generator=generator).tolist() for n in lengths]


@dataclass(frozen=True)
class Greedy:
    """A greedy reply to each prompt, with the logits of each step [B, steps, V]."""

    tokens: list[tuple[int, ...]]
    logits: Tensor


@cache
def expected(name: str, count: int) -> Greedy:
    """transformers' ``generate``, a prompt at a time."""
    network = make(name)
    tokens, logits = [], []
    for prompt in prompts():
        out = network.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=count,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        tokens.append(tuple(out.sequences[0, len(prompt) :].tolist()))
        logits.append(torch.cat(out.logits))
    assert all(len(set(t)) >= 15 for t in tokens), f"{name} says too little: {tokens}"
    return Greedy(tokens, torch.stack(logits))


def reply(llm: LLM, which: Sequence[int], count: int, *, chunk: int = 512, kv: KVKind = "native") -> Greedy:
    """Ours, for some of the prompts."""
    steps: list[Tensor] = []

    class Recording(Session):
        def step(self, *args: Any, **options: Any) -> Tensor:
            before = len(steps)
            out = super().step(*args, **options)
            steps[before:] = [out]  # not those of single rows that it may be made of
            return out

    rows = [prompts()[i] for i in which]
    ready = finish(prefill(llm, Tokens.of(rows), chunk=chunk, kv=kv))
    with patch.object(decoding, "Session", Recording):
        made = finish(decoding.decode(llm, ready, SamplingParams(max_tokens=count), go_on=False))
    assert made.finish == ("length",) * len(rows)
    return Greedy(list(made.tokens.ids), torch.stack([ready.logits, *steps], 1))


def same(ours: Greedy, theirs: Greedy, which: Sequence[int], tolerance: float = 1e-4) -> None:
    """Check tokens and logits at every step."""
    worst = (ours.logits - theirs.logits[list(which)]).abs().amax(-1)
    assert float(worst.max()) <= tolerance, f"logits differ by {worst.amax(0)}"
    assert ours.tokens == [theirs.tokens[i] for i in which]


def perturbed(network: Any, scale: float, part: str = "") -> Any:
    """A copy with noise of a standard deviation ``scale`` on its matrices, or on those with ``part`` in their name."""
    made = copy.deepcopy(network)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in made.named_parameters():
            if p.ndim == 2 and part in name:
                p.add_(torch.randn(p.shape, generator=generator), alpha=scale)
    return made
