"""Tokenizers as GGUF files describe them: vocabulary, merges or scores, and the name of how text is split first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ...loading.header_values import LoadError
from ..tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_SPACE: Final = "\u2581"
"""What SentencePiece writes for a space."""
_CONTROL, _USER = 3, 4
"""Types of tokens: written by templates only, and whole wherever they stand."""
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
"""GGUF's names of how text is split before merging: GPT-2's way, the same after single digits, or an expression."""
_BY_ARCHITECTURE: Final[Mapping[str, str]] = {"qwen2": "qwen2", "qwen3": "qwen2", "qwen3moe": "qwen2"}
"""How text is split for architectures that have one way only, in files that do not say."""
_LLAMA3_TURN: Final = "<|start_header_id|>"
"""A token that Llama 3 has and no earlier Llama."""
_WHOLE_WORDS: Final = frozenset({"llama-bpe", "llama3", "llama-v3", "falcon3", "smaug-bpe"})
"""Those that take a word of the vocabulary as it is, whatever the merges say; they want a start token, too."""


def gguf_tokenizer(metadata: Mapping[str, Any], origin: str) -> Tokenizer:
    """The tokenizer and chat template in the metadata of a GGUF file.

    Raises:
        LoadError: it is of a kind that is not read, or what is said of it makes no sense.
    """
    try:
        return _made(metadata, origin)
    except LoadError:
        raise
    except Exception as e:  # the library raises no class of its own
        raise LoadError(f"{origin}: its tokenizer cannot be made: {e}") from e


def _made(metadata: Mapping[str, Any], origin: str) -> Tokenizer:
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    told = {k.removeprefix("tokenizer.ggml."): v for k, v in metadata.items() if k.startswith("tokenizer.ggml.")}
    kind, texts = told.get("model"), told.get("tokens", ())
    if kind not in ("gpt2", "llama") or not texts:
        raise LoadError(f"{origin}: its tokenizer is of the kind {kind!r}; read are gpt2 (byte-level BPE) and llama")
    architecture, remarks = metadata.get("general.architecture"), []
    if kind == "gpt2" and "pre" not in told:
        told["pre"] = _BY_ARCHITECTURE.get(str(architecture), "llama-bpe" if _LLAMA3_TURN in texts else "default")
        if told["pre"] == "default":
            remarks.append(
                f"{origin} does not say how its tokenizer splits text (tokenizer.ggml.pre): it is split as for GPT-2, "
                "and answers are worse if that is not the model's way; a newer file of the model says it"
            )
    each = architecture == "phi3"  # its prefix stands behind control tokens, too
    backend = _byte_level(told, origin) if kind == "gpt2" else _sentencepiece(told, texts, each)
    types = told.get("token_type", ())
    backend.add_special_tokens(
        [AddedToken(t, normalized=False) for t, n in zip(texts, types, strict=False) if n == _CONTROL]
    )
    backend.add_tokens([AddedToken(t, normalized=False) for t, n in zip(texts, types, strict=False) if n == _USER])
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    special = {name: texts[told[f"{key}_token_id"]] for name, key in names.items() if f"{key}_token_id" in told}
    starts = told.get("add_bos_token", kind == "llama" or told.get("pre") in _WHOLE_WORDS)
    if starts and "bos_token" in special:
        _put_before(backend, special["bos_token"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **special)
    fast.chat_template = metadata.get("tokenizer.chat_template")
    prefix = "" if kind == "gpt2" or each or not told.get("add_space_prefix", True) else _SPACE
    return Tokenizer(fast, prefix, tuple(remarks))


def _byte_level(told: Mapping[str, Any], origin: str) -> Backend:
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    pre = told["pre"]
    if pre not in _SPLITS:
        raise LoadError(f"{origin}: its tokenizer splits text in the way {pre!r}; read are {', '.join(_SPLITS)}")
    vocabulary = {text: i for i, text in enumerate(told["tokens"])}
    merges = [tuple(m.split(" ", 1)) for m in told.get("merges", ())]
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


def _sentencepiece(told: Mapping[str, Any], texts: tuple[str, ...], each: bool) -> Backend:
    """Llama's first tokenizer: pairs are merged by the score of what they make; unknown characters are bytes.

    A space is put before the text, as transformers does, or before each text between control tokens (``each``).
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocabulary = {text: i for i, text in enumerate(texts)}
    scores = told.get("scores") or [-float(i) for i in range(len(texts))]
    pairs = [
        (-scores[i], vocabulary[text[:at]], vocabulary[text[at:]], text[:at], text[at:])
        for text, i in vocabulary.items()
        for at in range(1, len(text))
        if text[:at] in vocabulary and text[at:] in vocabulary
    ]
    unknown = texts[told["unknown_token_id"]] if "unknown_token_id" in told else None
    merges = [(left, right) for *_, left, right in sorted(pairs)]
    backend = Backend(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = told.get("add_space_prefix", True)
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
