"""Measure how well a shipped model follows its prompts, and write the result beside it.

    python -m recipes.measure [FOLDER] --count 200 --cfg 3 1 --write

Prompts and noise are drawn anew from ``--seed``, which training does not use. Each kind of prompt is measured by
itself: one object in combinations seen in training, one object in a colour never seen on it, and two objects.
"""

import argparse
import hashlib
import itertools
import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from torch import Tensor
from transformers import CLIPTextModel, T5EncoderModel

from pipegraph.models import paths
from pipegraph.models.families.flux import pack, unpack
from pipegraph.models.loading.card import component

from .networks import DOWNSCALE, LATENT_CHANNELS, TextToImage, clip_ids, t5_ids
from .render import SIZE
from .score import Pixels, Verdict, score, table
from .train_vae import fidelity
from .world import HELD_OUT, Scene, caption, sample_scene

EMBEDDED = paths.EMBEDDED
KINDS = {"one object": (0.0, False), "unseen pair": (0.0, True), "two objects": (1.0, False)}
"""Kind of prompt -> (share of two-object scenes, from the held-out split)."""
BATCH = 20


def load(folder: Path) -> tuple[TextToImage, AutoencoderKL]:
    """The networks of a shipped model, in float32."""
    at = partial(component, folder)
    nets = TextToImage(
        FluxTransformer2DModel.from_pretrained(at("transformer"), low_cpu_mem_usage=False).float().eval(),
        T5EncoderModel.from_pretrained(at("text_encoder_2"), dtype=torch.float32).eval(),
        CLIPTextModel.from_pretrained(at("text_encoder"), dtype=torch.float32).eval(),
    )
    return nets, AutoencoderKL.from_pretrained(at("vae"), low_cpu_mem_usage=False).float().eval()


def prompts_for(kind: str, count: int, seed: int) -> tuple[list[Scene], list[str]]:
    """Scenes and captions of one kind."""
    rng = random.Random(f"{kind} {seed}")
    two, held_out = KINDS[kind]
    scenes = [sample_scene(rng, two=two, held_out=held_out) for _ in range(count)]
    assert held_out == any(t in HELD_OUT for s in scenes for t in s.things)
    return scenes, [caption(scene, rng) for scene in scenes]


def sigmas(steps: int, shift: float) -> list[float]:
    """ComfyUI's "simple" schedule of a flow model: steps + 1 falling values from 1 to 0."""
    even = [1 - i / steps for i in range(steps + 1)]
    return [shift * s / (1 + (shift - 1) * s) for s in even]


@torch.no_grad()
def sample(nets: TextToImage, prompts: list[str], noise: Tensor, schedule: list[float], cfg: float) -> Tensor:
    """Euler's method with classifier-free guidance; noise and result are latents [B, 16, H/8, W/8]."""
    ids = torch.tensor([t5_ids(p) for p in prompts]), torch.tensor([clip_ids(p) for p in prompts])
    states, pooled = nets.encode(ids)
    if cfg != 1:
        empty = nets.encode((torch.tensor([t5_ids("")]), torch.tensor([clip_ids("")])))
        states = torch.cat([states, empty[0].expand_as(states)])
        pooled = torch.cat([pooled, empty[1].expand_as(pooled)])
    x = pack(noise)
    for now, then in itertools.pairwise(schedule):
        both = torch.cat([x, x]) if cfg != 1 else x
        velocity = nets.velocity(both, torch.full((len(both),), now), (states, pooled))
        if cfg != 1:
            wanted, empty_velocity = velocity.chunk(2)
            velocity = empty_velocity + cfg * (wanted - empty_velocity)
        x = x + (then - now) * velocity
    return unpack(x, noise.shape[-2], noise.shape[-1])


@torch.no_grad()
def draw(
    model: tuple[TextToImage, AutoencoderKL], prompts: list[str], seed: int, steps: int, cfg: float, shift: float
) -> Pixels:
    """Pictures of prompts by the networks alone, [N, 128, 128, 3] in 0..255."""
    nets, vae = model
    generator = torch.Generator().manual_seed(seed)
    side, pictures = SIZE // DOWNSCALE, []
    for start in range(0, len(prompts), BATCH):
        part = prompts[start : start + BATCH]
        noise = torch.randn(len(part), LATENT_CHANNELS, side, side, generator=generator)
        latents = sample(nets, part, noise, sigmas(steps, shift), cfg)
        pictures.append(vae.decode(latents).sample)
    pixels = (torch.cat(pictures).clamp(-1, 1) + 1) * 127.5
    return np.ascontiguousarray(pixels.permute(0, 2, 3, 1).round().numpy())


def measure(
    model: tuple[TextToImage, AutoencoderKL],
    count: int,
    seed: int,
    steps: int,
    cfg: float,
    shift: float,
    kinds: list[str],
) -> dict[str, dict[str, dict[str, float]]]:
    """The table of each kind of prompt."""
    result = {}
    for kind in kinds:
        scenes, prompts = prompts_for(kind, count, seed)
        pictures = draw(model, prompts, seed, steps, cfg, shift)
        verdicts: list[Verdict] = [score(p, s) for p, s in zip(pictures, scenes, strict=True)]
        result[kind] = table(verdicts)
    return result


def weights_id(folder: Path) -> str:
    """Which weights a score belongs to: the start of the SHA-256 of the transformer's file."""
    return hashlib.sha256((folder / "transformer/diffusion_pytorch_model.safetensors").read_bytes()).hexdigest()[:16]


def record(folder: Path, vae: AutoencoderKL, results: dict[str, Any]) -> None:
    """Add results to ``scores.json``, which starts anew when the weights have changed."""
    path, weights = folder / "scores.json", weights_id(folder)
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if known.get("weights") != weights:
        known = {"weights": weights, "autoencoder": fidelity(vae), "adherence": {}}
    for setting, kinds in results.items():
        known["adherence"].setdefault(setting, {}).update(kinds)
    path.write_text(json.dumps(known, indent=1) + "\n", "utf-8")


def show(result: dict[str, Any]) -> str:
    """One line a kind: share (lower end of the 95 % interval) of each thing judged."""
    lines = []
    for kind, rows in result.items():
        cells = [f"{name} {row['share']:.3f} ({row['low']:.3f})" for name, row in rows.items()]
        lines.append(f"{kind:12} {'  '.join(cells)}  of {rows['exact']['of']}")
    return "\n".join(lines)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path, nargs="?", default=EMBEDDED / "flux-tiny")
    ask.add_argument("--count", type=int, default=200)
    ask.add_argument("--seed", type=int, default=20260101)
    ask.add_argument("--cfg", type=float, nargs="*", help="default: the recommendation, and 1")
    ask.add_argument("--steps", type=int)
    ask.add_argument("--shift", type=float)
    ask.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    ask.add_argument("--write", action="store_true", help="write scores.json into the folder")
    args = ask.parse_args()
    torch.set_num_threads(1)
    best = json.loads((args.folder / "card.json").read_text("utf-8"))["recommend"]
    steps, shift = args.steps or best["steps"], args.shift or best["shift"]
    model, results = load(args.folder), {}
    for cfg in args.cfg or dict.fromkeys([best["cfg"], 1.0]):
        began = time.time()
        name = f"steps {steps}, cfg {cfg:g}, shift {shift:g}"
        results[name] = measure(model, args.count, args.seed, steps, cfg, shift, args.kinds)
        print(f"{name} ({time.time() - began:.0f} s)\n{show(results[name])}", flush=True)
    if args.write:
        record(args.folder, model[1], results)


if __name__ == "__main__":
    main()
