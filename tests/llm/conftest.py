"""Small tokenizers, trained here on a few sentences, and a tiny model that uses one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipegraph.models.llm.tokenizer import Tokenizer

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "What is a lighthouse? A tower with a light at its top.",
    '{"name": "Bo", "age": 3, "tags": ["a", "b"]}',
    "user\nassistant\nsystem\n",
    "naïve café 😀👍🏽 日本語 Привет",
]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train(template: str | None = CHATML, *, bos: bool = False, **kinds: Any) -> Tokenizer:
    """A byte-level BPE of about 400 ids, with ChatML's control tokens; ``bos``: it puts ``<s>`` before a text."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors, trainers
    from tokenizers import Tokenizer as Backend
    from transformers import PreTrainedTokenizerFast

    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(SENTENCES * 3, trainer)
    backend.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)])
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", backend.token_to_id("<s>"))]
        )
    named = {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "bos_token": "<s>" if bos else None}
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, **(named | kinds))
    fast.chat_template = template
    return Tokenizer(fast)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return train()


def save_llm(folder: Path, tokenizer: Tokenizer, **config: Any) -> Path:
    """Write a Llama of random weights with a tokenizer, in transformers' layout."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "vocab_size": tokenizer.size + 6,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.4,
        "eos_token_id": tokenizer.fast.eos_token_id,
        "bos_token_id": None,
    }
    network = LlamaForCausalLM(LlamaConfig(**(sizes | config)))
    network.save_pretrained(folder)
    tokenizer.fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llm_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> Path:
    return save_llm(tmp_path_factory.mktemp("models") / "tiny-llama", tokenizer)


@pytest.fixture(scope="session")
def make() -> Any:
    return train


def byte_fallback(*, strip: bool = True) -> Tokenizer:
    """A tokenizer of single letters and bytes with the decoder of Llama 2; without ``strip`` that of Gemma."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    special = ["<unk>", "<s>", "</s>"]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyzEND.é"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True, unk_token="<unk>"))
    backend.add_special_tokens(special)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strip else steps)
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **named))


@pytest.fixture(scope="session", params=[True, False], ids=["llama2", "gemma"])
def falling_back(request: pytest.FixtureRequest) -> Tokenizer:
    return byte_fallback(strip=request.param)
