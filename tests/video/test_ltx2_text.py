"""Gemma 3 out of ComfyUI's single file, as LTX-2 reads it and as it writes prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import save_file

from pipegraph.generators import finish
from pipegraph.models.adapters.lora import read_lora
from pipegraph.models.checkpoints import language
from pipegraph.models.families.ltx.ltx2 import GEMMA, LTX2
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.place import Place
from pipegraph.nodes.video.ltx2 import _text_files, load_text_encoder
from pipegraph.nodes.video.ltx_prompt import FROM_IMAGE, FROM_TEXT, text_generate_ltx2_prompt
from pipegraph.runtime.node import Token

from ..context import Context
from . import gemma_tiny, ltx2_tiny

CPU = Place(torch.device("cpu"), torch.float32)
PROMPTS = ["a red apple", "  two  spaces ", "Ünïcödé ½", "猫 qqq 🐟", "line\nbreak", "a <start_of_turn> in it", ""]


@torch.no_grad()
def test_the_file_is_the_model(tmp_path: Path) -> None:
    """Tokens are SentencePiece's, states those of transformers' class; weights are plain, or in fp8 and NVFP4."""
    model = gemma_tiny.network()
    made = gemma_tiny.tensors(model)
    files = {"plain": made, "mixed": gemma_tiny.mixed(meant := dict(made))}
    pieces = sentencepiece.SentencePieceProcessor(model_proto=gemma_tiny.spiece())
    for name, tensors in files.items():
        path = tmp_path / f"gemma_3_12B_it_{name}.safetensors"
        gemma_tiny.write(path, tensors)
        llm = language.load_file(path, GEMMA, name, CPU)
        assert llm.tokenizer is not None and language.files_of(path, [GEMMA]) == [path]
        for prompt in PROMPTS[:-2]:
            assert llm.tokenizer.encode(prompt) == (2, *pieces.encode(prompt)), prompt
        assert llm.tokenizer.encode(PROMPTS[-2], control=True) == tuple(pieces.encode(PROMPTS[-2]))
        assert pieces.piece_to_id("<start_of_turn>") not in llm.tokenizer.encode(PROMPTS[-2])
        if name == "mixed":
            model.load_state_dict({k: v for k, v in meant.items() if k in model.state_dict()}, strict=False)
        ids = torch.tensor([llm.tokenizer.encode("a blue fish moves left, softly")])
        theirs = model.model(ids, output_hidden_states=True).hidden_states
        ours = llm.loaded.network.get_decoder()(ids, output_hidden_states=True, use_cache=False).hidden_states
        assert len(ours) == len(theirs) == 7
        assert max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True)) < 1e-4


@pytest.fixture
def clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context) -> Callable[[], tuple[Any, Any]]:
    """LTX-2's text encoder under the names of its templates, and the network that is in it."""

    def load() -> tuple[Any, Any]:
        model = gemma_tiny.network(ltx2_tiny.TEXT, ltx2_tiny.LAYERS - 1)
        name = "gemma_3_12B_it_fp4_mixed.safetensors"
        gemma_tiny.write(tmp_path / "text_encoders" / name, gemma_tiny.tensors(model))
        ltx2_tiny.write_file(ltx2_tiny.components(), tmp_path / "checkpoints/ltx-2-19b-dev.safetensors")
        monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
        assert _text_files(name) == [tmp_path / "text_encoders" / name]
        return load_text_encoder(name, "ltx-2-19b-dev.safetensors", context), model

    return load


def written(stream: Any) -> str:
    return str(finish(stream))


def test_it_reads_and_writes_prompts(clip: Callable[..., Any], context: Context) -> None:
    """It writes what transformers' class does after the same tokens: turns of Gemma 3, and our words first."""
    encoder, model = clip()
    [[states, extras]] = encoder.encode(encoder.tokenize("a red apple on the beach"))
    assert not extras and states.shape == (1, 1024, 2 * ltx2_tiny.TEXT)
    [[same, _]] = encoder.encode(encoder.tokenize(" a red apple on the beach\n"))
    assert torch.equal(same, states)
    off: dict[str, Any] = {"sampling_mode": "off", "max_length": 6}
    made = written(text_generate_ltx2_prompt(context, encoder, "a blue fish", **off))
    tokenizer = encoder.encoders["gemma3_12b"].tokenizer
    turns = (
        f"<bos><start_of_turn>system\n{FROM_TEXT}<end_of_turn>\n"
        "<start_of_turn>user\nThe request: a blue fish<end_of_turn>\n"
    )
    ids = torch.tensor([tokenizer.encode(f"{turns}<start_of_turn>model\n", control=True)])
    with torch.no_grad():
        for _ in range(6):
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert made == tokenizer.decode(ids[0, -6:].tolist()).strip() != ""
    other = written(text_generate_ltx2_prompt(context, encoder, "a blue fish", system_prompt="Repeat it.", **off))
    assert other != made and FROM_TEXT != FROM_IMAGE and "\n" not in FROM_TEXT
    with pytest.raises(ValueError, match="picture"):
        written(text_generate_ltx2_prompt(context, encoder, "a blue fish", torch.zeros(1, 32, 32, 3), **off))


