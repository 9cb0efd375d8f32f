"""The shortest way of a token: the compiled kernels that the ops choose, called directly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.kernels.dispatch import noting, use
from pipegraph.kernels.hooks.modules import KernelLinear
from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.session import Session
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.network import fused as express
from pipegraph.models.llm.network.cpu_step import CpuDecodeStep, _readable
from pipegraph.models.llm.tokens import Tokens
from pipegraph.models.quantize import quantized

from .networks import make, prompts

STEPS = 4


def replies(llm: LLM, kv: Any = "native") -> Tensor:
    """Logits (STEPS, 3, V) of a batch of ragged prompts that goes on."""
    with Session.open(llm, finish(prefill(llm, Tokens.of(prompts()), kv=kv, reuse=False)).cache) as session:
        return torch.stack([session.step([(row, [7 + step + row]) for row in range(3)]) for step in range(STEPS)])


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the steps that go this way."""
    calls: list[int] = []
    run = CpuDecodeStep.__call__

    def counted(self: CpuDecodeStep, *args: Any) -> Tensor:
        calls.append(1)
        return run(self, *args)

    monkeypatch.setattr(CpuDecodeStep, "__call__", counted)
    return calls


def network(family: str) -> Any:
    made = make(family)
    with torch.no_grad():  # norms and biases of ones and zeros would show nothing
        generator = torch.Generator().manual_seed(2)
        for p in made.parameters():
            if p.ndim == 1:
                p.copy_(1 + torch.rand(p.shape, generator=generator) / 2)
    return made


@pytest.mark.parametrize(
    "family, format", [("llama", ""), ("llama", "q8"), ("mistral", ""), ("qwen2", ""), ("qwen3", "")]
)
def test_the_same_logits_by_the_ops(
    family: str, format: str, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = LLM.of(network(family))
    if format:
        packed: Any = quantized(llm.loaded.network, format)
        llm = LLM.of(packed)
    with noting() as calls:
        short = replies(llm)
    assert len(taken) == STEPS
    assert torch.equal(replies(llm), short), "the first step has the bytes of later ones"
    assert all(calls[op] >= names for op, names in (("paged_decode", {"few-rows"}), ("swiglu", {"torch"})))
    monkeypatch.setattr(express, "missing", lambda: "as if numba were not there")
    assert float((replies(llm) - short).abs().max()) <= 2e-5
    assert len(taken) == 2 * STEPS


def test_other_choices_and_caches_go_by_the_ops(taken: list[int]) -> None:
    llm = LLM.of(make("llama"))
    with use(linear="reference"):
        replies(llm)
    replies(llm, kv="int8")
    assert not taken
    replies(llm)
    assert len(taken) == STEPS


@pytest.mark.parametrize(("group", "readable"), [(32, True), (64, True), (96, False), (16, False)])
def test_groups_that_the_kernels_read(group: int, readable: bool) -> None:
    """They find a group by a shift, so that its width is a power of two, and take 32 columns at once."""
    layer = torch.nn.Linear(192, 64, bias=False)
    KernelLinear.pack(layer, QWeight.quantize(torch.randn(64, 192), "q8", group=group))
    assert _readable(layer) is readable
