"""Tokenizers from GGUF metadata: vocabulary, merges or scores, and the name of the pre-tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...loading.header_values import LoadError
from ..tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_SPACE: Final = "\u2581"
"""SentencePiece's space."""
_CONTROL, _USER = 3, 4
"""Token types: control, and user-defined, which is never split."""
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
_QWEN2: Final = _LLAMA3.replace("{1,3}", "")
_SPLITS: Final[Mapping[str, str]] = {
    "gpt-2": "",
    "default": "",
    "smollm": "digits",
    "starcoder": "digits",
    "refact": "digits",
    "codeshell": "digits",
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "falcon3": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
}
"""Pre-tokenizers by GGUF's name: GPT-2's (empty), GPT-2's after splitting digits, or a regular expression."""
_BY_ARCHITECTURE: Final[Mapping[str, str]] = {"qwen2": "qwen2", "qwen3": "qwen2", "qwen3moe": "qwen2"}
"""Pre-tokenizer by architecture, for files that name none."""
_LLAMA3_TURN: Final = "<|start_header_id|>"
"""A token of Llama 3 that earlier Llamas lack."""
_WHOLE_WORDS: Final = frozenset({"llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe"})
"""Pre-tokenizers that ignore merges for whole words of the vocabulary, and add a start token."""


def gguf_tokenizer(metadata: Mapping[str, Any], origin: str) -> Tokenizer:
    """The tokenizer and chat template in the metadata of a GGUF file.

    Raises:
        LoadError: it is of an unsupported kind, or its metadata make no sense.
    """
    try:
        return _build(metadata, origin)
    except LoadError:
        raise
    except Exception as e:  # the library raises plain Exception
        raise LoadError(f"{origin}: its tokenizer cannot be made: {e}") from e


def _build(metadata: Mapping[str, Any], origin: str) -> Tokenizer:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    settings = {k.removeprefix("tokenizer.ggml."): v for k, v in metadata.items() if k.startswith("tokenizer.ggml.")}
    kind, texts = settings.get("model"), settings.get("tokens", ())
    if kind not in ("gpt2", "llama") or not texts:
        raise LoadError(f"{origin}: its tokenizer is of the kind {kind!r}; read are gpt2 (byte-level BPE) and llama")
    architecture, remarks = metadata.get("general.architecture"), []
    if kind == "gpt2" and "pre" not in settings:
        settings["pre"] = _BY_ARCHITECTURE.get(str(architecture), "llama-bpe" if _LLAMA3_TURN in texts else "default")
        if settings["pre"] == "default":
            remarks.append(
                f"{origin} does not say how its tokenizer splits text (tokenizer.ggml.pre): it is split as for GPT-2, "
                "and answers are worse if that is not the model's way; a newer file of the model says it"
            )
    each = architecture == "phi3"  # its prefix follows control tokens, too
    backend = _byte_level(settings, origin) if kind == "gpt2" else _sentencepiece(settings, texts, each)
    types = settings.get("token_type", ())
    backend.add_special_tokens(
        [AddedToken(t, normalized=False) for t, n in zip(texts, types, strict=False) if n == _CONTROL]
    )
    backend.add_tokens([AddedToken(t, normalized=False) for t, n in zip(texts, types, strict=False) if n == _USER])
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    special = {name: texts[settings[f"{key}_token_id"]] for name, key in names.items() if f"{key}_token_id" in settings}
    starts = settings.get("add_bos_token", kind == "llama" or settings.get("pre") in _WHOLE_WORDS)
    if starts and "bos_token" in special:
        _put_before(backend, special["bos_token"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **special)
    fast.chat_template = metadata.get("tokenizer.chat_template")
    prefix = "" if kind == "gpt2" or each or not settings.get("add_space_prefix", True) else _SPACE
    return Tokenizer(fast, prefix, tuple(remarks))


def _byte_level(settings: Mapping[str, Any], origin: str) -> Backend:
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    pre = settings["pre"]
    if pre not in _SPLITS:
        raise LoadError(f"{origin}: its tokenizer splits text in the way {pre!r}; read are {', '.join(_SPLITS)}")
    vocabulary = {text: i for i, text in enumerate(settings["tokens"])}
    merges = [tuple(m.split(" ", 1)) for m in settings.get("merges", ())]
    backend = Backend(models.BPE(vocabulary, merges, ignore_merges=pre in _WHOLE_WORDS))
    split, byte_level = _SPLITS[pre], pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if split == "digits":
        steps = [pre_tokenizers.Digits(individual_digits=True), byte_level]
    elif split:
        steps = [
            pre_tokenizers.Split(Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    else:
        steps = [byte_level]
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    backend.decoder = decoders.ByteLevel()
    if split == _QWEN2:
        backend.normalizer = normalizers.NFC()
    return backend


def _sentencepiece(settings: Mapping[str, Any], texts: tuple[str, ...], each: bool) -> Backend:
    """Llama's first tokenizer: BPE by scores with byte fallback.

    A space is prepended to the text, as transformers does, or to each text between control tokens (``each``).
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocabulary = {text: i for i, text in enumerate(texts)}
    scores = settings.get("scores") or [-float(i) for i in range(len(texts))]
    pairs = [
        (-scores[i], vocabulary[text[:at]], vocabulary[text[at:]], text[:at], text[at:])
        for text, i in vocabulary.items()
        for at in range(1, len(text))
        if text[:at] in vocabulary and text[at:] in vocabulary
    ]
    unknown = texts[settings["unknown_token_id"]] if "unknown_token_id" in settings else None
    merges = [(left, right) for *_, left, right in sorted(pairs)]
    backend = Backend(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = settings.get("add_space_prefix", True)
    if prefix and not each:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(_SPACE, prepend_scheme="first", split=False)
    else:
        steps: list[Any] = [normalizers.Prepend(_SPACE)] if prefix else []
        backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE)])
    after: list[Any] = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *after]
    )
    return backend


def _put_before(backend: Backend, text: str) -> None:
    from tokenizers import processors

    whole = processors.TemplateProcessing(
        single=f"{text} $A", pair=f"{text} $A {text} $B", special_tokens=[(text, backend.token_to_id(text))]
    )
    backend.post_processor = whole