def test_without_an_answer_the_request_is_the_prompt(clip: Callable[..., Any], context: Context) -> None:
    encoder, _ = clip()
    network = encoder.encoders["gemma3_12b"].loaded.network
    network.get_output_embeddings().weight.data.zero_()  # the first token of all, which is no text, is as likely as any
    off: dict[str, Any] = {"sampling_mode": "off", "max_length": 2}
    assert written(text_generate_ltx2_prompt(context, encoder, "a blue fish", **off)) == "a blue fish"
    assert "the model wrote nothing: the request is the prompt" in context.warnings


def drawn(stream: Any) -> list[int]:
    """The tokens that a node writes."""
    return [event.id for event in stream if isinstance(event, Token)]


@torch.no_grad()
def test_a_lora_acts_on_what_it_writes(clip: Callable[..., Any], context: Context, tmp_path: Path) -> None:
    """On layers and on the embedding, which is the output layer too; in the names of ComfyUI's file for Gemma 3."""
    encoder, model = clip()
    torch.manual_seed(3)
    file: dict[str, torch.Tensor] = {}
    for name in ("model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj", "model.embed_tokens"):
        weight = model.get_parameter(f"{name}.weight")
        down, up = torch.randn(2, weight.shape[1]) / 4, torch.randn(weight.shape[0], 2) / 4
        file |= {f"text_encoders.transformer.{name}.lora_{role}.weight": t for role, t in (("down", down), ("up", up))}
        weight += up @ down
    for role in ("down", "up"):
        file[f"text_encoders.transformer.vision_model.encoder.layers.0.mlp.fc1.lora_{role}.weight"] = torch.zeros(2, 2)
    save_file(file, tmp_path / "writer.safetensors")
    networks = {"gemma3_12b": encoder.encoders["gemma3_12b"].loaded.network}
    read = read_lora(tmp_path / "writer.safetensors", networks, LTX2)
    assert (read.matched, read.total) == (6, 8)
    assert "2 keys for the vision tower (not loaded)" in read.warnings[0]
    off: dict[str, Any] = {"sampling_mode": "off", "max_length": 6, "system_prompt": "Repeat it."}
    plain = drawn(text_generate_ltx2_prompt(context, encoder, "a blue fish", **off))
    made = encoder.with_lora("gemma3_12b", read.loras["gemma3_12b"], 1.0)
    told = drawn(text_generate_ltx2_prompt(context, made, "a blue fish", **off))
    tokenizer = encoder.encoders["gemma3_12b"].tokenizer
    turns = "<bos><start_of_turn>system\nRepeat it.<end_of_turn>\n<start_of_turn>user\nThe request: a blue fish"
    ids = torch.tensor([tokenizer.encode(f"{turns}<end_of_turn>\n<start_of_turn>model\n", control=True)])
    begin = ids.shape[1]
    for _ in range(6):
        ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], 1)
    assert told == ids[0, begin:].tolist() != plain
    assert drawn(text_generate_ltx2_prompt(context, encoder, "a blue fish", **off)) == plain
    tokens = made.tokenize("a red apple")
    network = made.encoders["gemma3_12b"].loaded.network
    ours = network.get_decoder().embed_tokens(torch.tensor([tokens["gemma3_12b"].ids]))
    assert torch.allclose(ours, model.model.embed_tokens(torch.tensor([tokens["gemma3_12b"].ids])), atol=1e-5)


def test_what_is_no_gemma(tmp_path: Path, clip: Callable[..., Any], context: Context) -> None:
    clip()
    save_file({"model.layers.0.self_attn.q_proj.weight": torch.zeros(4, 4)}, tmp_path / "text_encoders/a.safetensors")
    with pytest.raises(LoadError, match=r"a\.safetensors is no gemma3"):
        load_text_encoder("a.safetensors", "ltx-2-19b-dev.safetensors", context)
    made = gemma_tiny.tensors(gemma_tiny.network(ltx2_tiny.TEXT, ltx2_tiny.LAYERS - 1))
    del made["spiece_model"]
    gemma_tiny.write(tmp_path / "text_encoders/b.safetensors", made)
    for load in (_text_files, lambda name: load_text_encoder(name, "ltx-2-19b-dev.safetensors", context)):
        with pytest.raises(LoadError, match=r"no tokenizer for .*b\.safetensors .*tokenizers/gemma3_12b"):
            load("b.safetensors")
    gemma_tiny.write(tmp_path / "text_encoders/c.safetensors", gemma_tiny.tensors(gemma_tiny.network(32, 2)))
    with pytest.raises(LoadError, match=r"3 states of 32 numbers a token.*it wants Gemma 3 12B"):
        load_text_encoder("c.safetensors", "ltx-2-19b-dev.safetensors", context)
