"""Train the shipped text-to-video networks (transformer and text encoder together) on moving scenes.

    python -m pipegraph.models.embedded.recipe.video_train STATE --minutes 90 [--rank 0 --world 2]

As ``train_flux.py``: flow matching on the linear codec's latents, one thread a process, several processes average
their parameters every few steps. Linear heads, thrown away afterwards, read object, colour, motion and background from
the state of the prompt's end, so that the text encoder tells them apart. It goes on from what STATE holds.
"""

import argparse
import copy
import random
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .muon import Muon
from .train_flux import average, rate_at
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


def save_weights(nets: TextToVideo, path: Path, seen: int) -> None:
    """Write both networks into one fp16 safetensors file, keys ``<part>.<name>``."""
    state = {f"{n}.{k}": v.half().contiguous() for n, m in nets.parts().items() for k, v in m.state_dict().items()}
    state = {k: v for k, v in state.items() if not k.endswith("encoder.embed_tokens.weight")}  # tied to shared
    save_file(state, path.with_suffix(".tmp"), {"clips": str(seen)})
    path.with_suffix(".tmp").replace(path)


def load_weights(nets: TextToVideo, path: Path) -> None:
    """Read what :func:`save_weights` wrote; every key must be there."""
    state = load_file(path)
    for name, part in nets.parts().items():
        own = {k.removeprefix(f"{name}."): v.float() for k, v in state.items() if k.startswith(f"{name}.")}
        if name == "text":
            own["encoder.embed_tokens.weight"] = own["shared.weight"]
        part.load_state_dict(own)


@dataclass
class Training:
    """Everything that a run changes, and that its state file keeps."""

    nets: TextToVideo
    reader: Reader
    opts: list[torch.optim.Optimizer]
    seen: int = 0

    @classmethod
    def begin(cls, state: Path, rate: float) -> "Training":
        """Resume from ``state``, else begin from nothing."""
        nets, reader = TextToVideo.fresh(), Reader(128)
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = [*reader.parameters(), *nets.text.parameters()]
        for key, p in nets.transformer.named_parameters():
            (matrices if key.startswith("blocks.") and p.ndim == 2 else rest).append(p)
        adam = torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.01)
        run = cls(nets, reader, [Muon(matrices, lr=rate), adam])
        if state.is_file():
            saved = torch.load(state, weights_only=True)
            for name, part in run.modules().items():
                part.load_state_dict(saved["nets"][name])
            for opt, kept in zip(run.opts, saved["optimizers"], strict=True):
                opt.load_state_dict(kept)
            run.seen = saved["seen"]
        return run

    def modules(self) -> dict[str, nn.Module]:
        return {**self.nets.parts(), "reader": self.reader}

    def parameters(self) -> list[nn.Parameter]:
        return [p for module in self.modules().values() for p in module.parameters()]

    def save(self, state: Path) -> None:
        nets = {name: module.state_dict() for name, module in self.modules().items()}
        saved = dict(nets=nets, optimizers=[o.state_dict() for o in self.opts], seen=self.seen)
        torch.save(saved, state.with_suffix(".tmp"))
        state.with_suffix(".tmp").replace(state)

    def step(self, scenes: Clips, batch: int, rate: float) -> tuple[float, float]:
        """One step of all optimizers; returns the two losses."""
        data, prompts, asked = scenes.batch(batch)
        states, ends = self.nets.encode(prompts)
        flow, reading = flow_loss(self.nets, data, states), self.reader(ends, asked)
        (flow + READING * reading).backward()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        for opt in self.opts:
            for group in opt.param_groups:
                group["lr"] = rate
            opt.step()
            opt.zero_grad()
        self.seen += batch
        return float(flow.detach()), float(reading.detach())


def follow(slow: TextToVideo, fast: TextToVideo, count: int) -> None:
    """Update the exponential moving average: the ``count``-th time, with a memory that grows to 50 updates."""
    keep = min(0.98, (count + 1) / (count + 20))
    with torch.no_grad():
        for name, part in slow.parts().items():
            for a, b in zip(part.parameters(), fast.parts()[name].parameters(), strict=True):
                a.lerp_(b, 1 - keep)


def arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--minutes", type=float, default=90)
    ask.add_argument("--batch", type=int, default=16)
    ask.add_argument("--rate", type=float, default=1.2e-3)
    ask.add_argument("--decay-from", type=float, default=0.6)
    ask.add_argument("--pool", type=int, default=8000)
    ask.add_argument("--rank", type=int, default=0)
    ask.add_argument("--world", type=int, default=1)
    ask.add_argument("--port", type=int, default=29779)
    ask.add_argument("--every", type=int, default=10, help="steps between averages")
    return ask.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = Training.begin(args.state / "train.pt", args.rate)
    ema = copy.deepcopy(run.nets)
    if args.world > 1:
        where = f"tcp://127.0.0.1:{args.port}"
        dist.init_process_group("gloo", init_method=where, world_size=args.world, rank=args.rank)
    seed = run.seen * 8 + args.rank + int(time.time())
    torch.manual_seed(seed)
    scenes = Clips(seed, args.pool)
    args.state.mkdir(parents=True, exist_ok=True)

    def save() -> None:
        if args.rank == 0:
            run.save(args.state / "train.pt")
            save_weights(ema, args.state / "weights.safetensors", run.seen)

    began, step, stop = time.time(), 0, False
    warm = 0 if run.seen == 0 else 40  # steps of warm-up that a resumed run has behind it
    losses: list[tuple[float, float]] = []
    while not stop:
        done = (time.time() - began) / 60 / args.minutes
        losses.append(run.step(scenes, args.batch, args.rate * rate_at(done, warm + step, args.decay_from)))
        run.seen += args.batch * (args.world - 1)
        step += 1
        if step % args.every == 0:
            stop = done >= 1
            if args.world > 1:
                stop = average(run.parameters(), stop)
            follow(ema, run.nets, step // args.every)
        if step % 50 == 0 and args.rank == 0:
            flow, reading = np.mean(losses, axis=0)
            use = resource.getrusage(resource.RUSAGE_SELF)
            cost = (use.ru_utime + use.ru_stime) / (step * args.batch) * 1e3
            minutes = (time.time() - began) / 60
            print(f"{run.seen} flow {flow:.4f} reading {reading:.2f} min {minutes:.1f} cpu-ms {cost:.1f}", flush=True)
            losses.clear()
            if step % 100 == 0:
                save()
    save()


if __name__ == "__main__":
    main()
