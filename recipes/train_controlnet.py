"""Train the shipped edge ControlNet: one double and one single block copied from the base, on Canny edges.

    python -m recipes.train_controlnet --minutes 20
    python -m recipes.train_controlnet --minutes 0      (only measures)

The edges are those of the Canny node, encoded by the autoencoder and packed as FLUX's own ControlNets do.
"""

import argparse
import itertools
import json
import random
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, FluxControlNetModel
from torch import Tensor
from torch.nn.functional import max_pool2d

from pipegraph.models.families.flux import pack, position_ids, unpack
from pipegraph.models.media.image_ops import canny

from .export import edit_config
from .follow_up import EMBEDDED, Trainer, captioned, frozen_base, noised, prompt_ids
from .measure import sigmas
from .networks import TEXT_TOKENS, TextToImage
from .render import draw
from .score import score, table
from .world import caption, sample_scene

OUT = EMBEDDED / "controlnet/flux-tiny-edges"
LOW, HIGH = 0.4, 0.8
"""Thresholds of the Canny node's defaults."""
Condition = tuple[Tensor, Tensor]
"""T5's states and CLIP's pooled vector."""


def fresh(nets: TextToImage) -> FluxControlNetModel:
    """Copy the base's first blocks; its outputs start at zero, its view of the edges as the base's of the picture."""
    net = FluxControlNetModel.from_transformer(
        nets.transformer, num_layers=1, num_single_layers=1, attention_head_dim=32, num_attention_heads=6
    )
    net.controlnet_x_embedder.load_state_dict(nets.transformer.x_embedder.state_dict())
    return net.requires_grad_(True).train()


@torch.no_grad()
def hint(vae: AutoencoderKL, pictures: Tensor) -> Tensor:
    """Edges of pictures [B, H, W, 3] in 0..1 as packed latents."""
    edges = canny(pictures, LOW, HIGH)[:, None].expand(-1, 3, -1, -1)
    return pack(vae.encode(edges * 2 - 1).latent_dist.mode())


def controlled(
    nets: TextToImage, net: FluxControlNetModel, x: Tensor, sigma: Tensor, text: Condition, hints: Tensor
) -> Tensor:
    """The base's velocity with the ControlNet's residuals."""
    side = int(x.shape[1] ** 0.5)
    shared: dict[str, Any] = dict(
        hidden_states=x,
        encoder_hidden_states=text[0],
        pooled_projections=text[1],
        timestep=sigma,
        img_ids=position_ids(side, side),
        txt_ids=torch.zeros(TEXT_TOKENS, 3),
        return_dict=False,
    )
    double, single = net(controlnet_cond=hints, **shared)
    residuals = dict(controlnet_block_samples=double, controlnet_single_block_samples=single)
    velocity: Tensor = nets.transformer(**residuals, **shared)[0]
    return velocity


