"""Muon (Jordan et al. 2024) in float32: momentum, then the nearest orthogonal matrix by Newton-Schulz.

torch.optim.Muon does the iteration in bfloat16, which a CPU without bfloat16 units runs 15 times slower.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def orthogonalize(g: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of each matrix in ``g`` [N, rows, columns] towards 1."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.shape[1] > g.shape[2]
    x: Tensor = g.mT if tall else g
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon over 2-D weights; the update has the root mean square of an AdamW step (0.2), so rates carry over."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01) -> None:
        super().__init__(params, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[p.shape].append(p)
            for shape, params in by_shape.items():
                updates = []
                for p in params:
                    assert p.grad is not None
                    buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(buffer, group["momentum"]))
                scale = 0.2 * max(shape) ** 0.5
                for p, update in zip(params, orthogonalize(torch.stack(updates)), strict=True):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-group["lr"] * scale)
