"""Tokenizers of language models out of the SentencePiece model that ComfyUI's files carry (``spiece_model``)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...loading.header_values import LoadError
from ...loading.tokenizers import spiece_bytes

if TYPE_CHECKING:
    from ..tokenizer import Tokenizer

_TURNS: Final = ("<start_of_turn>", "<end_of_turn>")
"""Gemma's marks of a turn, which its SentencePiece model has among what users may write."""
_CONTROL: Final = 3
GEMMA_CHAT: Final = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n'"
    " + m.content + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}"
    "{% endif %}"
)
"""Turns as Gemma 3 reads them; what comes first for all turns is one of its own."""


def load_spiece(path: Path, chat: str) -> Tokenizer:
    """The tokenizer in a file of weights: BPE whose unknown characters are bytes, with a start token and no prefix.

    Args:
        path: A safetensors file.
        chat: Its chat template, which no such file has.

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
    told = model.trainer_spec
    if told.model_type != told.BPE or not told.byte_fallback:
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
        number = getattr(told, {"unknown": "unk_id", "padding": "pad_id"}.get(name, f"{name}_id"))
        read |= {f"{name}_token_id": number} if number >= 0 else {}
    made = gguf_tokenizer({f"tokenizer.ggml.{k}": v for k, v in read.items()}, str(path))
    made.fast.chat_template = chat
    return made
