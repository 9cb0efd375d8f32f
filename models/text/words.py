"""The words of a prompt, and those that a tokenizer ignores."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Span = tuple[int, int]
"""From, to (exclusive), in characters."""


def words(text: str) -> list[Span]:
    """Ranges of words: runs without blanks and punctuation; inner hyphens and apostrophes belong to them.

    Emoji and other symbols are words too. ASCII's symbols (``+``, ``$``, ...) are punctuation.
    """
    return [match.span() for match in re.finditer(r"[am]+(?:j+[am]+)*", _kinds(text))]


def unread(tokenizer: Any, text: str, read: Mapping[str, Sequence[Any]], end: int) -> Iterator[str]:
    """Words that begin before ``end`` and that tokens do not cover completely, as written.

    A tokenizer may have no token for a word, or drop the characters that it does not know. Offsets alone do not tell
    the latter: characters that the normalizer rewrites have no exact place. So a word with gaps is read once more,
    alone and normalized.

    Args:
        tokenizer: A fast tokenizer of transformers.
        text: The tokenized text.
        read: Its ``input_ids`` and ``offset_mapping``.
        end: Start of the truncated part.
    """
    gaps = _gaps(tokenizer, text, read)
    for start, stop in words(text):
        if start >= end or not any(gaps[start:stop]):
            continue
        alone = _normalized(tokenizer, text[start:stop])
        again = tokenizer(alone, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if not again["input_ids"] or any(_gaps(tokenizer, alone, again)):
            yield text[start:stop]


def _kinds(text: str) -> str:
    """A letter for each character: a (letter, digit, symbol), m (mark on one), j (joins words), or a blank."""
    return "".join(map(_kind, text))


def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if character in "-'\N{RIGHT SINGLE QUOTATION MARK}" or category == "Cf":
        return "j"
    if character.isspace() or character in string.punctuation or category[0] in "PZ" or category == "Cc":
        return " "
    return "m" if category[0] == "M" else "a"


def _gaps(tokenizer: Any, text: str, read: Mapping[str, Sequence[Any]]) -> list[bool]:
    """For each character of a word whether no token holds it; marks go with their letter."""
    gaps = [kind == "a" for kind in _kinds(text)]
    for token, (first, last) in zip(read["input_ids"], read["offset_mapping"], strict=True):
        if token != tokenizer.unk_token_id or token == tokenizer.eos_token_id:
            gaps[first:last] = [False] * (last - first)
    return gaps


def _normalized(tokenizer: Any, text: str) -> str:
    normalizer = tokenizer.backend_tokenizer.normalizer
    return str(normalizer.normalize_str(text)) if normalizer else text
