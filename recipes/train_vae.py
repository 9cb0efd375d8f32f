"""Train the shipped autoencoder on 64-pixel crops of rendered scenes.

    python -m recipes.train_vae STATE --minutes 60

The latents are those of the linear codec: the encoder learns to give them, the decoder to undo them. So the
transformer's training does not wait for this one; and a decoder that sees neighbouring patches beats the linear one.
"""

import argparse
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file
from torch import Tensor

from .codec import LinearCodec
from .networks import autoencoder
from .render import draw
from .world import sample_scene

HERE = Path(__file__).parent
CROP = 64


def psnr(a: Tensor, b: Tensor) -> float:
    """Peak signal-to-noise ratio in dB of pictures in -1..1."""
    return -10 * math.log10(float((a.clamp(-1, 1) - b).pow(2).mean()) / 4)


def render(count: int, rng: random.Random, *, held_out: bool = False) -> Tensor:
    """Pictures [N, 3, 128, 128] in -1..1."""
    scenes = [np.asarray(draw(sample_scene(rng, held_out=held_out), rng)) for _ in range(count)]
    return torch.tensor(np.stack(scenes)).permute(0, 3, 1, 2).float() / 127.5 - 1


def crops(images: Tensor, rng: random.Random) -> Tensor:
    """One crop a picture, on the grid of 8-pixel patches."""
    out = []
    for image in images:
        y, x = (8 * rng.randrange((images.shape[-1] - CROP) // 8 + 1) for _ in range(2))
        out.append(image[:, y : y + CROP, x : x + CROP])
    return torch.stack(out)


def reconstruction_loss(got: Tensor, wanted: Tensor) -> Tensor:
    """L1 of the pixels and of their differences to the right and down: sharp edges count."""

    def gradients(t: Tensor) -> tuple[Tensor, Tensor]:
        return t[..., 1:] - t[..., :-1], t[..., 1:, :] - t[..., :-1, :]

    loss = (got - wanted).abs().mean()
    for a, b in zip(gradients(got), gradients(wanted), strict=True):
        loss = loss + (a - b).abs().mean()
    return loss


def seams(images: Tensor) -> float:
    """Mean step across the borders of 8-pixel columns over the mean step elsewhere; 1 for a picture without seams."""
    steps = (images[..., 1:] - images[..., :-1]).abs()
    border = torch.arange(steps.shape[-1]) % 8 == 7
    return float(steps[..., border].mean() / steps[..., ~border].mean())


@torch.no_grad()
def fidelity(net: AutoencoderKL, count: int = 32, seed: int = 5) -> dict[str, float]:
    """PSNR in dB and seams of the autoencoder, and of the linear codec, on held-out scenes."""
    images, codec = render(count, random.Random(seed), held_out=True), LinearCodec(HERE / "codec.npz")
    latents = codec.encode(images)
    whole, linear = net.decode(net.encode(images).latent_dist.mode()).sample, codec.decode(latents)
    return {
        "psnr": round(psnr(whole, images), 2),
        "decoder psnr": round(psnr(net.decode(latents).sample, images), 2),
        "codec psnr": round(psnr(linear, images), 2),
        "seams": round(seams(whole), 2),
        "codec seams": round(seams(linear), 2),
        "render seams": round(seams(images), 2),
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--start", type=Path)
    ask.add_argument("--minutes", type=float, default=60)
    ask.add_argument("--batch", type=int, default=8)
    ask.add_argument("--rate", type=float, default=2e-3)
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = random.Random(int(time.time()))
    net, codec = autoencoder(), LinearCodec(HERE / "codec.npz")
    if args.start:
        net.load_state_dict({k: v.float() for k, v in load_file(args.start).items()})
    opt = torch.optim.AdamW(net.parameters(), lr=args.rate, betas=(0.9, 0.99), weight_decay=0)
    args.state.mkdir(parents=True, exist_ok=True)
    pool = render(512, rng)
    began, step, losses = time.time(), 0, []
    while (done := (time.time() - began) / 60 / args.minutes) < 1:
        for group in opt.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 50) * (1 if done < 0.5 else max(0.02, 2 - 2 * done))
        pool[rng.sample(range(len(pool)), 4)] = render(4, rng)
        images = crops(pool[rng.sample(range(len(pool)), args.batch)], rng)
        latents = codec.encode(images)
        shown = latents + 0.03 * torch.randn_like(latents)
        loss = reconstruction_loss(net.decode(shown).sample, images)
        if step % 3 == 0:
            loss = loss + (net.encode(images).latent_dist.mode() - latents).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        step += 1
        losses.append(loss.item())
        if step % 100 == 0:
            words = fidelity(net) if step % 400 == 0 else ""
            print(f"{step} loss {np.mean(losses):.4f} minutes {(time.time() - began) / 60:.1f} {words}", flush=True)
            losses.clear()
        if step % 400 == 0:
            save_file(net.state_dict(), args.state / "vae.safetensors")
    save_file(net.state_dict(), args.state / "vae.safetensors")
    print(fidelity(net))


if __name__ == "__main__":
    main()
