"""What transformers and diffusers ask of attention reaches the layer: softcaps, sinks, biases, log-sum-exps."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pipegraph.kernels.audit import audit
from pipegraph.kernels.hooks.diffusers import _attend_part
from pipegraph.kernels.hooks.transformers import attend, install

SMALL: dict[str, Any] = dict(
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=40,
    max_position_embeddings=64,
    sliding_window=5,
    pad_token_id=0,
    attn_implementation="eager",
)


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


def test_a_position_bias_and_a_mask_are_added() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    bias, mask = torch.randn(1, 4, 5, 5), torch.zeros(2, 1, 1, 5)
    mask[1, ..., 3:] = torch.finfo(torch.float32).min
    got, _ = attend(torch.nn.Identity(), q, k, v, mask, scaling=1.0, is_causal=False, position_bias=bias)
    want = (q @ k.mT + bias + mask).softmax(-1) @ v
    torch.testing.assert_close(got, want.transpose(1, 2))


def test_a_part_of_the_tokens_comes_with_its_log_sum_exp() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 5, 4, 8)  # (B, S, H, D), as diffusers has them
    out, lse = _attend_part(None, q, k, v, None, 0.0, False, None, False, True)
    scores = torch.einsum("bshd,bthd->bhst", q, k) / 8**0.5
    torch.testing.assert_close(lse, scores.logsumexp(-1).transpose(1, 2))
    torch.testing.assert_close(out, torch.einsum("bhst,bthd->bshd", scores.softmax(-1), v))
    alone = _attend_part(None, q, k, v, None, 0.0, False, None, False, False)
    torch.testing.assert_close(alone, out)
