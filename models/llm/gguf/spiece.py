"""Tokenizers from the SentencePiece model inside ComfyUI's files (``spiece_model``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...loading.header_values import LoadError
from ...loading.tokenizers import spiece_bytes

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer

_TURNS: Final = ("<start_of_turn>", "<end_of_turn>")
"""Gemma's turn tokens, which its SentencePiece model lists as user-defined."""
_CONTROL: Final = 3
GEMMA_CHAT: Final = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n'"
    " + m.content + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}"
    "{% endif %}"
)
"""Gemma 3's chat template; a system prompt is a turn of its own."""


def load_spiece(path: Path, chat: str) -> Tokenizer:
    """The tokenizer in a file of weights: BPE with byte fallback, a start token and no prefix.

    Args:
        path: A safetensors file.
        chat: Chat template, which such files lack.

    Raises:
        LoadError: the model is broken, or of another kind.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from sentencepiece import sentencepiece_model_pb2 as proto

    from .tokenizer import gguf_tokenizer

    model: Any = proto.ModelProto()  # type: ignore[attr-defined]
    try:
        model.ParseFromString(spiece_bytes(path))
    except DecodeError as e:
        raise LoadError(f"{path}: its SentencePiece model is broken") from e
    trainer = model.trainer_spec
    if trainer.model_type != trainer.BPE or not trainer.byte_fallback:
        raise LoadError(f"{path}: its SentencePiece model is no BPE that reads unknown characters as bytes")
    tokens = [piece.piece for piece in model.pieces]
    read: dict[str, Any] = {
        "model": "llama",
        "add_space_prefix": bool(model.normalizer_spec.add_dummy_prefix),
        "add_bos_token": True,
        "tokens": tokens,
        "scores": [piece.score for piece in model.pieces],
        "token_type": [_CONTROL if piece.piece in _TURNS else int(piece.type) for piece in model.pieces],
    }
    for name in ("bos", "eos", "unknown", "padding"):
        number = getattr(trainer, {"unknown": "unk_id", "padding": "pad_id"}.get(name, f"{name}_id"))
        read |= {f"{name}_token_id": number} if number >= 0 else {}
    tokenizer = gguf_tokenizer({f"tokenizer.ggml.{k}": v for k, v in read.items()}, str(path))
    tokenizer.fast.chat_template = chat
    return tokenizer
