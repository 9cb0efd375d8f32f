"""UMT5's tokenizer out of the file of its weights, as ComfyUI's files carry it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.checkpoints.parts import encoder_files
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.tokenizers import load_tokenizer

from .test_wan import CPU

TEXT = ["a red apple on the beach", "a blue fish moves left", "ein Fisch schwimmt nach links", "猫が走る"] * 3
PROMPTS = ["a red apple", "  two  spaces ", "Ünïcödé ﬁ ½", "猫 qqq 🐟", "", "line\nbreak", "<extra_id_0>", "(a) 1.5"]


def model(byte_fallback: bool) -> bytes:
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=made,
        vocab_size=330 if byte_fallback else 60,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        byte_fallback=byte_fallback,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    return made.getvalue()


def write(wan: Path, folder: Path, spiece: bytes) -> Path:
    """The encoder's file with a tokenizer in it, and an embedding as wide as that."""
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    tensors = load_file(wan / "text_encoder/model.safetensors")
    tensors = {k: v for k, v in tensors.items() if k != "encoder.embed_tokens.weight"}
    tensors["shared.weight"] = torch.randn(len(pieces), 32, generator=torch.Generator().manual_seed(1))
    tensors["spiece_model"] = torch.frombuffer(bytearray(spiece), dtype=torch.uint8)
    config = json.loads((wan / "text_encoder/config.json").read_text()) | {"vocab_size": len(pieces)}
    path = folder / "umt5_xxl_fp16.safetensors"
    save_file(tensors, path, {"config": json.dumps({"text_encoder": config})})
    return path


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_tokens_equal_sentencepiece(wan: Path, tmp_path: Path, load: Any, byte_fallback: bool) -> None:
    load(wan)
    spiece = model(byte_fallback)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    path = write(wan, tmp_path, spiece)
    with granted(Access.to(tmp_path)):
        clip = load_text_encoders("wan", [str(path)], CPU)
    umt5: Any = clip.encoders["umt5xxl"]
    for prompt in PROMPTS:
        tokens = umt5.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        assert tokens == pieces.encode(prompt), prompt
    [tokens] = clip.tokenize("a red 猫🐟").values()
    assert tokens.ids[: tokens.used] == (*pieces.encode("a red 猫🐟"), 1) and len(tokens.ids) == 512
    assert bool(tokens.unknown) != byte_fallback  # bytes are read, other pieces than the known ones are not
    assert clip.encode({"umt5xxl": tokens})[0][0].shape == (1, 512, 32)
    assert set(encoder_files(path)) == {path}
    (tmp_path / "spiece.model").write_bytes(spiece)
    assert load_tokenizer(tmp_path, "umt5")("a red apple")["input_ids"] == [*pieces.encode("a red apple"), 1]


def test_a_broken_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "umt5.safetensors"
    save_file({"spiece_model": torch.arange(40, dtype=torch.uint8)}, path)
    with pytest.raises(LoadError, match="SentencePiece model is broken"):
        load_tokenizer(path, "umt5")
    save_file({"spiece_model": torch.zeros(4)}, path)
    with pytest.raises(LoadError, match="is F32, not bytes"):
        load_tokenizer(path, "umt5")
