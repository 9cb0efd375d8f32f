"""Teach the text encoders alone to read captions, before or between runs of ``train_flux`` on the same STATE.

    python -m recipes.train_text STATE --batches 1200

A caption costs a fortieth of a picture. Encoders that pictures were trained with stay near what they said before:
their states are changed by about a hundredth of their variance, and the transformer adapts within minutes.
"""

import argparse
import copy
import random
from pathlib import Path

import torch
from torch import Tensor, nn

from .networks import clip_ids, t5_ids
from .reading import Facts, facts
from .train_flux import SIZES, begin
from .world import caption, sample_scene

KEEP = 3.0
"""Weight of the change of the states, relative to their variance, in the loss."""


def captions(rng: random.Random, count: int) -> tuple[tuple[Tensor, Tensor], list[Facts]]:
    """(T5 ids, CLIP ids), each [count, 16], and facts of random captions, most of them of two objects."""
    scenes = [sample_scene(rng, two=0.75, sizes=SIZES) for _ in range(count)]
    words = [caption(scene, rng) for scene in scenes]
    ids = torch.tensor([t5_ids(w) for w in words]), torch.tensor([clip_ids(w) for w in words])
    return ids, [facts(s, w) for s, w in zip(scenes, words, strict=True)]


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--batches", type=int, default=1200)
    ask.add_argument("--rate", type=float, default=1e-3)
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    run, nets, reader = begin(args.state / "train.pt", None, args.rate)
    before = copy.deepcopy(nets)
    parameters = [p for part in (nets.t5, nets.clip, reader) for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=args.rate, betas=(0.9, 0.98), weight_decay=0.01)
    for step in range(args.batches):
        ids, asked = captions(rng, 64)
        encoded = nets.encode(ids)
        loss = reader(encoded, asked)
        if run.seen:
            with torch.no_grad():
                old = before.encode(ids)
            loss = loss + KEEP * sum((a - b).pow(2).mean() / b.var() for a, b in zip(encoded, old, strict=True))
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        done = step / args.batches
        optimizer.param_groups[0]["lr"] = args.rate * min(1.0, (step + 1) / 20, 2 * (1 - done))
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 99:
            with torch.no_grad():
                print(step + 1, f"{float(loss.detach()):.3f}", reader.accuracy(encoded, asked), flush=True)
    args.state.mkdir(parents=True, exist_ok=True)
    run.save(args.state / "train.pt")


if __name__ == "__main__":
    main()
