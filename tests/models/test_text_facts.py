"""How today's families read their text can be said in one record of facts; the states equal those of diffusers.

SDXL is in test_sdxl.py, FLUX in test_flux.py; Qwen-Image, Lumina 2 (Gemma), FLUX.2 and HunyuanVideo (Llama) in
test_text_language.py, ByT5 in test_hunyuan_15.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.llm.llm import LLM
from pipegraph.models.loading.place import Place
from pipegraph.models.text.encoder import Encoder
from pipegraph.models.text.facts import EncoderFacts

CPU = torch.device("cpu")
PROMPT = "a red apple on the beach"


@pytest.fixture(scope="module")
def shipped() -> dict[str, Encoder]:
    """CLIP-L and T5 that ship."""
    clip = load_text_encoders("flux", ["embedded/flux-tiny"], Place(CPU, torch.float32))
    return {name: replace(encoder, loras=()) for name, encoder in clip.encoders.items()}


def states(encoder: Encoder, text: str = PROMPT) -> torch.Tensor:
    return encoder.states(encoder.tokenize(text))


def sd15(encoder: Encoder, **facts: Any) -> Encoder:
    """SD 1.5's one encoder: CLIP-L in windows, states behind the final norm."""
    window = encoder.limit
    known = EncoderFacts("clip_l", kind="clip", pad_to=window, limit=window, window=window, **facts)
    return replace(encoder, facts=known)


def test_sd15(shipped: dict[str, Encoder]) -> None:
    from diffusers import StableDiffusionPipeline

    encoder = sd15(shipped["clip_l"])
    tokenizer = encoder.tokenizer
    before = tokenizer.model_max_length
    tokenizer.model_max_length = encoder.limit
    try:
        pipeline: Any = StableDiffusionPipeline(
            vae=None,
            text_encoder=encoder.loaded.network,
            tokenizer=tokenizer,
            unet=None,
            scheduler=None,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )
        theirs, _ = pipeline.encode_prompt(PROMPT, "cpu", 1, False)
    finally:
        tokenizer.model_max_length = before
    assert (states(encoder) - theirs).abs().max() < 1e-5


def test_sd15_with_clip_skip(shipped: dict[str, Encoder]) -> None:
    """diffusers' formula: the final norm on an earlier layer. SDXL takes it without the norm."""
    encoder = sd15(shipped["clip_l"], layers=(-2,), normed=True)
    network = encoder.loaded.network
    ids = torch.tensor([encoder.tokenize(PROMPT).ids])
    with torch.no_grad():
        hidden = network(input_ids=ids, output_hidden_states=True).hidden_states[-2]
        theirs = network.final_layer_norm(hidden)
    assert (states(encoder) - theirs).abs().max() < 1e-5
    assert (states(sd15(shipped["clip_l"], layers=(-2,))) - hidden).abs().max() < 1e-5
    assert (hidden - theirs).abs().max() > 1e-2


def test_sd3(shipped: dict[str, Encoder]) -> None:
    """Two CLIPs without the norm beside each other, padded to T5's width, then T5; pooled vectors concatenated."""
    clip, t5 = sd15(shipped["clip_l"], layers=(-2,)), shipped["t5xxl"]
    both = torch.cat([states(clip), states(clip)], -1)
    theirs_t5 = states(t5)
    width = max(theirs_t5.shape[-1], both.shape[-1])
    joined = torch.cat([torch.nn.functional.pad(s, (0, width - s.shape[-1])) for s in (both, theirs_t5)], 1)
    with torch.no_grad():
        network = clip.loaded.network
        out = network(input_ids=torch.tensor([clip.tokenize(PROMPT).ids]), output_hidden_states=True)
        raw = t5.loaded.network(input_ids=torch.tensor([t5.tokenize(PROMPT).ids])).last_hidden_state
    hidden = out.hidden_states[-2]
    assert torch.allclose(joined[:, : hidden.shape[1], : hidden.shape[2]], hidden, atol=1e-5)
    assert torch.allclose(joined[:, hidden.shape[1] :, : raw.shape[2]], raw, atol=1e-5)
    assert torch.allclose(clip.pooled(clip.tokenize(PROMPT)), out.pooler_output, atol=1e-5)


def test_hidream() -> None:
    """HiDream reads every layer of Llama 3: all hidden states but the embeddings, padded and masked."""
    import transformers as hf
    from tests.models.test_text_language import _tokenizer

    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=400, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, head_dim=8
    )
    network: Any = hf.LlamaForCausalLM(config).eval()
    from pipegraph.models.llm.tokenizer import Tokenizer

    llm = LLM.of(network, Tokenizer(_tokenizer(bos=True)), "llama")
    facts = EncoderFacts("llama_8b", models=("llama",), layers=(1, 2, -1), masked=True, limit=32, pad_to=32)
    encoder = Encoder(facts, llm.loaded, llm.tokenizer, 32, 32, source=llm)
    tokens = encoder.tokenize(PROMPT)
    assert len(tokens.ids) == 32 > tokens.used
    mask = torch.tensor([[1] * tokens.used + [0] * (32 - tokens.used)])
    with torch.no_grad():
        out = network(input_ids=torch.tensor([tokens.ids]), attention_mask=mask, output_hidden_states=True)
    theirs = torch.cat(out.hidden_states[1:], -1)  # transformers applies the final norm to the last
    assert (encoder.states(tokens) - theirs)[:, : tokens.used].abs().max() < 1e-5
