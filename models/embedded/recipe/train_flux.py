"""Train the shipped text-to-image networks (transformer, T5, CLIP together) on rendered scenes.

    python -m pipegraph.models.embedded.recipe.train_flux STATE --minutes 90 [--start WEIGHTS] [--rank 0 --world 2]

Flow matching (Lipman et al. 2022): x = (1 - sigma) data + sigma noise, the network predicts noise - data. One thread
a process; several processes average their parameters every few steps (local SGD), so a busy machine does not stall
them. STATE is a folder outside the repository with weights and optimizer state; ``--start`` takes fp16 weights.
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

from .codec import LinearCodec
from .muon import Muon
from .networks import TextToImage, clip_ids, pack, t5_ids
from .reading import NOTHING, Facts, Reader, facts
from .render import draw
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


def average(parameters: list[nn.Parameter], stop: bool) -> bool:
    """Average parameters over all processes; true when any of them wants to stop."""
    with torch.no_grad():
        flat = torch.cat([p.flatten() for p in parameters] + [torch.tensor([float(stop)])])
        dist.all_reduce(flat)
        flat[:-1] /= dist.get_world_size()
        for p, part in zip(parameters, flat[:-1].split([p.numel() for p in parameters]), strict=True):
            p.copy_(part.view_as(p))
    return bool(flat[-1] > 0)


def save_weights(nets: TextToImage, path: Path, pictures: int) -> None:
    """Write all three networks into one fp16 safetensors file, keys ``<part>.<name>``."""
    state = {f"{n}.{k}": v.half().contiguous() for n, m in nets.parts().items() for k, v in m.state_dict().items()}
    state = {k: v for k, v in state.items() if not k.endswith("encoder.embed_tokens.weight")}  # tied to t5.shared
    temporary = path.with_suffix(".tmp")
    save_file(state, temporary, {"pictures": str(pictures)})
    temporary.replace(path)


def load_weights(nets: TextToImage, path: Path) -> None:
    """Read what :func:`save_weights` wrote; every key must be there."""
    state = load_file(path)
    for name, part in nets.parts().items():
        own = {k.removeprefix(f"{name}."): v.float() for k, v in state.items() if k.startswith(f"{name}.")}
        if name == "t5":
            own["encoder.embed_tokens.weight"] = own["shared.weight"]
        part.load_state_dict(own)


@dataclass
class Training:
    """Everything that a run changes, and that its state file keeps."""

    nets: TextToImage
    reader: Reader
    opts: list[torch.optim.Optimizer]
    pictures: int = 0

    @classmethod
    def begin(cls, state: Path, start: Path | None, rate: float) -> "Training":
        """Resume from ``state``; else begin from fp16 weights, or from nothing."""
        nets, reader = TextToImage.fresh(), Reader(128)
        run = cls(nets, reader, optimizers(nets, reader, rate))
        if state.is_file():
            saved = torch.load(state, weights_only=True)
            for name, part in run.modules().items():
                part.load_state_dict(saved["nets"][name])
            for opt, kept in zip(run.opts, saved["optimizers"], strict=True):
                opt.load_state_dict(kept)
            run.pictures = saved["pictures"]
        elif start:
            load_weights(nets, start)
        return run

    def modules(self) -> dict[str, nn.Module]:
        return {**self.nets.parts(), "reader": self.reader}

    def parameters(self) -> list[nn.Parameter]:
        return [p for module in self.modules().values() for p in module.parameters()]

    def save(self, state: Path) -> None:
        nets = {name: module.state_dict() for name, module in self.modules().items()}
        saved = dict(nets=nets, optimizers=[o.state_dict() for o in self.opts], pictures=self.pictures)
        torch.save(saved, state.with_suffix(".tmp"))
        state.with_suffix(".tmp").replace(state)

    def step(self, scenes: Scenes, batch: int, rate: float) -> tuple[float, float]:
        """One step of all optimizers; returns the two losses."""
        data, prompts, asked = scenes.batch(batch, fresh=max(1, batch // 2))
        encoded = self.nets.encode(prompts)
        flow, reading = flow_loss(self.nets, data, encoded), self.reader(encoded, asked)
        (flow + READING * reading).backward()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        for opt in self.opts:
            for group in opt.param_groups:
                group["lr"] = rate
            opt.step()
            opt.zero_grad()
        self.pictures += batch
        return float(flow.detach()), float(reading.detach())


def follow(slow: TextToImage, fast: TextToImage, count: int) -> None:
    """Update the exponential moving average: the ``count``-th time, with a memory that grows to 50 updates."""
    keep = min(0.98, (count + 1) / (count + 20))
    with torch.no_grad():
        for name, part in slow.parts().items():
            for a, b in zip(part.parameters(), fast.parts()[name].parameters(), strict=True):
                a.lerp_(b, 1 - keep)


def rate_at(done: float, step: int, decay_from: float) -> float:
    """Warm-up over 40 steps, flat, then linear to 2 % from ``decay_from`` (share of the time) on."""
    flat = 1.0 if done < decay_from else max(0.02, 1 - (done - decay_from) / (1 - decay_from))
    return min(1.0, (step + 1) / 40) * flat


def arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--start", type=Path)
    ask.add_argument("--minutes", type=float, default=90)
    ask.add_argument("--batch", type=int, default=32)
    ask.add_argument("--rate", type=float, default=1.2e-3)
    ask.add_argument("--decay-from", type=float, default=0.6)
    ask.add_argument("--two", type=float, default=0.45, help="share of two-object scenes")
    ask.add_argument("--pool", type=int, default=20000)
    ask.add_argument("--rank", type=int, default=0)
    ask.add_argument("--world", type=int, default=1)
    ask.add_argument("--port", type=int, default=29777)
    ask.add_argument("--every", type=int, default=10, help="steps between averages")
    return ask.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = Training.begin(args.state / "train.pt", args.start, args.rate)
    ema = copy.deepcopy(run.nets)
    if args.world > 1:
        where = f"tcp://127.0.0.1:{args.port}"
        dist.init_process_group("gloo", init_method=where, world_size=args.world, rank=args.rank)
    seed = run.pictures * 8 + args.rank + int(time.time())
    torch.manual_seed(seed)
    scenes = Scenes(seed, args.two, args.pool)
    args.state.mkdir(parents=True, exist_ok=True)

    def save() -> None:
        if args.rank == 0:
            run.save(args.state / "train.pt")
            save_weights(ema, args.state / "weights.safetensors", run.pictures)

    began, step, stop = time.time(), 0, False
    warm = 0 if run.pictures == 0 else 40  # steps of warm-up that a resumed run has behind it
    losses: list[tuple[float, float]] = []
    while not stop:
        done = (time.time() - began) / 60 / args.minutes
        losses.append(run.step(scenes, args.batch, args.rate * rate_at(done, warm + step, args.decay_from)))
        run.pictures += args.batch * (args.world - 1)
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
            print(
                f"{run.pictures} flow {flow:.4f} reading {reading:.2f} min {minutes:.1f} cpu-ms {cost:.1f}", flush=True
            )
            losses.clear()
            if step % 100 == 0:
                save()
    save()


if __name__ == "__main__":
    main()
