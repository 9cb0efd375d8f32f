"""A prompt as the tokens that one encoder reads: padded, in windows of 77, in a template, or byte by byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..llm.tokenizer import free_mark
from .weights import weighted
from .words import unread, words

if TYPE_CHECKING:
    from .facts import EncoderFacts

LONG_WORD: Final = 8
"""Tokens from which on a word may be cut by the end of a window, as ComfyUI has it."""
_BYTE_ZERO: Final = 3
_BYTES_END: Final = 1
"""ByT5 (Xue et al. 2021, arXiv 2105.13626) has no vocabulary: byte b is token b + 3, 1 ends the text."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt as one encoder reads it."""

    ids: tuple[int, ...]
    """With template, start, end and padding."""
    weights: tuple[float, ...]
    """One a token."""
    used: int
    """Tokens before the padding."""
    dropped: str = ""
    """The truncated end of the prompt."""
    unknown: tuple[str, ...] = ()
    """Words, as written, that the tokenizer has no token for or reads in part only."""
    part: bool = False
    """Only a part of the prompt is this encoder's, such as the text in quotes; others read all of it."""


@dataclass(frozen=True, slots=True)
class _Special:
    """Special tokens: those at the start, the one at the end, and the padding."""

    start: tuple[int, ...]
    end: int
    pad: int

    @classmethod
    def of(cls, facts: EncoderFacts, tokenizer: Any) -> _Special:
        end = tokenizer.eos_token_id
        usual = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end
        start = (tokenizer.bos_token_id,) if facts.tokenizer_kind == "clip" else ()
        return cls(start, end, usual if facts.pad is None else facts.pad)


def weighted_tokens(facts: EncoderFacts, tokenizer: Any, text: str, pad_to: int, limit: int) -> Tokens:
    """A prompt with weights, for CLIP and T5: cut at ``limit`` and padded to ``pad_to``, or in windows.

    Args:
        facts: Facts of the encoder.
        tokenizer: A fast tokenizer of transformers.
        text: The prompt.
        pad_to: Least number of tokens.
        limit: Greatest number of tokens.
    """
    special = _Special.of(facts, tokenizer)
    if facts.window:
        return _in_windows(_words(tokenizer, text), special, facts.window)
    room = limit - len(special.start) - 1
    ids: list[int] = []
    weights: list[float] = []
    unknown: dict[str, None] = {}
    dropped: list[str] = []
    for piece, weight in weighted(text):
        encoding = _encoding(tokenizer, piece)
        own = encoding["input_ids"][: room - len(ids)]
        end_read = _end_read(piece, encoding["offset_mapping"], len(own))
        dropped.append(piece[end_read:])
        unknown |= dict.fromkeys(unread(tokenizer, piece, encoding, end_read))
        ids += own
        weights += [weight] * len(own)
    used = len(special.start) + len(ids) + 1
    pads = max(0, pad_to - used)
    return Tokens(
        ids=(*special.start, *ids, special.end, *[special.pad] * pads),
        weights=(*[1.0] * len(special.start), *weights, 1.0, *[1.0] * pads),
        used=used,
        dropped="".join(dropped),
        unknown=tuple(unknown),
    )


def _encoding(tokenizer: Any, text: str) -> Any:
    return tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)


def _words(tokenizer: Any, text: str) -> Iterator[tuple[list[int], float, list[str]]]:
    """Tokens of each word between blanks, its weight, and what of it is unknown."""
    for piece, weight in weighted(text):
        for word in piece.split():
            encoding = _encoding(tokenizer, word)
            yield encoding["input_ids"], weight, [*unread(tokenizer, word, encoding, len(word))]


def _in_windows(words: Iterable[tuple[list[int], float, list[str]]], special: _Special, window: int) -> Tokens:
    """Words in windows, each with its start, end and padding, as ComfyUI does it.

    A word that does not fit begins the next window; one of ``LONG_WORD`` tokens or more is cut.
    """
    room = window - len(special.start) - 1
    windows: list[list[tuple[int, float]]] = [[]]
    unknown: dict[str, None] = {}
    for ids, weight, strange in words:
        unknown |= dict.fromkeys(strange)
        rest = [(token, weight) for token in ids]
        while len(windows[-1]) + len(rest) > room:
            fits = room - len(windows[-1]) if len(ids) >= LONG_WORD else 0
            windows[-1] += rest[:fits]
            rest = rest[fits:]
            windows.append([])
        windows[-1] += rest
    tokens: list[tuple[int, float]] = []
    for own in windows:
        pads = [(special.pad, 1.0)] * (room - len(own))
        tokens += [*((token, 1.0) for token in special.start), *own, (special.end, 1.0), *pads]
    used = len(tokens) - (room - len(windows[-1]))
    every, weights = zip(*tokens, strict=True)
    return Tokens(ids=tuple(every), weights=tuple(weights), used=used, unknown=tuple(unknown))


def _end_read(text: str, offsets: Sequence[tuple[int, int]], taken: int) -> int:
    """Where the truncated part of a text begins; a word of which no token is taken belongs to it."""
    if taken >= len(offsets):
        return len(text)
    at = offsets[taken][0]
    start = next((start for start, stop in words(text) if start <= at < stop), at)
    return max(start, offsets[taken - 1][1]) if taken else start


def template_tokens(facts: EncoderFacts, tokenizer: Any, text: str, pad_to: int, limit: int) -> Tokens:
    """A prompt in the template of a language model, cut and padded; control tokens that it spells are text.

    Args:
        facts: Facts of the encoder.
        tokenizer: The tokenizer of a language model (``llm.tokenizer``).
        text: The prompt.
        pad_to: Least number of tokens.
        limit: Greatest number of tokens.
    """
    text = text.strip() if facts.strip else text
    mark = free_mark([text])
    guarded = tokenizer.guard(text or facts.blank, mark)
    for token in facts.spelled:
        guarded = guarded.replace(token[0] + mark + token[1:], token)
    ids = (*tokenizer.start, *tokenizer.encode_marked(facts.before + guarded + facts.after, mark))
    own, cut = ids[:limit], ids[limit : len(ids) - len(tokenizer.encode(facts.after, control=True))]
    pad = tokenizer.fast.pad_token_id if tokenizer.fast is not None else None
    padded = (*own, *[pad or 0] * (pad_to - len(own)))
    return Tokens(padded, (1.0,) * len(padded), len(own), tokenizer.decode(cut))


def quoted_tokens(text: str, limit: int) -> Tokens:
    """The bytes of the text in quotes as ByT5's tokens, cut at ``limit``; none where nothing is in quotes."""
    spoken = quoted(text)
    read = spoken.encode()
    ids = (*(_BYTE_ZERO + b for b in read[: limit - 1]), _BYTES_END) if spoken else ()
    dropped = read[limit - 1 :].decode(errors="ignore")
    return Tokens(ids, (1.0,) * len(ids), len(ids), dropped, part=True)


def quoted(text: str) -> str:
    """The texts in quotes, ``"..."`` or ``“...”``, each once as ``Text "...". ``, as HunyuanVideo15Pipeline does."""
    spoken = dict.fromkeys(a or b for a, b in re.findall(r'"(.*?)"|“(.*?)”', text))
    return "".join(f'Text "{words}". ' for words in spoken)
