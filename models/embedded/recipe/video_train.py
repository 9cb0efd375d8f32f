"""Train the shipped text-to-video networks (transformer and text encoder together) on moving scenes.

    python -m pipegraph.models.embedded.recipe.video_train STATE --minutes 90 [--rank 0 --world 2]

As ``train_flux.py``: flow matching on the linear codec's latents. Linear heads, thrown away afterwards, read object,
colour, motion and background from the state of the prompt's end, so that the text encoder tells them apart. It goes on
from what STATE holds.
"""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .muon import Muon
from .training import Training, arguments, seed_of, train
from .video_codec import VideoCodec
from .video_networks import TextToVideo
from .video_world import BACKGROUNDS, MOTIONS, OBJECTS, Moving, caption, draw, draw_begun, sample
from .world import COLOURS

DROPOUT = 0.1
"""Share of captions replaced by the empty prompt, for classifier-free guidance."""
READING = 0.05
"""Weight of the text encoder's own loss."""
GIVEN = 0.25
"""Share of clips whose first latent frame is given (Wan 2.2 5B's way: no noise in it, and the network is told)."""
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


@dataclass(frozen=True, slots=True)
class Example:
    """A clip's latent [16, 4, 8, 8], its caption, its facts, and whether its first frame is given."""

    latent: Tensor
    prompt: str
    facts: list[int]
    given: bool


class Clips:
    """An endless stream of scenes with captions: a growing pool, a few scenes of which are drawn anew each step."""

    def __init__(self, seed: int, pool: int) -> None:
        self.rng, self.size, self.codec = random.Random(seed), pool, VideoCodec()
        self.pool: list[Example] = []

    def _draw(self, count: int) -> None:
        scenes = [(sample(self.rng), self.rng.random() < GIVEN) for _ in range(count)]
        clips = [(draw_begun if given else draw)(scene, self.rng) for scene, given in scenes]
        drawn = torch.tensor(np.stack(clips)).permute(0, 4, 1, 2, 3)
        for (scene, given), latent in zip(scenes, self.codec.encode(drawn.float() / 127.5 - 1), strict=True):
            example = Example(latent, caption(scene, self.rng), facts(scene), given)
            if len(self.pool) < self.size:
                self.pool.append(example)
            else:
                self.pool[self.rng.randrange(self.size)] = example

    def batch(self, count: int) -> list[Example]:
        """Examples, those whose first frame is given last; half as many scenes are rendered first."""
        self._draw(count if len(self.pool) < 40 * count else max(1, count // 2))
        found = [
            replace(e, prompt="", facts=[-100] * len(FACTS)) if self.rng.random() < DROPOUT else e
            for e in self.rng.choices(self.pool, k=count)
        ]
        return sorted(found, key=lambda e: e.given)


def flow_loss(nets: TextToVideo, data: Tensor, states: Tensor, *, given: bool) -> Tensor:
    """Squared error of the velocity summed over the clips, of each its mean; noise levels are logit-normal, moved
    towards noise. Where the first frame is given it has no noise, and nothing is asked of it."""
    sigma = torch.sigmoid(torch.randn(len(data)) + TOWARDS_NOISE)
    if given:
        sigma = sigma[:, None].repeat(1, data.shape[2])
        sigma[:, 0] = 0
    noise = torch.randn_like(data)
    x = data.lerp(noise, sigma.view(len(data), 1, -1, 1, 1))
    error = (nets.velocity(x, sigma, states) - (noise - data)).pow(2)
    return error[:, :, int(given) :].mean((1, 2, 3, 4)).sum()


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
        examples = scenes.batch(args.batch)
        data, asked = torch.stack([e.latent for e in examples]), torch.tensor([e.facts for e in examples])
        states, ends = nets.encode([e.prompt for e in examples])
        free = sum(not e.given for e in examples)
        halves = [(slice(0, free), False), (slice(free, None), True)]
        flow = torch.stack(
            [flow_loss(nets, data[part], states[part], given=given) for part, given in halves if len(data[part])]
        )
        loss, reading = flow.sum() / len(data), reader(ends, asked)
        run.descend(loss + READING * reading, rate)
        return float(loss.detach()), float(reading.detach())

    train(run, step, args)


if __name__ == "__main__":
    main()
