"""What the trainings on top of the finished base share: the base itself, scenes with pictures, a clock, a loss."""

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor, nn

from pipegraph.models import paths

from .measure import load
from .networks import TextToImage, clip_ids, t5_ids
from .render import draw
from .world import caption, sample_scene

EMBEDDED = paths.EMBEDDED
BASE = EMBEDDED / "flux-tiny"


def frozen_base(folder: Path = BASE) -> tuple[TextToImage, AutoencoderKL]:
    """The shipped networks, in float32, with no gradients."""
    nets, vae = load(folder)
    for part in (*nets.parts().values(), vae):
        part.requires_grad_(False)
    return nets, vae


def prompt_ids(prompts: list[str]) -> tuple[Tensor, Tensor]:
    """(T5 ids, CLIP ids) of prompts, each [B, 16]."""
    return torch.tensor([t5_ids(p) for p in prompts]), torch.tensor([clip_ids(p) for p in prompts])


def captioned(count: int, rng: random.Random, *, two: float = 0.25) -> tuple[Tensor, list[str]]:
    """Rendered scenes [N, 128, 128, 3] in 0..1 and their captions."""
    scenes = [sample_scene(rng, two=two) for _ in range(count)]
    pictures = np.stack([np.asarray(draw(scene, rng)) for scene in scenes])
    return torch.tensor(pictures).float() / 255, [caption(scene, rng) for scene in scenes]


def noised(data: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Data with noise of logit-normal levels as in the base's training: (x, sigma [B], wanted velocity)."""
    sigma = torch.sigmoid(torch.randn(len(data)) + 0.4)
    noise = torch.randn_like(data)
    return data.lerp(noise, sigma[:, None, None]), sigma, noise - data


@dataclass
class Trainer:
    """AdamW for a number of minutes: 20 steps of warm-up, then a rate that falls in a straight line."""

    parameters: Iterable[nn.Parameter]
    rate: float
    minutes: float
    steps: int = 0
    losses: list[float] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.parameters = list(self.parameters)
        self.opt = torch.optim.AdamW(self.parameters, lr=self.rate, betas=(0.9, 0.98), weight_decay=0.0)

    @property
    def done(self) -> float:
        return (time.time() - self.began) / 60 / self.minutes

    def step(self, loss: Tensor) -> None:
        """One step on a loss; prints the mean loss every 20."""
        for group in self.opt.param_groups:
            group["lr"] = self.rate * min(1, (self.steps + 1) / 20) * max(0.02, 1 - self.done)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.opt.step()
        self.opt.zero_grad()
        self.steps += 1
        self.losses.append(float(loss.detach()))
        if self.steps % 20 == 0:
            print(f"{self.steps} loss {np.mean(self.losses[-20:]):.4f} done {self.done:.2f}", flush=True)
