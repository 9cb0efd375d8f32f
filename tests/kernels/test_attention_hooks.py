"""Softcaps and sinks of language models reach the layer: the same numbers as transformers' own attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.kernels.audit import audit
from pipegraph.kernels.hooks_transformers import install

SMALL: dict[str, Any] = dict(
    hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
    vocab_size=40, max_position_embeddings=64, sliding_window=5, pad_token_id=0, attn_implementation="eager",
)  # fmt: skip


def gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2Model

    return Gemma2Model(Gemma2Config(**SMALL, attn_logit_softcapping=2.0, query_pre_attn_scalar=1))


def gpt_oss() -> Any:
    from transformers import GptOssConfig, GptOssModel

    model: Any = GptOssModel(GptOssConfig(**SMALL, num_local_experts=2, num_experts_per_tok=1))
    for layer in model.layers:
        torch.nn.init.normal_(layer.self_attn.sinks)
    return model


@pytest.mark.parametrize("make", [gemma2, gpt_oss])
def test_equals_eager(make: Any) -> None:
    torch.manual_seed(0)
    model = make().eval()
    tokens = torch.randint(1, 40, (2, 11))
    mask = torch.ones(2, 11, dtype=torch.int64)
    mask[1, :3] = 0
    with torch.no_grad():
        want = model(tokens, attention_mask=mask).last_hidden_state
        install(model)
        with audit() as seen:
            got = model(tokens, attention_mask=mask).last_hidden_state
    assert seen.attention == 2
    keep = mask.bool()
    torch.testing.assert_close(got[keep], want[keep], rtol=2e-4, atol=2e-5)
