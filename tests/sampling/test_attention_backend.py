"""A model that asks for a back end of attention."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pipegraph.kernels import dispatch
from pipegraph.kernels.dispatch import noting, use
from pipegraph.kernels.ops.attention import attention
from pipegraph.models.patches.attention_backend import AttentionBackend
from pipegraph.nodes.sampling.attention import model_attention_backend

from ..context import Context

Q = torch.ones(1, 1, 2, 8)


def used(model: Any) -> set[str]:
    """Back ends that attention runs on inside the patches of a model."""
    with noting() as calls, model.patches[0].around(model, Q):
        attention(Q, Q, Q)
    return calls["attention"]


def test_the_back_end_is_used_while_the_network_is_called(toy: Any) -> None:
    ctx = Context(Path(), Path())
    model = model_attention_backend(model_attention_backend(toy, ctx), ctx, "pytorch attention")
    assert model.patches == (AttentionBackend("torch"),) and not ctx.warnings and toy.patches == ()
    assert used(model) == {"torch"}
    reference = replace(toy, patches=(AttentionBackend("reference"),))
    assert used(reference) == {"reference"} and not dispatch.asked()
    with use(attention="torch"):
        assert used(reference) == {"torch"}, "what the user asks for comes first"


def test_a_package_that_is_not_there_is_told(toy: Any) -> None:
    ctx = Context(Path(), Path())
    assert model_attention_backend(toy, ctx, "comfy kitchen attention") is toy
    assert ctx.warnings == [
        "comfy kitchen attention cannot be used (comfy-kitchen is not installed): the usual attention is"
    ]
