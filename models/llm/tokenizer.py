"""Text to token ids and back, on a fast tokenizer of transformers.

A *control token* is one that a chat template writes and a user does not: special tokens (``<|im_start|>``), and added
tokens in brackets (``<tool_call>``). In plain text they are encoded as text, so that no user can end a turn by writing
one. A start token is added to plain text only: a template writes it itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ..loading.header_values import LoadError
from ..loading.headers import read_json
from ..loading.lock import imported
from ..loading.small_files import check_files, opened

NONCHARACTERS: Final = [chr(c) for c in range(0xFDD0, 0xFDF0)]
"""Characters that Unicode reserves for internal use, here to mark places in a text."""
END_OF_TURN: Final = frozenset(
    "<|im_end|> <|eot_id|> <|eom_id|> <end_of_turn> <turn|> <|end|> <|end_of_text|> <|endoftext|> <|eot|> "
    "<|return|> <|call|> <\uff5cend\u2581of\u2581sentence\uff5c> </s>".split()
)
"""End-of-turn tokens of well-known templates; replies stop there even if the files name another."""


@dataclass(frozen=True, eq=False)
class Tokenizer:
    """A tokenizer with its chat template. Using it does not change it."""

    fast: Any
    """A ``PreTrainedTokenizerFast``."""
    prefix: str = ""
    """The tokenizer prepends this, but not to a text that begins with a space: there we do, so no space is lost."""
    remarks: tuple[str, ...] = ()
    """Warnings for the user."""

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """From a folder in transformers' layout; no code in it is run.

        Raises:
            LoadError: it holds no tokenizer that the ``tokenizers`` library can run.
        """
        check_files(sorted(folder.glob("*.json")))
        options = {"local_files_only": True, "trust_remote_code": False}
        auto = imported("transformers:AutoTokenizer")
        fast = opened("the tokenizer", folder, lambda: auto.from_pretrained(folder, **options))
        if not getattr(fast, "is_fast", False):
            raise LoadError(f"the tokenizer of {folder} has no tokenizer.json, and none can be made from its files")
        if not fast.chat_template and (file := folder / "chat_template.json").is_file():  # older processors' file
            fast.chat_template = read_json(file).get("chat_template")
        return cls(fast)

    @property
    def chat_template(self) -> str | None:
        """The Jinja chat template; of several, the ``default``."""
        template = self.fast.chat_template
        return template.get("default") if isinstance(template, dict) else template

    @property
    def size(self) -> int:
        """Number of ids, added tokens included."""
        return len(self.fast)

    @cached_property
    def start(self) -> tuple[int, ...]:
        """Ids that start a text, e.g. BOS."""
        bare = self._read("a")
        whole = tuple(self.fast.backend_tokenizer.encode("a", add_special_tokens=True).ids)
        at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
        return whole[:at]

    @cached_property
    def control(self) -> dict[str, int]:
        """Control tokens and their ids."""
        added = self.fast.added_tokens_decoder.items()
        return {t.content: i for i, t in added if t.special or re.fullmatch(r"[<\[{].+[>\]}]", t.content)}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids of special tokens, which ``decode`` skips."""
        return frozenset(i for i, t in self.fast.added_tokens_decoder.items() if t.special)

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """Ids that end a reply: EOS and end of turn."""
        ends = {i for text, i in self.control.items() if text in END_OF_TURN}
        return frozenset(ends if self.fast.eos_token_id is None else ends | {self.fast.eos_token_id})

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Ids of the tokens ``<0x00>`` to ``<0xFF>`` of a tokenizer with byte fallback; else empty."""
        ids = [self.fast.backend_tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        falls_back = ids[0x41] is not None and self.decode([ids[0x41]]) == "A"
        return frozenset(i for i in ids if i is not None) if falls_back else frozenset()

    def shows(self, id: int, *, control: bool = False) -> bool:
        """Whether ``decode`` shows an id; it skips special ids unless ``control``, and unknown ids."""
        return (control or id not in self.special_ids) and self.fast.backend_tokenizer.id_to_token(id) is not None

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        """The ids of a text.

        Args:
            text: Any text.
            control: The text comes from a chat template: control tokens in it count, and no start token is added.
        """
        if control:
            return self._read(text)
        mark = free_mark([text])
        return (*self.start, *self.encode_marked(self.guard(text, mark), mark))

    def decode(self, ids: Iterable[int], *, control: bool = False) -> str:
        """The text of ids, without special tokens unless ``control``. Invalid bytes become U+FFFD."""
        text: str = self.fast.backend_tokenizer.decode([*ids], skip_special_tokens=not control)
        return text

    def guard(self, text: str, mark: str, special_only: bool = False) -> str:
        """Put a mark inside each control token that a text spells, for :meth:`encode_marked`."""
        pattern = self._special_pattern if special_only else self._control_pattern
        return pattern.sub(lambda m: m[0] + mark, text) if pattern else text

    def encode_marked(self, text: str, mark: str) -> tuple[int, ...]:
        """The ids of a text with control tokens; spelled tokens with a mark inside are text. Marks are removed."""
        first, *rest = text.split(mark)
        ids = [*self._read(first)]
        for piece in rest:
            ids += self._continued(piece)
        return tuple(ids)

    def _read(self, text: str) -> tuple[int, ...]:
        begins = self.prefix and text.startswith((" ", self.prefix))
        text = self.prefix + text if begins else text
        return tuple(self.fast.backend_tokenizer.encode(text, add_special_tokens=False).ids)

    def _continued(self, text: str) -> tuple[int, ...]:
        """The ids of a text in the middle of another, without the leading space of a beginning."""
        line, both = self._read("\n"), self._read("\n" + text)
        return both[len(line) :] if both[: len(line)] == line else self._read(text)

    @cached_property
    def _control_pattern(self) -> re.Pattern[str] | None:
        return _starts(self.control)

    @cached_property
    def _special_pattern(self) -> re.Pattern[str] | None:
        return _starts([text for text, i in self.control.items() if i in self.special_ids])


def _starts(tokens: Iterable[str]) -> re.Pattern[str] | None:
    """Matches the first character of each token, overlapping ones too."""
    known = "|".join(map(re.escape, sorted(tokens)))
    return re.compile(f"(?=(?:{known})).", re.S) if known else None


def free_mark(texts: Sequence[str]) -> str:
    """A noncharacter that is in none of the texts."""
    return next(c for c in NONCHARACTERS if not any(c in text for text in texts))
