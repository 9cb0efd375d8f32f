"""How the families of today read text can be said in one record of facts; the states equal those of diffusers.

FLUX is in test_flux.py, SDXL in test_sdxl.py; Qwen-Image, Lumina 2 (Gemma), FLUX.2 and HunyuanVideo (Llama) in
test_text_language.py, ByT5 in test_hunyuan_15.py.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as hf
from tests.models.test_text_language import _tokenizer
from torch import Tensor

from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.tokenizer import Tokenizer
from pipegraph.models.loaded import Loaded
from pipegraph.models.loading.place import Place
from pipegraph.models.text.encoder import Encoder
from pipegraph.models.text.facts import EncoderFacts

CPU = torch.device("cpu")
PROMPT = "a red apple on the beach"
OTHER = "a blue apple on the beach"
LENGTH = 16
"""Tokens in a window of CLIP, 77 in trained ones."""
CLIP: dict[str, Any] = {"limit": LENGTH, "pad_to": LENGTH, "window": LENGTH}


@pytest.fixture(scope="module")
def shipped() -> Iterator[dict[str, Encoder]]:
    """CLIP-L and T5 that ship, with tokenizers that diffusers can use."""
    encoders = load_text_encoders("flux", ["embedded/flux-tiny"], Place(CPU, torch.float32)).encoders
    assert encoders["clip_l"].limit == LENGTH
    lengths = {name: encoder.tokenizer.model_max_length for name, encoder in encoders.items()}
    for encoder in encoders.values():
        encoder.tokenizer.model_max_length = LENGTH
    yield dict(encoders)
    for name, encoder in encoders.items():
        encoder.tokenizer.model_max_length = lengths[name]


def states(encoder: Encoder, text: str = PROMPT) -> Tensor:
    return encoder.states(encoder.tokenize(text))


def distance(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).abs().max())


@pytest.mark.parametrize("skip", [None, 1, 2])
def test_sd15_with_clip_skip(shipped: dict[str, Encoder], skip: int | None) -> None:
    """The final norm acts on earlier layers, too; SDXL takes them without it."""
    from diffusers import StableDiffusionPipeline

    facts = EncoderFacts("clip_l", kind="clip", layers=(-1 - (skip or 0),), normed=True, **CLIP)
    encoder = replace(shipped["clip_l"], facts=facts)
    network = copy.deepcopy(encoder.loaded.network)
    object.__setattr__(network, "text_model", network)  # transformers 5 has one network where diffusers expects two
    parts = dict.fromkeys(["vae", "unet", "scheduler", "safety_checker", "feature_extractor"])
    pipeline: Any = StableDiffusionPipeline(
        **parts, text_encoder=network, tokenizer=encoder.tokenizer, requires_safety_checker=False
    )
    with torch.no_grad():
        theirs, _ = pipeline.encode_prompt(PROMPT, "cpu", 1, False, clip_skip=skip)
    assert distance(states(encoder), theirs) < 1e-5
    assert distance(states(encoder, OTHER), theirs) > 1e-2
    if skip:
        raw = replace(encoder, facts=replace(facts, normed=False))
        assert distance(states(raw), theirs) > 1e-2


def clip(tokenizer: Any, width: int, projection: int) -> Any:
    """A tiny CLIP with a projection."""
    config = hf.CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        projection_dim=projection,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    network: Any = hf.CLIPTextModelWithProjection(config).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


def test_sd3(shipped: dict[str, Encoder]) -> None:
    """Two CLIPs before the last layer, side by side, then T5 padded and not masked; projected vectors side by side."""
    from diffusers import StableDiffusion3Pipeline

    torch.manual_seed(2)
    words, t5 = shipped["clip_l"].tokenizer, shipped["t5xxl"]
    t5 = replace(t5, facts=EncoderFacts("t5xxl", kind="t5", limit=24), limit=24, pad_to=24)
    networks = {"clip_l": clip(words, 16, 12), "clip_g": clip(words, 24, 20)}
    clips = {
        name: Encoder(
            EncoderFacts(name, kind=name, tokenizer="clip", layers=(-2,), projected=True, **CLIP),
            Loaded(network, CPU, torch.float32, name),
            words,
            LENGTH,
            LENGTH,
        )
        for name, network in networks.items()
    }
    pipeline: Any = StableDiffusion3Pipeline(
        transformer=None,
        scheduler=None,
        vae=None,
        text_encoder=networks["clip_l"],
        tokenizer=words,
        text_encoder_2=networks["clip_g"],
        tokenizer_2=words,
        text_encoder_3=t5.loaded.network,
        tokenizer_3=t5.tokenizer,
    )
    with torch.no_grad():
        theirs, _, vector, _ = pipeline.encode_prompt(
            PROMPT, None, None, "cpu", do_classifier_free_guidance=False, max_sequence_length=24
        )

    def ours(text: str) -> tuple[Tensor, Tensor]:
        text_5 = states(t5, text)
        both = torch.cat([states(encoder, text) for encoder in clips.values()], -1)
        padded = torch.nn.functional.pad(both, (0, text_5.shape[-1] - both.shape[-1]))
        pooled = [encoder.pooled(encoder.tokenize(text)) for encoder in clips.values()]
        return torch.cat([padded, text_5], 1), torch.cat(pooled, -1)

    assert distance(ours(PROMPT)[0], theirs) < 1e-5 and distance(ours(PROMPT)[1], vector) < 1e-5
    assert distance(ours(OTHER)[0], theirs) > 1e-2 and distance(ours(OTHER)[1], vector) > 1e-2


def test_hidream() -> None:
    """The states of every layer of Llama 3 but the embeddings, padded and masked, the last behind the final norm."""
    from diffusers import HiDreamImagePipeline

    torch.manual_seed(0)
    fast = _tokenizer(bos=True)
    fast.eos_token = "<|eot_id|>"
    sizes: dict[str, Any] = dict(hidden_size=16, intermediate_size=32, num_attention_heads=2, head_dim=8)
    config = hf.LlamaConfig(vocab_size=len(fast), num_hidden_layers=3, **sizes)
    config._attn_implementation = "eager"
    network: Any = hf.LlamaForCausalLM(config).eval()
    for parameter in network.parameters():
        if parameter.ndim >= 2:
            torch.nn.init.normal_(parameter, std=0.3)
    others = {f"{kind}{i}": None for kind in ("text_encoder", "tokenizer") for i in ("", "_2", "_3")}
    pipeline: Any = HiDreamImagePipeline(
        scheduler=None, vae=None, transformer=None, **others, text_encoder_4=copy.deepcopy(network), tokenizer_4=fast
    )
    with torch.no_grad():
        theirs = pipeline._get_llama3_prompt_embeds(PROMPT, 32, "cpu")
    llm = LLM.of(network, Tokenizer(fast), "llama")
    facts = EncoderFacts("llama_8b", models=("llama",), layers=(1, 2, -1), masked=True, limit=32, pad_to=32)
    encoder = Encoder(facts, llm.loaded, llm.tokenizer, 32, 32, source=llm)

    def ours(text: str) -> Tensor:
        layers: Tensor = states(encoder, text).unflatten(2, (3, -1))
        return layers.permute(2, 0, 1, 3)

    assert encoder.tokenize(PROMPT).used < 32 == theirs.shape[2]
    assert distance(ours(PROMPT), theirs) < 1e-5 and distance(ours(OTHER), theirs) > 1e-2
