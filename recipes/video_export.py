"""Write trained weights as a diffusers folder: what ``WanPipeline.from_pretrained`` and pipegraph load.

    python -m recipes.video_export WEIGHTS VAE [OUT]

WEIGHTS is ``weights.safetensors`` of video_train, VAE ``vae.safetensors`` of video_train_vae, OUT the folder to write
(default: the shipped one). Weights are stored as float16 and meant to be computed in float32.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, WanPipeline
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase, Replace, Sequence
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from pipegraph.models import paths

from .training import load_weights
from .video_networks import TextToVideo, autoencoder
from .video_world import BACKGROUNDS, FPS, FRAMES, OBJECTS, SIZE, SYNONYMS, TOKEN_ID, TOKENS, WORDS
from .world import COLOURS, SPECIAL_TOKENS

EMBEDDED = paths.EMBEDDED
SHIFT = 2.0
RECOMMEND: dict[str, Any] = {
    "steps": 12,
    "cfg": 4.0,
    "width": SIZE,
    "height": SIZE,
    "length": FRAMES,
    "fps": float(FPS),
    "sampler_name": "euler",
    "scheduler": "simple",
    "shift": SHIFT,
}


def tokenizer() -> PreTrainedTokenizerFast:
    """The library's form of ``video_world.ids``: words, ``</s>``, padding."""
    words = Tokenizer(WordLevel(TOKEN_ID, unk_token="<unk>"))
    whole = r"(?<![a-z\-]){}(?![a-z\-])"
    words.normalizer = Sequence([Lowercase(), *(Replace(Regex(whole.format(w)), m) for w, m in SYNONYMS.items())])
    words.pre_tokenizer = Split(Regex(r"[a-z\-]+"), behavior="removed", invert=True)
    words.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", TOKEN_ID["</s>"])])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=TOKENS, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes, indent=2) + "\n", "utf-8")


def card() -> dict[str, Any]:
    """What ``card.json`` says."""
    return {
        "recommend": RECOMMEND,
        "text_tokens": TOKENS,
        "objects": OBJECTS,
        "colours": COLOURS,
        "backgrounds": BACKGROUNDS,
        "motions": WORDS,
        "vocabulary": [w for w in TOKEN_ID if w not in SPECIAL_TOKENS],
        "synonyms": SYNONYMS,
        "license": "Apache-2.0; trained on clips composed of Fluent Emoji (MIT, Microsoft Corporation)",
    }


def write(nets: TextToVideo, vae: Any, out: Path) -> None:
    """Write the folder: networks as float16, tokenizer, scheduler, ``card.json``."""
    for module in (nets.transformer, nets.text, vae):
        module.half()
    WanPipeline(
        tokenizer=tokenizer(),
        text_encoder=nets.text,
        vae=vae,
        transformer=nets.transformer,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT),
        expand_timesteps=True,
    ).save_pretrained(out)
    _edit(out / "model_index.json", tokenizer=["transformers", "PreTrainedTokenizerFast"])
    _edit(out / "tokenizer" / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    _edit(out / "text_encoder" / "config.json", dtype="float32", torch_dtype="float32")
    (out / "card.json").write_text(json.dumps(card(), indent=1) + "\n", "utf-8")


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("weights", type=Path)
    ask.add_argument("vae", type=Path)
    ask.add_argument("out", type=Path, nargs="?", default=EMBEDDED / "wan-tiny")
    args = ask.parse_args()
    nets, vae = TextToVideo.fresh(), autoencoder()
    load_weights(nets, args.weights)
    vae.load_state_dict({k: v.float() for k, v in load_file(args.vae).items()})
    with torch.no_grad():
        write(nets, vae, args.out)


if __name__ == "__main__":
    main()
