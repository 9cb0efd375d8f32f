"""Structured replies: a JSON schema, a regular expression, one of some texts, or a grammar.

At each token the ids that would violate the grammar are masked, so a reply that ends on its own is complete. A reply
cut by the token limit may not be: see :meth:`Constraint.complete`. Grammars run in ``llguidance``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from ..tokenizer import Tokenizer

Kind = Literal["json", "regex", "choices", "grammar"]
_LAYOUT: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON on one line: with free whitespace a model can write blanks forever."""


class GrammarError(ValueError):
    """A grammar that is invalid or that no reply can meet."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The grammar of replies."""

    kind: Kind
    source: str
    """The user's text: a schema or a list of choices in JSON, a regular expression, a Lark grammar."""
    compiled: str
    """For ``llguidance``."""

    @classmethod
    def of(cls, kind: Kind, source: str) -> Grammar:
        """Compile and check a grammar.

        Raises:
            GrammarError: it is invalid, nothing matches it, or ``llguidance`` is not installed.
        """
        guidance = _library()
        try:
            compiled = _COMPILE[kind](guidance.LLMatcher, source)
        except ValueError as e:
            raise GrammarError(f"this is no {_NAMES[kind]}: {e}") from e
        if problem := guidance.LLMatcher.validate_grammar(compiled):
            raise GrammarError(f"this {_NAMES[kind]} cannot be kept to: {problem}")
        return cls(kind, source, compiled)


class Constraint:
    """A grammar applied to a batch of replies."""

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer, vocabulary: int, stop_ids: frozenset[int]) -> None:
        """Start.

        Args:
            grammar: The grammar.
            tokenizer: The model's tokenizer.
            vocabulary: Number of logits.
            stop_ids: Ids that end a reply; allowed where the reply is complete.

        Raises:
            GrammarError: this tokenizer cannot write the grammar.
        """
        self.grammar = grammar
        self._tokens = _tokens(tokenizer, vocabulary, stop_ids)
        self._vocabulary = vocabulary
        self._matchers: dict[int, Any] = {}
        self._matcher(0)

    def mask(self, sequence: int, ids: Sequence[int] = ()) -> Tensor:
        """Ids that may come next in a sequence, bool [V]."""
        import torch

        matcher = self._matcher(sequence)
        packed = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
        _raise(matcher)
        bits = (packed[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        return bits.flatten()[: self._vocabulary].bool()

    def advance(self, sequence: int, id: int) -> None:
        """Advance by the chosen id.

        Raises:
            GrammarError: the id violates the grammar.
        """
        matcher = self._matcher(sequence)
        if not matcher.consume_token(id):
            _raise(matcher)

    def complete(self, sequence: int) -> bool:
        """Whether the reply so far is complete."""
        return bool(self._matcher(sequence).is_accepting())

    def ended(self, sequence: int) -> bool:
        """Whether the reply is complete and nothing can be added."""
        return bool(self._matcher(sequence).is_stopped())

    def _matcher(self, sequence: int) -> Any:
        if sequence not in self._matchers:
            self._matchers[sequence] = _library().LLMatcher(self._tokens, self.grammar.compiled, log_level=0)
            _raise(self._matchers[sequence])
        return self._matchers[sequence]


def _raise(matcher: Any) -> None:
    if matcher.is_error():
        raise GrammarError(f"the form cannot be kept to: {matcher.get_error()}")


@lru_cache(maxsize=4)
def _tokens(tokenizer: Tokenizer, vocabulary: int, stop_ids: frozenset[int]) -> Any:
    """The tokenizer for ``llguidance``; takes about a second for a large vocabulary."""
    ends = sorted(i for i in stop_ids if i < vocabulary)
    if not ends:
        raise GrammarError("this model has no token that ends a reply, so a form could never end")
    fast = tokenizer.fast.backend_tokenizer.to_str()
    return _library().LLTokenizer(fast, n_vocab=max(vocabulary, tokenizer.size), eos_token=ends)


def _library() -> Any:
    try:
        import llguidance
    except ImportError as e:
        raise GrammarError("replies in a form need the package llguidance: pip install llguidance") from e
    return llguidance


def _schema(matcher: Any, source: str) -> str:
    schema = json.loads(source)
    if not isinstance(schema, Mapping):
        raise ValueError(f"a schema is a JSON object, not {source[:40]!r}")
    grammar: str = matcher.grammar_from_json_schema(schema, defaults=_LAYOUT)
    return grammar


def _choices(matcher: Any, source: str) -> str:
    texts = json.loads(source) if source.lstrip().startswith("[") else source.splitlines()
    texts = [t for t in texts if t != ""]
    if not texts or not all(isinstance(t, str) for t in texts):
        raise ValueError("give some texts, one a line or as a JSON list")
    grammar: str = matcher.grammar_from_lark("start: " + " | ".join(json.dumps(t, ensure_ascii=False) for t in texts))
    return grammar


_COMPILE: Final[Mapping[str, Any]] = {
    "json": _schema,
    "regex": lambda matcher, source: matcher.grammar_from_regex(source),
    "choices": _choices,
    "grammar": lambda matcher, source: matcher.grammar_from_lark(source),
}
_NAMES: Final = {
    "json": "JSON schema",
    "regex": "regular expression",
    "choices": "list of choices",
    "grammar": "grammar",
}
