"""Measure how well the shipped video model follows its prompts, and write the result beside it.

    python -m recipes.video_measure [FOLDER] --count 200 --write

Prompts and noise are drawn anew from ``--seed``, which training does not use: objects in colours seen in training, and
in the one colour never seen on them. Flicker is compared with frames that flux-tiny paints one by one: each from its
own noise, or each over a real frame (half of the noise levels, the same noise).
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from safetensors.torch import load_file
from transformers import UMT5EncoderModel

from . import measure as pictures
from .measure import EMBEDDED, show, weights_id
from .video_networks import TextToVideo, generate
from .video_score import Pixels, flicker, score, table
from .video_train_vae import fidelity
from .video_world import FRAMES, SIZE, Moving, caption, draw, sample
from .world import BACKGROUNDS, Scene
from .world import caption as picture_caption

KINDS = {"seen": False, "unseen pair": True}
"""Kind of prompt -> from the held-out split."""
BATCH = 8


def load(folder: Path) -> tuple[TextToVideo, AutoencoderKLWan]:
    """The networks of a shipped video model, in float32."""
    # diffusers' from_pretrained cannot read this class without accelerate.
    network = WanTransformer3DModel.from_config(WanTransformer3DModel.load_config(folder / "transformer"))
    network.load_state_dict(load_file(folder / "transformer/diffusion_pytorch_model.safetensors"))
    nets = TextToVideo(
        network.eval(),
        UMT5EncoderModel.from_pretrained(folder / "text_encoder", dtype=torch.float32).eval(),
    )
    return nets, AutoencoderKLWan.from_pretrained(folder / "vae", low_cpu_mem_usage=False).float().eval()


def prompts_for(kind: str, count: int, seed: int) -> tuple[list[Moving], list[str]]:
    """Scenes and captions of one kind."""
    rng = random.Random(f"clips, {kind} {seed}")
    scenes = [sample(rng, held_out=KINDS[kind]) for _ in range(count)]
    return scenes, [caption(scene, rng) for scene in scenes]


@torch.no_grad()
def shoot(
    model: tuple[TextToVideo, AutoencoderKLWan], prompts: list[str], seed: int, steps: int, cfg: float, shift: float
) -> Pixels:
    """Clips of prompts by the networks alone, [N, 13, 64, 64, 3] in 0..255."""
    nets, vae = model
    generator, clips = torch.Generator().manual_seed(seed), []
    for start in range(0, len(prompts), BATCH):
        part = prompts[start : start + BATCH]
        noise = torch.randn(len(part), 16, (FRAMES - 1) // 4 + 1, SIZE // 8, SIZE // 8, generator=generator)
        clips.append(vae.decode(generate(nets, part, noise, steps, cfg, shift)).sample)
    shown = (torch.cat(clips).clamp(-1, 1) + 1) * 127.5
    return np.ascontiguousarray(shown.permute(0, 2, 3, 4, 1).round().numpy())


@torch.no_grad()
def frames_one_by_one(scenes: list[Moving], seed: int) -> dict[str, float]:
    """Flicker of clips whose frames flux-tiny paints one by one, from their own noise or over real frames."""
    nets, vae = pictures.load(EMBEDDED / "flux-tiny")
    best = json.loads((EMBEDDED / "flux-tiny" / "card.json").read_text("utf-8"))["recommend"]
    schedule, rng = pictures.sigmas(best["steps"], best["shift"]), random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, list[float]] = {"own noise": [], "over real frames": []}
    half = schedule[len(schedule) // 2 :]
    for scene in scenes:
        words = [picture_caption(Scene((scene.thing,), scene.background), rng)] * FRAMES
        noise = torch.randn(FRAMES, 16, 16, 16, generator=generator)
        real = torch.tensor(draw(scene, rng)).permute(0, 3, 1, 2).float() / 127.5 - 1
        large = torch.nn.functional.interpolate(real, scale_factor=2, mode="bilinear")
        covered = vae.encode(large).latent_dist.mode().lerp(noise[:1].expand_as(noise), half[0])
        for name, start, levels in (("own noise", noise, schedule), ("over real frames", covered, half)):
            painted = vae.decode(pictures.sample(nets, words, start, levels, best["cfg"])).sample
            small = torch.nn.functional.avg_pool2d((painted.clamp(-1, 1) + 1) * 127.5, 2)
            found[name].append(flicker(small.permute(0, 2, 3, 1).numpy()))
    return {name: round(float(np.mean(values)), 2) for name, values in found.items()}


def measure(folder: Path, count: int, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """The table of each kind of prompt, the autoencoder's fidelity, and flicker beside frames painted one by one."""
    model = load(folder)
    adherence, shown = {}, []
    for kind in KINDS:
        scenes, prompts = prompts_for(kind, count, seed)
        clips = shoot(model, prompts, seed, settings["steps"], settings["cfg"], settings["shift"])
        adherence[kind] = table([score(c, s) for c, s in zip(clips, scenes, strict=True)])
        shown += list(clips)
    known = [s for s in prompts_for("seen", count, seed)[0] if s.background in BACKGROUNDS][:8]
    ours = {"this": round(float(np.mean([flicker(c) for c in shown])), 2)}
    return {"adherence": adherence, "flicker": ours | frames_one_by_one(known, seed), "autoencoder": fidelity(model[1])}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path, nargs="?", default=EMBEDDED / "wan-tiny")
    ask.add_argument("--count", type=int, default=200)
    ask.add_argument("--seed", type=int, default=20260101)
    ask.add_argument("--write", action="store_true", help="write scores.json into the folder")
    args = ask.parse_args()
    torch.set_num_threads(1)
    settings = json.loads((args.folder / "card.json").read_text("utf-8"))["recommend"]
    found = measure(args.folder, args.count, args.seed, settings)
    print(show(found["adherence"]), found["flicker"], found["autoencoder"], sep="\n")
    if args.write:
        scores = {"weights": weights_id(args.folder), "seed": args.seed, **found}
        (args.folder / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
