"""Replies that keep to a form: a JSON schema, a regular expression, one of some texts, or a grammar.

At each token the ids that could lead out of the form are forbidden, so whatever ends by itself is whole. A reply that
the token limit cuts need not be: :meth:`Constraint.complete` says so. The work is done by ``llguidance``.
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
"""JSON on one line: free blanks would let a model write them for ever."""


class GrammarError(ValueError):
    """A form that cannot be kept to; says why."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What replies must look like."""

    kind: Kind
    source: str
    """As the user gave it: a schema or a list of choices in JSON, an expression, a grammar in Lark's notation."""
    compiled: str
    """For ``llguidance``."""

    @classmethod
    def of(cls, kind: Kind, source: str) -> Grammar:
        """Check a form.

        Raises:
            GrammarError: it is broken, nothing can meet it, or ``llguidance`` is not installed.
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
    """A grammar at work on a batch of replies."""

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer, vocabulary: int, stop_ids: frozenset[int]) -> None:
        """Start.

        Args:
            grammar: The form.
            tokenizer: Of the model.
            vocabulary: How many logits the model gives.
            stop_ids: Ids that end a reply; allowed where the form is whole.

        Raises:
            GrammarError: this tokenizer cannot write the form.
        """
        self.grammar = grammar
        self._tokens = _tokens(tokenizer, vocabulary, stop_ids)
        self._vocabulary = vocabulary
        self._matchers: dict[int, Any] = {}
        self._matcher(0)

    def mask(self, sequence: int, ids: Sequence[int] = ()) -> Tensor:
        """Which ids may come next in a sequence, bool [V]."""
        import torch

        matcher = self._matcher(sequence)
        packed = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
        _raise(matcher)
        bits = (packed[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        return bits.flatten()[: self._vocabulary].bool()

    def advance(self, sequence: int, id: int) -> None:
        """Take notice of the id that was chosen.

        Raises:
            GrammarError: it leads out of the form.
        """
        matcher = self._matcher(sequence)
        if not matcher.consume_token(id):
            _raise(matcher)

    def complete(self, sequence: int) -> bool:
        """Whether what was written so far is whole."""
        return bool(self._matcher(sequence).is_accepting())

    def ended(self, sequence: int) -> bool:
        """Whether it is whole and nothing can be added."""
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
    """The tokenizer as ``llguidance`` wants it; made in about a second for a large vocabulary."""
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
    made: str = matcher.grammar_from_json_schema(schema, defaults=_LAYOUT)
    return made


def _choices(matcher: Any, source: str) -> str:
    texts = json.loads(source) if source.lstrip().startswith("[") else source.splitlines()
    texts = [t for t in texts if t != ""]
    if not texts or not all(isinstance(t, str) for t in texts):
        raise ValueError("give some texts, one a line or as a JSON list")
    made: str = matcher.grammar_from_lark("start: " + " | ".join(json.dumps(t, ensure_ascii=False) for t in texts))
    return made


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
