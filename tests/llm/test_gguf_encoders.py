"""Text encoders in GGUF files: what they make of prompts is what the unpacked network makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models.checkpoints.language import abilities, files_of
from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.llm.tokenizer import Tokenizer
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.place import Place

from .gguf_files import write_gguf

PLACE = Place(torch.device("cpu"), torch.float32)
PROMPTS = ["The quick brown fox", "(two:1.2) dogs"]
SIZES: dict[str, Any] = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=1024,
    initializer_range=0.3,
)


@pytest.mark.parametrize(("family", "arch"), [("lumina2", "qwen3"), ("hunyuan_video", "llama")])
def test_states_are_those_of_the_unpacked_folder(
    family: str, arch: str, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    place = tmp_path / "text_encoders"
    place.mkdir()
    torch.manual_seed(1)
    sizes = SIZES | {"vocab_size": -(-tokenizer.size // 32) * 32}
    network: Any = Qwen3ForCausalLM(Qwen3Config(**sizes)) if arch == "qwen3" else LlamaForCausalLM(LlamaConfig(**sizes))
    network.eval().requires_grad_(False)
    write_gguf(place / "packed.gguf", network, tokenizer, "Q4_1", arch=arch)
    network.save_pretrained(place / "plain")
    tokenizer.fast.save_pretrained(place / "plain")
    packed, plain = (load_text_encoders(family, [name], PLACE) for name in ("packed.gguf", "plain"))
    (encoder,), (other,) = packed.encoders.values(), plain.encoders.values()
    assert isinstance(encoder.llm.loaded.network.model.layers[0].mlp.up_proj.weight, QWeight)
    for text in PROMPTS:
        tokens = encoder.tokenize(text)
        assert tokens.ids == other.tokenize(text).ids
        states, wanted = encoder.states(tokens)[0], other.states(other.tokenize(text))[0]
        assert states.shape == wanted.shape and (states - wanted).norm() <= 1e-5 * wanted.norm()
    assert float((encoder.states(encoder.tokenize("The quack brown fox"))[0] - states[:1]).abs().max()) > 1e-2
    assert encoder.writes
    assert files_of(place / "packed.gguf") == [place / "packed.gguf"]
    assert abilities("packed.gguf") == {"pictures": False, "sounds": False}
    with pytest.raises(LoadError, match=f"packed.gguf is a {arch}; the text encoder of"):
        load_text_encoders("qwen_image", ["packed.gguf"], PLACE)
