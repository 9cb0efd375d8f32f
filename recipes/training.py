"""What ``train_flux.py`` and ``video_train.py`` share: their state, its files, averages over processes, the loop.

One thread a process; several processes average their parameters every few steps (local SGD), so a busy machine does
not stall them. The state is a folder outside the repository with weights and optimizer state.
"""

import argparse
import copy
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor, nn


class Networks(Protocol):
    """Networks that are trained together."""

    def parts(self) -> dict[str, nn.Module]: ...


def save_weights(nets: Networks, path: Path, seen: int) -> None:
    """Write all networks into one fp16 safetensors file, keys ``<part>.<name>``."""
    state = {f"{n}.{k}": v.half().contiguous() for n, m in nets.parts().items() for k, v in m.state_dict().items()}
    state = {k: v for k, v in state.items() if not k.endswith("encoder.embed_tokens.weight")}  # tied to T5's shared
    temporary = path.with_suffix(".tmp")
    save_file(state, temporary, {"seen": str(seen)})
    temporary.replace(path)


def load_weights(nets: Networks, path: Path) -> None:
    """Read what :func:`save_weights` wrote; every key must be there."""
    state = load_file(path)
    for name, part in nets.parts().items():
        own = {k.removeprefix(f"{name}."): v.float() for k, v in state.items() if k.startswith(f"{name}.")}
        if "shared.weight" in own:
            own["encoder.embed_tokens.weight"] = own["shared.weight"]
        part.load_state_dict(own)


@dataclass
class Training:
    """Everything that a run changes, and that its state file keeps."""

    nets: Networks
    reader: nn.Module
    opts: list[torch.optim.Optimizer]
    seen: int = 0
    """Pictures or clips, of all processes."""

    def resume(self, state: Path) -> None:
        """Go on from a file that :meth:`save` wrote."""
        saved = torch.load(state, weights_only=True)
        for name, part in self.modules().items():
            part.load_state_dict(saved["nets"][name])
        for opt, kept in zip(self.opts, saved["optimizers"], strict=True):
            opt.load_state_dict(kept)
        self.seen = saved["seen"]

    def modules(self) -> dict[str, nn.Module]:
        return {**self.nets.parts(), "reader": self.reader}

    def parameters(self) -> list[nn.Parameter]:
        return [p for module in self.modules().values() for p in module.parameters()]

    def save(self, state: Path) -> None:
        nets = {name: module.state_dict() for name, module in self.modules().items()}
        saved = dict(nets=nets, optimizers=[o.state_dict() for o in self.opts], seen=self.seen)
        torch.save(saved, state.with_suffix(".tmp"))
        state.with_suffix(".tmp").replace(state)

    def descend(self, loss: Tensor, rate: float) -> None:
        """One step of all optimizers."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        for opt in self.opts:
            for group in opt.param_groups:
                group["lr"] = rate
            opt.step()
            opt.zero_grad()


def join(rank: int, world: int, port: int) -> None:
    """Meet the other processes of a run, if there are any."""
    if world > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", world_size=world, rank=rank)


def average(parameters: list[nn.Parameter], stop: bool) -> bool:
    """Average parameters over all processes; true when any of them wants to stop."""
    with torch.no_grad():
        flat = torch.cat([p.flatten() for p in parameters] + [torch.tensor([float(stop)])])
        dist.all_reduce(flat)
        flat[:-1] /= dist.get_world_size()
        for p, part in zip(parameters, flat[:-1].split([p.numel() for p in parameters]), strict=True):
            p.copy_(part.view_as(p))
    return bool(flat[-1] > 0)


def follow(slow: Networks, fast: Networks, count: int) -> None:
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


def cpu_ms(count: int) -> float:
    """Processor time of this process so far, in ms for each of ``count``."""
    use = resource.getrusage(resource.RUSAGE_SELF)
    return (use.ru_utime + use.ru_stime) / count * 1e3


def arguments(doc: str | None, *, batch: int, pool: int, port: int) -> argparse.ArgumentParser:
    """The options of a run, with the defaults that differ."""
    ask = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--minutes", type=float, default=90)
    ask.add_argument("--batch", type=int, default=batch)
    ask.add_argument("--rate", type=float, default=1.2e-3)
    ask.add_argument("--decay-from", type=float, default=0.6)
    ask.add_argument("--pool", type=int, default=pool)
    ask.add_argument("--rank", type=int, default=0)
    ask.add_argument("--world", type=int, default=1)
    ask.add_argument("--port", type=int, default=port)
    ask.add_argument("--every", type=int, default=10, help="steps between averages")
    return ask


def seed_of(run: Training, rank: int) -> int:
    """A seed that no other run or process has."""
    return run.seen * 8 + rank + int(time.time())


def train(run: Training, step: Callable[[float], tuple[float, float]], args: argparse.Namespace) -> None:
    """Take steps until the minutes are over; ``step`` takes a rate and gives the losses of flow and reading."""
    ema = copy.deepcopy(run.nets)
    join(args.rank, args.world, args.port)
    args.state.mkdir(parents=True, exist_ok=True)

    def save() -> None:
        if args.rank == 0:
            run.save(args.state / "train.pt")
            save_weights(ema, args.state / "weights.safetensors", run.seen)

    began, count, stop = time.time(), 0, False
    warm = 0 if run.seen == 0 else 40  # steps of warm-up that a resumed run has behind it
    losses: list[tuple[float, float]] = []
    while not stop:
        done = (time.time() - began) / 60 / args.minutes
        losses.append(step(args.rate * rate_at(done, warm + count, args.decay_from)))
        run.seen += args.batch * args.world
        count += 1
        if count % args.every == 0:
            stop = done >= 1
            if args.world > 1:
                stop = average(run.parameters(), stop)
            follow(ema, run.nets, count // args.every)
        if count % 50 == 0 and args.rank == 0:
            flow, reading = np.mean(losses, axis=0)
            cost, minutes = cpu_ms(count * args.batch), (time.time() - began) / 60
            print(f"{run.seen} flow {flow:.4f} reading {reading:.2f} min {minutes:.1f} cpu-ms {cost:.1f}", flush=True)
            losses.clear()
            if count % 100 == 0:
                save()
    save()
