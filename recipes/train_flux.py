"""Train the shipped text-to-image networks (transformer, T5, CLIP together) on rendered scenes.

    python -m recipes.train_flux STATE --minutes 90 [--start WEIGHTS] [--rank 0 --world 2]

Flow matching (Lipman et al. 2022): x = (1 - sigma) data + sigma noise, the network predicts noise - data. Processes
and STATE are those of ``training.py``; ``--start`` takes fp16 weights.
"""

import random
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pipegraph.models.families.flux import pack

from .codec import LinearCodec
from .muon import Muon
from .networks import TextToImage, clip_ids, t5_ids
from .reading import NOTHING, Facts, Reader, facts
from .render import draw
from .training import Training, arguments, load_weights, seed_of, train
from .world import caption, sample_scene

HERE = Path(__file__).parent
DROPOUT = 0.1
"""Share of captions replaced by the empty prompt, for classifier-free guidance."""
SIZES = ("small", "small", "small", None, None, "big")
"""Sizes of lone objects in training: small ones are hardest to learn."""
READING = 0.05
"""Weight of the text encoders' own loss (``reading.py``)."""

Prompt = tuple[list[int], list[int], Facts]
"""T5 ids, CLIP ids and facts of a caption."""


class Scenes:
    """An endless stream of scenes with captions: a growing pool, a few scenes of which are drawn anew each step."""

    def __init__(self, seed: int, two: float, pool: int) -> None:
        self.rng, self.two, self.size = random.Random(seed), two, pool
        self.codec = LinearCodec(HERE / "codec.npz")
        self.latents: list[Tensor] = []
        self.prompts: list[Prompt] = []

    def _draw(self, count: int) -> None:
        scenes = [sample_scene(self.rng, two=self.two, sizes=SIZES) for _ in range(count)]
        images = torch.tensor(np.stack([np.asarray(draw(s, self.rng)) for s in scenes])).permute(0, 3, 1, 2)
        for scene, latent in zip(scenes, pack(self.codec.encode(images.float() / 127.5 - 1)), strict=True):
            words = caption(scene, self.rng)
            prompt = t5_ids(words), clip_ids(words), facts(scene, words)
            if len(self.latents) < self.size:
                self.latents.append(latent)
                self.prompts.append(prompt)
            else:
                i = self.rng.randrange(self.size)
                self.latents[i], self.prompts[i] = latent, prompt

    def batch(self, count: int, fresh: int) -> tuple[Tensor, tuple[Tensor, Tensor], list[Facts]]:
        """Latents [count, 64, 64], (T5 ids, CLIP ids) and facts; ``fresh`` scenes are rendered first."""
        self._draw(count if len(self.latents) < 50 * count else fresh)
        index = self.rng.choices(range(len(self.latents)), k=count)
        empty = (t5_ids(""), clip_ids(""), NOTHING)
        prompts = [empty if self.rng.random() < DROPOUT else self.prompts[i] for i in index]
        t5, clip = (torch.tensor([p[k] for p in prompts]) for k in (0, 1))
        return torch.stack([self.latents[i] for i in index]), (t5, clip), [p[2] for p in prompts]


def flow_loss(nets: TextToImage, data: Tensor, encoded: tuple[Tensor, Tensor]) -> Tensor:
    """Mean squared error of the velocity; noise levels are logit-normal, moved towards noise by 0.4."""
    sigma = torch.sigmoid(torch.randn(len(data)) + 0.4)
    noise = torch.randn_like(data)
    x = data.lerp(noise, sigma[:, None, None])
    return (nets.velocity(x, sigma, encoded) - (noise - data)).pow(2).mean()


def optimizers(nets: TextToImage, reader: Reader, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the transformer's blocks, AdamW for all else."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, part in nets.parts().items():
        for key, p in part.named_parameters():
            inner = name == "transformer" and "blocks" in key and "norm" not in key and p.ndim == 2
            (matrices if inner else rest).append(p)
    return [
        Muon(matrices, lr=rate),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.01),
        torch.optim.AdamW(reader.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def begin(state: Path, start: Path | None, rate: float) -> tuple[Training, TextToImage, Reader]:
    """Resume from ``state``; else begin from fp16 weights, or from nothing."""
    nets, reader = TextToImage.fresh(), Reader(128)
    run = Training(nets, reader, optimizers(nets, reader, rate))
    if state.is_file():
        run.resume(state)
    elif start:
        load_weights(nets, start)
    return run, nets, reader


def main() -> None:
    ask = arguments(__doc__, batch=32, pool=20000, port=29777)
    ask.add_argument("--start", type=Path)
    ask.add_argument("--two", type=float, default=0.45, help="share of two-object scenes")
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run, nets, reader = begin(args.state / "train.pt", args.start, args.rate)
    seed = seed_of(run, args.rank)
    torch.manual_seed(seed)
    scenes = Scenes(seed, args.two, args.pool)

    def step(rate: float) -> tuple[float, float]:
        data, prompts, asked = scenes.batch(args.batch, fresh=max(1, args.batch // 2))
        encoded = nets.encode(prompts)
        flow, reading = flow_loss(nets, data, encoded), reader(encoded, asked)
        run.descend(flow + READING * reading, rate)
        return float(flow.detach()), float(reading.detach())

    train(run, step, args)


if __name__ == "__main__":
    main()