def train(
    nets: TextToImage, vae: AutoencoderKL, net: FluxControlNetModel, minutes: float, batch: int, rate: float
) -> None:
    """Flow matching with the base frozen; half the scenes of a batch are new."""
    rng, trainer = random.Random(31), Trainer(net.parameters(), rate, minutes)
    pool: list[tuple[Tensor, Tensor, str]] = []
    while trainer.done < 1:
        pictures, prompts = captioned(batch // 2, rng)
        with torch.no_grad():
            latents = pack(vae.encode(pictures.movedim(-1, 1) * 2 - 1).latent_dist.mode())
        pool += zip(latents, hint(vae, pictures), prompts, strict=True)
        part = rng.choices(pool, k=batch)
        words = [p if rng.random() > 0.1 else "" for _, _, p in part]
        with torch.no_grad():
            text = nets.encode(prompt_ids(words))
        x, sigma, wanted = noised(torch.stack([p[0] for p in part]))
        got = controlled(nets, net, x, sigma, text, torch.stack([p[1] for p in part]))
        trainer.step((got - wanted).pow(2).mean())


@torch.no_grad()
def sample(
    nets: TextToImage,
    net: FluxControlNetModel | None,
    prompts: list[str],
    hints: Tensor,
    noise: Tensor,
    steps: int,
    cfg: float,
    shift: float,
) -> Tensor:
    """Euler's method with guidance; the ControlNet acts on both halves, as in ControlNetApplyAdvanced."""
    states, pooled = nets.encode(prompt_ids([*prompts, *[""] * len(prompts)]))
    x, schedule, both = pack(noise), sigmas(steps, shift), torch.cat([hints, hints])
    for now, then in itertools.pairwise(schedule):
        xx, sigma = torch.cat([x, x]), torch.full((2 * len(x),), now)
        if net is None:
            velocity = nets.velocity(xx, sigma, (states, pooled))
        else:
            velocity = controlled(nets, net, xx, sigma, (states, pooled), both)
        wanted, empty = velocity.chunk(2)
        x = x + (then - now) * (empty + cfg * (wanted - empty))
    return unpack(x, noise.shape[-2], noise.shape[-1])


def edge_agreement(got: Tensor, wanted: Tensor) -> float:
    """F1 of two sets of edges [B, H, W]; an edge counts as found within 2 pixels."""
    near_got, near_wanted = (max_pool2d(e[:, None], 5, 1, 2)[:, 0] for e in (got, wanted))
    precision = float((got * near_wanted).sum() / got.sum().clamp(min=1))
    recall = float((wanted * near_got).sum() / wanted.sum().clamp(min=1))
    return 2 * precision * recall / max(precision + recall, 1e-9)


@torch.no_grad()
def measure(
    nets: TextToImage, vae: AutoencoderKL, net: FluxControlNetModel, count: int, best: dict[str, Any]
) -> dict[str, Any]:
    """Edge agreement and adherence with and without the ControlNet, same prompts, noise and settings."""
    rng, generator = random.Random(77), torch.Generator().manual_seed(77)
    scenes = [sample_scene(rng, two=0.25) for _ in range(count)]
    pictures = (
        torch.stack([torch.tensor(list(draw(s, rng).tobytes())).reshape(128, 128, 3) for s in scenes]).float() / 255
    )
    prompts, edges = [caption(s, rng) for s in scenes], canny(pictures, LOW, HIGH)
    hints, noise = hint(vae, pictures), torch.randn(count, 16, 16, 16, generator=generator)
    result: dict[str, Any] = {}
    for name, used in (("without", None), ("with", net)):
        latents = [
            sample(nets, used, prompts[part], hints[part], noise[part], best["steps"], best["cfg"], best["shift"])
            for part in (slice(i, i + 16) for i in range(0, count, 16))
        ]
        drawn = ((vae.decode(torch.cat(latents)).sample.clamp(-1, 1) + 1) / 2).movedim(1, -1)
        verdicts = [score((p * 255).numpy(), s) for p, s in zip(drawn, scenes, strict=True)]
        result[name] = {"edge F1": round(edge_agreement(canny(drawn, LOW, HIGH), edges), 3), **table(verdicts)}
    return result


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--out", type=Path, default=OUT)
    ask.add_argument("--minutes", type=float, default=20)
    ask.add_argument("--batch", type=int, default=16)
    ask.add_argument("--rate", type=float, default=8e-4)
    ask.add_argument("--count", type=int, default=96, help="pictures to measure")
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(31)
    nets, vae = frozen_base()
    if args.minutes:
        net = fresh(nets)
        train(nets, vae, net, args.minutes, args.batch, args.rate)
        net.half().save_pretrained(args.out)
        edit_config(args.out / "config.json")
    net = FluxControlNetModel.from_pretrained(args.out, low_cpu_mem_usage=False).float().eval()
    best = json.loads((EMBEDDED / "flux-tiny/card.json").read_text("utf-8"))["recommend"]
    result = measure(nets, vae, net, args.count, best)
    (args.out / "scores.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
