"""Streaming detokenization and stop strings.

Text that was shown is final: incomplete characters and possible beginnings of a stop string are held back. All pieces
together equal the text of all ids, cut before the stop string.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..tokenizer import Tokenizer

BROKEN = "\ufffd"
"""Replacement character of incomplete bytes."""


@dataclass(slots=True)
class TextStream:
    """The text of one sequence of ids.

    Byte tokens (``<0xE6>``) become text when another token follows them: only then is it known whether they form
    characters. Of any other text only the last character may change.
    """

    tokenizer: Tokenizer
    control: bool = False
    """Show special tokens too."""
    _ids: list[int] = field(default_factory=list)
    """Ids shown last, as context (some tokens decode differently at the start), then ids not shown yet."""
    _context: int = 0
    """Number of context ids."""
    _shown: int = 0
    """Characters of the ids' text shown so far."""

    def push(self, id: int) -> str:
        """The text that becomes certain with this id."""
        if not self.tokenizer.shows(id, control=self.control):
            return ""
        self._ids.append(id)
        if id in self.tokenizer.byte_ids:
            return ""
        text = self._decode()
        sure = len(text) - text.endswith(BROKEN)  # the rest of a character may follow
        new, self._shown = text[self._shown : sure], max(self._shown, sure)
        if new and sure == len(text):
            self._ids, self._context = self._ids[self._context :], len(self._ids) - self._context
            self._shown = len(self._decode())
        return new

    def pending(self) -> str:
        """Held-back text, as it reads if no id follows."""
        return self._decode()[self._shown :]

    def finish(self) -> str:
        """The rest of the text; no id follows."""
        text = self.pending()
        self._shown += len(text)
        return text

    def _decode(self) -> str:
        return self.tokenizer.decode(self._ids, control=self.control)


def split_stops(tokenizer: Tokenizer, stop: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Stop strings that are text, and the ids of those that are special tokens.

    Raises:
        ValueError: a string mixes a special token and text, so that no reply contains it.
    """
    special = {text: id for text, id in tokenizer.control.items() if id in tokenizer.special_ids}
    texts = tuple(s for s in stop if s not in special)
    for text in texts:
        if held := next((token for token in special if token in text), None):
            raise ValueError(
                f"the stop text {text!r} would never be seen: {held} in it is no text; stop at {held} alone"
            )
    return texts, tuple(special[s] for s in stop if s in special)


@dataclass(slots=True)
class _Row:
    text: TextStream
    held: str = ""
    """Decoded text that may be the beginning of a stop string."""
    stopped: bool = False


class Stopper:
    """The texts of a batch of sequences; each stops on its own.

    The first complete stop string ends a text; of those complete at the same character, the longest. Token boundaries
    do not matter.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, control: bool = False) -> None:
        if any(not text for text in stop):
            raise ValueError("an empty stop string would stop at once; leave it out")
        self._tokenizer, self._stop, self._control = tokenizer, tuple(stop), control
        self._rows: dict[int, _Row] = {}

    def push(self, sequence: int, id: int) -> tuple[str, bool]:
        """The text to show after another id of a sequence, and whether a stop string ended it."""
        row = self._row(sequence)
        if row.stopped:
            return "", True
        text, stopped = self._show(row, row.text.push(id))
        pending = row.text.pending() if self._stop and not stopped else ""
        if pending and BROKEN not in pending and any(s in row.held + pending for s in self._stop):
            rest, stopped = self._show(row, row.text.finish())
            text += rest
        return text, stopped

    def finish(self, sequence: int) -> str:
        """Held-back text of a sequence that ends without a stop string."""
        row = self._row(sequence)
        if row.stopped:
            return ""
        text, stopped = self._show(row, row.text.finish())
        if not stopped:
            text, row.held, row.stopped = text + row.held, "", True
        return text

    def _row(self, sequence: int) -> _Row:
        if sequence not in self._rows:
            self._rows[sequence] = _Row(TextStream(self._tokenizer, self._control))
        return self._rows[sequence]

    def _show(self, row: _Row, text: str) -> tuple[str, bool]:
        held = row.held + text
        matches = [(at + len(s), at) for s in self._stop if (at := held.find(s)) >= 0]
        if matches:
            row.held, row.stopped = "", True
            return held[: min(matches)[1]], True
        sure = len(held) - max((_overlap(held, s) for s in self._stop), default=0)
        row.held = held[sure:]
        return held[:sure], False


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text may be the beginning of a stop string."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
