"""Train the shipped style LoRA: flat colours and ink outlines, rank 8, in diffusers' key style.

    python -m recipes.train_lora --minutes 8
    python -m recipes.train_lora --minutes 0      (only measures)

The style is a filter over rendered scenes, so no second data set is needed: ``inked``.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from PIL import Image, ImageFilter
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipegraph.models.families.flux import pack

from .follow_up import EMBEDDED, Trainer, captioned, frozen_base, noised, prompt_ids
from .measure import draw, prompts_for
from .networks import TextToImage
from .render import draw as render
from .score import Pixels, score, table
from .world import Scene

OUT = EMBEDDED / "loras/flux-tiny-flat.safetensors"
RANK = 8
LAYERS = ("to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "proj_mlp", "proj_out", "net.2")
INK = (24, 22, 34)


def inked(picture: Image.Image) -> Image.Image:
    """The style: colours flattened by a median, dark outlines where the picture changes fast."""
    flat = picture.filter(ImageFilter.MedianFilter(5))
    pixels = np.asarray(flat).astype(np.float32)
    step = np.zeros(pixels.shape[:2], np.float32)
    step[1:] = np.abs(np.diff(pixels, axis=0)).sum(-1)
    step[:, 1:] += np.abs(np.diff(pixels, axis=1)).sum(-1)
    lines = Image.fromarray((np.clip(step / 110, 0, 1) * 255).astype(np.uint8)).filter(ImageFilter.MaxFilter(3))
    return Image.composite(Image.new("RGB", flat.size, INK), flat, lines)


def ink_share(pictures: Pixels) -> float:
    """The style's statistic: share of pixels darker than 60 of 255, of pictures [N, H, W, 3] in 0..255."""
    return float((pictures.mean(-1) < 60).mean())


class Adapters(nn.Module):
    """Low-rank side paths on the transformer's attention and feed-forward layers, added by forward hooks."""

    def __init__(self, transformer: nn.Module) -> None:
        super().__init__()
        self.down, self.up, self.names = nn.ParameterList(), nn.ParameterList(), list[str]()
        for name, layer in transformer.named_modules():
            if "blocks" in name and name.endswith(LAYERS) and isinstance(layer, nn.Linear):
                self.names.append(name)
                self.down.append(nn.Parameter(torch.randn(RANK, layer.in_features) / layer.in_features**0.5))
                self.up.append(nn.Parameter(torch.zeros(layer.out_features, RANK)))
                layer.register_forward_hook(self._hook(len(self.names) - 1))

    def _hook(self, i: int) -> Any:
        def add(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
            side: Tensor = inputs[0] @ self.down[i].T @ self.up[i].T
            return output + side

        return add

    def save(self, path: Path) -> None:
        state = {}
        for name, down, up in zip(self.names, self.down, self.up, strict=True):
            state[f"transformer.{name}.lora_A.weight"] = down.detach().half().contiguous()
            state[f"transformer.{name}.lora_B.weight"] = up.detach().half().contiguous()
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(state, path, {"lora_alpha": str(RANK)})

    def load(self, path: Path) -> None:
        state = load_file(path)
        for name, down, up in zip(self.names, self.down, self.up, strict=True):
            down.data.copy_(state[f"transformer.{name}.lora_A.weight"])
            up.data.copy_(state[f"transformer.{name}.lora_B.weight"])


def styled(pictures: Tensor) -> Tensor:
    """``inked`` for a batch [B, H, W, 3] in 0..1."""
    images = [Image.fromarray((p * 255).round().byte().numpy()) for p in pictures]
    return torch.tensor(np.stack([np.asarray(inked(i)) for i in images])).float() / 255


def train(model: tuple[TextToImage, AutoencoderKL], lora: Adapters, minutes: float, batch: int, rate: float) -> None:
    """Flow matching on filtered scenes; only the adapters learn."""
    nets, vae = model
    rng, trainer = random.Random(41), Trainer(lora.parameters(), rate, minutes)
    pool: list[tuple[Tensor, str]] = []
    while trainer.done < 1:
        pictures, prompts = captioned(batch // 2, rng)
        with torch.no_grad():
            latents = pack(vae.encode(styled(pictures).movedim(-1, 1) * 2 - 1).latent_dist.mode())
        pool += zip(latents, prompts, strict=True)
        part = rng.choices(pool, k=batch)
        with torch.no_grad():
            text = nets.encode(prompt_ids([p if rng.random() > 0.1 else "" for _, p in part]))
        x, sigma, wanted = noised(torch.stack([z for z, _ in part]))
        trainer.step((nets.velocity(x, sigma, text) - wanted).pow(2).mean())


def light_prompts(count: int) -> tuple[list[Scene], list[str]]:
    """One-object scenes on backgrounds that are not dark themselves, and their captions."""
    scenes, prompts = prompts_for("one object", 2 * count, 91)
    light = [i for i, s in enumerate(scenes) if s.background not in ("black", "at night")][:count]
    return [scenes[i] for i in light], [prompts[i] for i in light]


def judge(pictures: Pixels, scenes: list[Scene]) -> dict[str, Any]:
    """Style statistic and adherence."""
    verdicts = [score(p, s) for p, s in zip(pictures, scenes, strict=True)]
    return {"ink share": round(ink_share(pictures), 4), **table(verdicts)}


def target(count: int) -> dict[str, Any]:
    """The same for filtered renders: what a perfect LoRA would get from a scorer that knows no ink."""
    scenes, rng = light_prompts(count)[0], random.Random(1)
    return judge(np.stack([np.asarray(inked(render(s, rng)), np.float32) for s in scenes]), scenes)


def measure(model: tuple[TextToImage, AutoencoderKL], count: int, best: dict[str, Any]) -> dict[str, Any]:
    """Style statistic and adherence of the model as it is."""
    scenes, prompts = light_prompts(count)
    return judge(draw(model, prompts, 91, best["steps"], best["cfg"], best["shift"]), scenes)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--out", type=Path, default=OUT)
    ask.add_argument("--minutes", type=float, default=8)
    ask.add_argument("--batch", type=int, default=16)
    ask.add_argument("--rate", type=float, default=3e-3)
    ask.add_argument("--count", type=int, default=64, help="pictures to measure")
    args = ask.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(41)
    best = json.loads((EMBEDDED / "flux-tiny/card.json").read_text("utf-8"))["recommend"]
    model = frozen_base()
    result = {"filtered renders": target(args.count), "without": measure(model, args.count, best)}
    lora = Adapters(model[0].transformer)
    if args.minutes:
        train(model, lora, args.minutes, args.batch, args.rate)
        lora.save(args.out)
    lora.load(args.out)
    with torch.no_grad():
        result["with"] = measure(model, args.count, best)
    args.out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
