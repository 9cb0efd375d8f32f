"""Distil the base with guidance into a network that needs 4 steps and no guidance.

    python -m recipes.distill STATE --minutes 20 --gather 8

The 12-step path of the guided base is cut into 4 segments of 3 steps. First the base walks whole paths from pure
noise (``--gather`` minutes; kept in STATE), then a copy of it learns to jump each segment in one step. The states that
the copy meets in use are nearly the ones it learned on, and a path serves all four segments.
"""

import argparse
import itertools
import random
import time
from pathlib import Path

import torch
from torch import Tensor

from .export import RECOMMEND, write
from .follow_up import BASE, EMBEDDED, Trainer, frozen_base, prompt_ids
from .measure import sigmas
from .networks import TextToImage
from .train_flux import SIZES
from .world import caption, sample_scene

OUT = EMBEDDED / "flux-tiny-schnell"
SEGMENTS, SUBSTEPS = 4, 3


@torch.no_grad()
def walk(nets: TextToImage, prompts: list[str], cfg: float, schedule: list[float]) -> Tensor:
    """States of guided paths at the ends of segments, [B, SEGMENTS + 1, 64, 64]."""
    states, pooled = nets.encode(prompt_ids([*prompts, *[""] * len(prompts)]))
    x = torch.randn(len(prompts), 64, 64)
    path = [x]
    for i, (now, then) in enumerate(itertools.pairwise(schedule)):
        velocity = nets.velocity(torch.cat([x, x]), torch.full((2 * len(x),), now), (states, pooled))
        wanted, empty = velocity.chunk(2)
        x = x + (then - now) * (empty + cfg * (wanted - empty))
        if i % SUBSTEPS == SUBSTEPS - 1:
            path.append(x)
    return torch.stack(path, 1)


def gather(nets: TextToImage, file: Path, minutes: float, cfg: float, seed: int) -> None:
    """Walk paths for some minutes and write them, with their prompts, as float16."""
    rng, began, batch = random.Random(seed), time.time(), 16
    schedule = sigmas(SEGMENTS * SUBSTEPS, RECOMMEND["shift"])
    paths, prompts = list[Tensor](), list[str]()
    while time.time() - began < minutes * 60:
        words = [caption(sample_scene(rng, sizes=SIZES), rng) for _ in range(batch)]
        paths.append(walk(nets, words, cfg, schedule).half())
        prompts += words
    print(f"{len(prompts)} paths", flush=True)
    torch.save({"paths": torch.cat(paths), "prompts": prompts}, file)


def train(student: TextToImage, files: list[Path], minutes: float, batch: int, rate: float) -> None:
    """The student's velocity at the start of a segment is to reach the segment's end in one step."""
    saved = [torch.load(f, weights_only=True) for f in files]
    paths = torch.cat([s["paths"] for s in saved])
    prompts = [p for s in saved for p in s["prompts"]]
    schedule = sigmas(SEGMENTS, RECOMMEND["shift"])
    rng, trainer = random.Random(51), Trainer(student.transformer.parameters(), rate, minutes)
    while trainer.done < 1:
        index = [rng.randrange(len(prompts)) for _ in range(batch)]
        segment = torch.tensor([rng.choice((0, 0, 1, 2, 3)) for _ in range(batch)])  # the first is the hardest
        now, then = torch.tensor(schedule)[segment], torch.tensor(schedule)[segment + 1]
        x, end = paths[index, segment].float(), paths[index, segment + 1].float()
        with torch.no_grad():
            text = student.encode(prompt_ids([prompts[i] for i in index]))
        wanted = (end - x) / (then - now)[:, None, None]
        trainer.step((student.velocity(x, now, text) - wanted).pow(2).mean())


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--gather", type=float, default=8, help="minutes of walking; 0 uses what STATE has")
    ask.add_argument("--minutes", type=float, default=20, help="minutes of training; 0 only walks")
    ask.add_argument("--seed", type=int, default=1, help="another seed, another file of paths")
    ask.add_argument("--batch", type=int, default=32)
    ask.add_argument("--rate", type=float, default=4e-4)
    ask.add_argument("--out", type=Path, default=OUT)
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    args.state.mkdir(parents=True, exist_ok=True)
    nets, vae = frozen_base(BASE)
    if args.gather:
        gather(nets, args.state / f"paths{args.seed}.pt", args.gather, RECOMMEND["cfg"], args.seed)
    if args.minutes:
        nets.transformer.requires_grad_(True)
        train(nets, sorted(args.state.glob("paths*.pt")), args.minutes, args.batch, args.rate)
        write(nets, vae, args.out, RECOMMEND | {"steps": SEGMENTS, "cfg": 1.0}, base="embedded/flux-tiny")


if __name__ == "__main__":
    main()
