"""Train the shipped text-to-video networks (transformer and text encoder together) on moving scenes.

    python -m pipegraph.models.embedded.recipe.video_train STATE --minutes 90 [--rank 0 --world 2]

As ``train_flux.py``: flow matching on the linear codec's latents. Linear heads, thrown away afterwards, read object,
colour, motion and background from the state of the prompt's end, so that the text encoder tells them apart. It goes on
from what STATE holds.
"""

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .muon import Muon
from .training import Training, arguments, seed_of, train
from .video_codec import VideoCodec
from .video_networks import TextToVideo
from .video_world import BACKGROUNDS, MOTIONS, OBJECTS, Moving, caption, draw, sample
from .world import COLOURS

DROPOUT = 0.1
"""Share of captions replaced by the empty prompt, for classifier-free guidance."""
READING = 0.05
"""Weight of the text encoder's own loss."""
TOWARDS_NOISE = 0.8
"""Added to the logit of the noise levels: where and what is decided at high noise."""
FACTS = {"object": len(OBJECTS), "colour": len(COLOURS) + 1, "motion": len(MOTIONS), "background": len(BACKGROUNDS)}


def facts(scene: Moving) -> list[int]:
    """Classes of ``FACTS``; colour 0 is the natural one."""
    colour = COLOURS.index(scene.thing.colour) + 1 if scene.thing.colour else 0
    motion, place = list(MOTIONS).index(scene.motion), BACKGROUNDS.index(scene.background)
    return [OBJECTS.index(scene.thing.name), colour, motion, place]


class Reader(nn.Module):
    """Linear heads on the state of a prompt's end."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(width, classes) for classes in FACTS.values())

    def forward(self, ends: Tensor, asked: Tensor) -> Tensor:
        """Cross entropy summed over the facts; ``asked`` [B, 4], -100 where nothing is asked."""
        losses = [cross_entropy(head(ends), asked[:, i], reduction="sum") for i, head in enumerate(self.heads)]
        return torch.stack(losses).sum() / max(1, int((asked[:, 0] >= 0).sum()))


class Clips:
    """An endless stream of scenes with captions: a growing pool, a few scenes of which are drawn anew each step."""

    def __init__(self, seed: int, pool: int) -> None:
        self.rng, self.size, self.codec = random.Random(seed), pool, VideoCodec()
        self.latents: list[Tensor] = []
        self.prompts: list[tuple[str, list[int]]] = []

    def _draw(self, count: int) -> None:
        scenes = [sample(self.rng) for _ in range(count)]
        drawn = torch.tensor(np.stack([draw(s, self.rng) for s in scenes])).permute(0, 4, 1, 2, 3)
        for scene, latent in zip(scenes, self.codec.encode(drawn.float() / 127.5 - 1), strict=True):
            prompt = caption(scene, self.rng), facts(scene)
            if len(self.latents) < self.size:
                self.latents.append(latent)
                self.prompts.append(prompt)
            else:
                i = self.rng.randrange(self.size)
                self.latents[i], self.prompts[i] = latent, prompt

    def batch(self, count: int) -> tuple[Tensor, list[str], Tensor]:
        """Latents [count, 16, 4, 8, 8], prompts and facts; half as many scenes are rendered first."""
        self._draw(count if len(self.latents) < 40 * count else max(1, count // 2))
        index = self.rng.choices(range(len(self.latents)), k=count)
        nothing = "", [-100] * len(FACTS)
        prompts = [nothing if self.rng.random() < DROPOUT else self.prompts[i] for i in index]
        latents = torch.stack([self.latents[i] for i in index])
        return latents, [p for p, _ in prompts], torch.tensor([f for _, f in prompts])


def flow_loss(nets: TextToVideo, data: Tensor, states: Tensor) -> Tensor:
    """Mean squared error of the velocity; noise levels are logit-normal, moved towards noise."""
    sigma = torch.sigmoid(torch.randn(len(data)) + TOWARDS_NOISE)
    noise = torch.randn_like(data)
    x = data.lerp(noise, sigma.view(-1, 1, 1, 1, 1))
    return (nets.velocity(x, sigma, states) - (noise - data)).pow(2).mean()


def begin(state: Path, rate: float) -> tuple[Training, TextToVideo, Reader]:
    """Resume from ``state``, else begin from nothing."""
    nets, reader = TextToVideo.fresh(), Reader(128)
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = [*reader.parameters(), *nets.text.parameters()]
    for key, p in nets.transformer.named_parameters():
        (matrices if key.startswith("blocks.") and p.ndim == 2 else rest).append(p)
    adam = torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
    run = Training(nets, reader, [Muon(matrices, lr=rate), adam])
    if state.is_file():
        run.resume(state)
    return run, nets, reader


def main() -> None:
    args = arguments(__doc__, batch=16, pool=8000, port=29779).parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run, nets, reader = begin(args.state / "train.pt", args.rate)
    seed = seed_of(run, args.rank)
    torch.manual_seed(seed)
    scenes = Clips(seed, args.pool)

    def step(rate: float) -> tuple[float, float]:
        data, prompts, asked = scenes.batch(args.batch)
        states, ends = nets.encode(prompts)
        flow, reading = flow_loss(nets, data, states), reader(ends, asked)
        run.descend(flow + READING * reading, rate)
        return float(flow.detach()), float(reading.detach())

    train(run, step, args)


if __name__ == "__main__":
    main()
