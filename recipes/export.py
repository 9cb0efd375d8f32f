"""Write trained weights as a diffusers folder: what ``FluxPipeline.from_pretrained`` and pipegraph load.

    python -m recipes.export WEIGHTS VAE [OUT]

WEIGHTS is ``weights.safetensors`` of train_flux, VAE ``vae.safetensors`` of train_vae, OUT the folder to write
(default: the shipped one). Weights are stored as float16 and meant to be computed in float32.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline
from safetensors.torch import load_file
from torch import nn

from pipegraph.models import paths

from .networks import TEXT_TOKENS, VOCABULARY, TextToImage, autoencoder
from .tokenizer import clip_tokenizer, t5_tokenizer
from .training import load_weights
from .world import BACKGROUNDS, COLOURS, OBJECTS, SPECIAL_TOKENS, SYNONYMS

EMBEDDED = paths.EMBEDDED
SHIFT = 1.5
"""Shift of the noise schedule: sigma -> shift sigma / (1 + (shift - 1) sigma)."""
RECOMMEND: dict[str, Any] = {
    "steps": 12,
    "cfg": 4.0,
    "guidance": 1.0,
    "width": 128,
    "height": 128,
    "sampler_name": "euler",
    "scheduler": "simple",
    "shift": SHIFT,
    "base_shift": 0.405465,
    "max_shift": 0.405465,
}
"""Measured best setting. ``base_shift`` and ``max_shift`` are log(shift), in ModelSamplingFlux's terms; ``guidance``
has no effect, because the network embeds none."""


def load_autoencoder(path: Path) -> AutoencoderKL:
    """The autoencoder with the weights that train_vae wrote, in float32."""
    net = autoencoder()
    net.load_state_dict({k: v.float() for k, v in load_file(path).items()})
    return net.eval()


def pipeline(nets: TextToImage, vae: AutoencoderKL) -> FluxPipeline:
    """Pipeline of diffusers with the networks, which must not be trained afterwards."""
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT, use_dynamic_shifting=False),
        vae=vae,
        text_encoder=nets.clip,
        tokenizer=clip_tokenizer(),
        text_encoder_2=nets.t5,
        tokenizer_2=t5_tokenizer(),
        transformer=nets.transformer,
    )


def card(recommend: dict[str, Any], base: str | None = None) -> dict[str, Any]:
    """What programs need to know of a model: whose parts it shares, its best settings and its words."""
    return ({"base": base} if base else {}) | {
        "recommend": recommend,
        "text_tokens": TEXT_TOKENS,
        "objects": OBJECTS,
        "colours": COLOURS,
        "backgrounds": BACKGROUNDS,
        "vocabulary": [w for w in VOCABULARY if w not in SPECIAL_TOKENS],
        "synonyms": SYNONYMS,
        "license": "Apache-2.0; trained on pictures composed of Fluent Emoji (MIT, Microsoft Corporation)",
    }


def edit_config(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file, and forget the folder that the network was once read from."""
    config = json.loads(path.read_text("utf-8")) | changes
    config.pop("_name_or_path", None)
    path.write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _any_transformers(folder: Path) -> None:
    """Make transformers 4 and 5 read the folder alike: the tokenizers' class, and float32 whatever is stored."""
    fast = "PreTrainedTokenizerFast"
    edit_config(folder / "model_index.json", tokenizer=["transformers", fast], tokenizer_2=["transformers", fast])
    for name in ("tokenizer", "tokenizer_2"):
        edit_config(folder / name / "tokenizer_config.json", tokenizer_class=fast)
    for name in ("text_encoder", "text_encoder_2"):
        edit_config(folder / name / "config.json", dtype="float32", torch_dtype="float32")


def write(nets: TextToImage, vae: AutoencoderKL, out: Path, recommend: dict[str, Any], base: str | None = None) -> None:
    """Write the folder: networks as float16, tokenizers, scheduler, ``card.json``.

    With ``base`` only the transformer and the scheduler are written; all else is that shipped model's.
    """
    modules: list[nn.Module] = [nets.transformer, nets.t5, nets.clip, vae]
    for module in modules:
        module.half()
    pipeline(nets, vae).save_pretrained(out, safe_serialization=True)
    _any_transformers(out)
    for name in ("transformer", "vae"):
        edit_config(out / name / "config.json")
    if base:
        for name in ("vae", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2"):
            shutil.rmtree(out / name)
    (out / "card.json").write_text(json.dumps(card(recommend, base), indent=1) + "\n", "utf-8")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("weights", type=Path)
    ask.add_argument("vae", type=Path)
    ask.add_argument("out", type=Path, nargs="?", default=EMBEDDED / "flux-tiny")
    args = ask.parse_args()
    nets = TextToImage.fresh()
    load_weights(nets, args.weights)
    with torch.no_grad():
        write(nets, load_autoencoder(args.vae), args.out, RECOMMEND)


if __name__ == "__main__":
    main()
