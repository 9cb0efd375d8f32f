"""Train the shipped video autoencoder on crops of moving scenes.

    python -m recipes.video_train_vae STATE --minutes 60 [--rank 0 --world 2]

As ``train_vae.py``: the latents are those of the linear codec; the encoder learns to give them, the decoder to undo
them. One thread a process; several average their parameters. It goes on from what STATE holds.
"""

import argparse
import random
import time
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from safetensors.torch import save_file
from torch import Tensor

from .training import average, cpu_ms, join
from .video_codec import VideoCodec, clips, psnr
from .video_networks import autoencoder

CROP, LENGTH = 32, 9
"""Side and frames of a crop."""


def crop(pool: Tensor, count: int, rng: random.Random) -> Tensor:
    """Crops [count, 3, 9, 32, 32] of clips, on the grid of 8-pixel patches, from any frame on."""
    out = []
    for clip in pool[rng.sample(range(len(pool)), count)]:
        y, x = (8 * rng.randrange((clip.shape[-1] - CROP) // 8 + 1) for _ in range(2))
        at = rng.randrange(clip.shape[1] - LENGTH + 1)
        out.append(clip[:, at : at + LENGTH, y : y + CROP, x : x + CROP])
    return torch.stack(out)


def reconstruction_loss(got: Tensor, wanted: Tensor) -> Tensor:
    """L1 of the pixels and of their differences to the right, down and to the next frame."""
    loss = (got - wanted).abs().mean()
    for axis in (2, 3, 4):
        loss = loss + (got.diff(dim=axis) - wanted.diff(dim=axis)).abs().mean()
    return loss


@torch.no_grad()
def fidelity(net: AutoencoderKLWan, count: int = 12) -> dict[str, float]:
    """PSNR in dB on held-out scenes: encoded and decoded, decoded from the codec's latents, and the codec alone."""
    wanted, codec = clips(count, random.Random(5), held_out=True), VideoCodec()
    latents = codec.encode(wanted)
    whole, decoded = net.decode(net.encode(wanted).latent_dist.mode()).sample, net.decode(latents).sample
    found = {"whole": whole, "decoder": decoded, "codec": codec.decode(latents)}
    return {name: round(psnr(got, wanted), 2) for name, got in found.items()}


def arguments() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--minutes", type=float, default=60)
    ask.add_argument("--batch", type=int, default=6)
    ask.add_argument("--rate", type=float, default=2e-3)
    ask.add_argument("--rank", type=int, default=0)
    ask.add_argument("--world", type=int, default=1)
    ask.add_argument("--port", type=int, default=29778)
    ask.add_argument("--every", type=int, default=10, help="steps between averages")
    return ask.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, codec, file = autoencoder(), VideoCodec(), args.state / "train.pt"
    opt = torch.optim.AdamW(net.parameters(), lr=args.rate, betas=(0.9, 0.99), weight_decay=0)
    args.state.mkdir(parents=True, exist_ok=True)
    seen = 0
    if file.is_file():
        saved = torch.load(file, weights_only=True)
        net.load_state_dict(saved["net"])
        opt.load_state_dict(saved["optimizer"])
        seen = saved["seen"]
    join(args.rank, args.world, args.port)
    rng = random.Random(seen + args.rank + int(time.time()))

    def save() -> None:
        if args.rank == 0:
            torch.save(dict(net=net.state_dict(), optimizer=opt.state_dict(), seen=seen), file.with_suffix(".tmp"))
            file.with_suffix(".tmp").replace(file)
            save_file({k: v.contiguous() for k, v in net.state_dict().items()}, args.state / "vae.safetensors")

    pool = clips(256, rng)
    began, step, stop = time.time(), 0, False
    losses: list[float] = []
    while not stop:
        done = (time.time() - began) / 60 / args.minutes
        for group in opt.param_groups:
            group["lr"] = args.rate * min(1, (step + 1) / 50) * (1 if done < 0.5 else max(0.02, 2 - 2 * done))
        pool[rng.sample(range(len(pool)), 2)] = clips(2, rng)
        wanted = crop(pool, args.batch, rng)
        latents = codec.encode(wanted)
        loss = reconstruction_loss(net.decode(latents + 0.03 * torch.randn_like(latents)).sample, wanted)
        if step % 3 == 0:
            loss = loss + (net.encode(wanted).latent_dist.mode() - latents).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        step += 1
        seen += args.batch * args.world
        losses.append(loss.item())
        if step % args.every == 0:
            stop = done >= 1
            if args.world > 1:
                stop = average([*net.parameters()], stop)
        if step % 100 == 0 and args.rank == 0:
            cost = cpu_ms(step * args.batch)
            words = fidelity(net) if step % 400 == 0 else ""
            minutes = (time.time() - began) / 60
            print(f"{seen} loss {np.mean(losses):.4f} min {minutes:.1f} cpu-ms {cost:.1f} {words}", flush=True)
            losses.clear()
            save()
    save()
    if args.rank == 0:
        print(fidelity(net))


if __name__ == "__main__":
    main()
