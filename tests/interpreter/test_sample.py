"""Sampling without a sort draws what the definition draws."""

from __future__ import annotations

import math
from typing import Any

import torch

from pipegraph.kernels.ops.sample import sample

ROWS = dict(
    temperature=torch.tensor([0, 0.5, 1, 1, 2, 1]),
    top_k=torch.tensor([0, 0, 1, 7, 99, 0]),
    top_p=torch.tensor([1, 0.5, 1, 0.9, 1, 0.0]),
    min_p=torch.tensor([0, 0, 0, 0.1, 0, 0]),
    seed=torch.tensor([1, 2**40, 3, -4, 5, 6]),
    offset=torch.tensor([0, 1, 2, 3, 4, 2**40]),
)


def logits(*shape: int) -> torch.Tensor:
    return 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def both(x: torch.Tensor, **how: Any) -> tuple[list[int], list[int]]:
    return sample(x, **how, backend="triton").tolist(), sample(x, **how, backend="reference").tolist()


def test_the_token_of_the_definition() -> None:
    """Rows with settings and streams of their own; ties and hidden tokens; a slice of something wider."""
    x = logits(6, 301)
    x[1, 5] = x[1].max()
    x[3, ::2] = -math.inf
    x[4, :] = 0
    got, want = both(x, **ROWS)
    assert got == want
    got, want = both(x.bfloat16()[:, ::3], **ROWS)
    assert got == want
    assert both(x[:2, :1]) == ([0, 0], [0, 0])


def test_ties_with_the_last_kept_token_stay() -> None:
    x = torch.tensor([[3.0, 1, 1, 1, 0, 0]])
    seen = {both(x, temperature=4.0, top_k=2, offset=i)[0][0] for i in range(12)}
    assert seen <= {0, 1, 2, 3} and len(seen) > 2
