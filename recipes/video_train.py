"""Train the shipped text-to-video networks (transformer and text encoder together) on moving scenes.

    python -m recipes.video_train STATE --minutes 90 [--rank 0 --world 2]

As ``train_flux.py``: flow matching on the linear codec's latents. Some captions leave out the background or the
direction, as people do; the scene then has any. Linear heads, thrown away afterwards, read what a caption says from
the text encoder's states (``video_reading.py``). It goes on from what STATE holds.
"""

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .muon import Muon
from .training import Training, arguments, seed_of, train
from .video_codec import VideoCodec
from .video_networks import TextToVideo
from .video_reading import NOTHING, Facts, Reader, facts
from .video_world import Moving, draw, draw_begun, phrases, sample

DROPOUT = 0.1
"""Share of captions replaced by the empty prompt, for classifier-free guidance."""
READING = 0.05
"""Weight of the text encoder's own loss."""
GIVEN = 0.25
"""Share of clips whose first latent frame is given (Wan 2.2 5B's way: no noise in it, and the network is told)."""
TOWARDS_NOISE = 0.8
"""Added to the logit of the noise levels: where and what is decided at high noise."""
UNSAID = 0.2, 0.07
"""Share of captions that leave out the background, and the direction."""


def told(scene: Moving, rng: random.Random) -> tuple[str, Facts]:
    """A caption of a scene, at times without its background or its direction, and what it says of them."""
    said = [True, rng.random() >= UNSAID[1], rng.random() >= UNSAID[0]]
    parts = [phrase if is_said else "" for phrase, is_said in zip(phrases(scene, rng), said, strict=True)]
    return " ".join(filter(None, parts)), facts(scene, parts)


@dataclass(frozen=True, slots=True)
class Example:
    """A clip's latent [16, 4, 8, 8], its caption, what that says, and whether the first frame is given."""

    latent: Tensor
    prompt: str
    facts: Facts
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
            example = Example(latent, *told(scene, self.rng), given)
            if len(self.pool) < self.size:
                self.pool.append(example)
            else:
                self.pool[self.rng.randrange(self.size)] = example

    def batch(self, count: int) -> list[Example]:
        """Examples, those whose first frame is given last; half as many scenes are rendered first."""
        self._draw(count if len(self.pool) < 40 * count else max(1, count // 2))
        found = [
            replace(e, prompt="", facts=NOTHING) if self.rng.random() < DROPOUT else e
            for e in self.rng.choices(self.pool, k=count)
        ]
        return sorted(found, key=lambda e: e.given)


def flow_loss(nets: TextToVideo, data: Tensor, states: Tensor, *, given: bool) -> Tensor:
    """Mean squared error of the velocity per video, summed over the batch.

    Noise levels are logit-normal, shifted towards noise. A given first frame has no noise and no loss.
    """
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
        data = torch.stack([e.latent for e in examples])
        states, ends = nets.encode([e.prompt for e in examples])
        free = sum(not e.given for e in examples)
        halves = [(slice(0, free), False), (slice(free, None), True)]
        flow = torch.stack(
            [flow_loss(nets, data[part], states[part], given=given) for part, given in halves if len(data[part])]
        )
        loss, reading = flow.sum() / len(data), reader(states, ends, [e.facts for e in examples])
        run.descend(loss + READING * reading, rate)
        return float(loss.detach()), float(reading.detach())

    train(run, step, args)


if __name__ == "__main__":
    main()
