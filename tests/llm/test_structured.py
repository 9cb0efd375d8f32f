"""Forms: whatever a model prefers, what it writes keeps to them; what is cut is not called whole."""

from __future__ import annotations

import json
import random
import re

import pytest

from pipegraph.models.llm.decode.structured import Constraint, Grammar, GrammarError, Kind
from pipegraph.models.llm.tokenizer import Tokenizer

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 999}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def write(tokenizer: Tokenizer, grammar: Grammar, seed: int, limit: int = 400) -> tuple[str, bool]:
    """What a model writes that knows nothing, and whether it is whole."""
    vocabulary, chance = tokenizer.size + 6, random.Random(seed)
    constraint = Constraint(grammar, tokenizer, vocabulary, tokenizer.stop_ids)
    ids: list[int] = []
    for _ in range(limit):
        mask = constraint.mask(0, ids)
        assert mask.shape == (vocabulary,)
        id = chance.choice(mask.nonzero().flatten().tolist())
        if id in tokenizer.stop_ids:
            assert constraint.complete(0)
            return tokenizer.decode(ids), True
        constraint.advance(0, id)
        ids.append(id)
    return tokenizer.decode(ids), constraint.complete(0)


@pytest.mark.parametrize("seed", range(6))
def test_json_by_a_schema(tokenizer: Tokenizer, seed: int) -> None:
    text, whole = write(tokenizer, Grammar.of("json", json.dumps(PERSON)), seed)
    assert whole
    value = json.loads(text)
    assert [*value] == ["name", "age"]
    assert len(value["name"]) <= 12 and value["age"] <= 999 and type(value["age"]) is int
    assert text == json.dumps(value, ensure_ascii=False) or "\\" in text  # no blanks but one after , and :


@pytest.mark.parametrize(
    ("kind", "source", "wanted"),
    [
        ("regex", r"[0-9]{3}-(cat|dog)", r"[0-9]{3}-(cat|dog)"),
        ("choices", "a red fox\nnaïve 😀\n", "a red fox|naïve 😀"),
        ("choices", '["say \\"no\\"", "a|b"]', r'say "no"|a\|b'),
        ("grammar", 'start: ("ab" | "😀")~2 "!"', "(ab|😀){2}!"),
    ],
)
def test_other_forms(tokenizer: Tokenizer, kind: Kind, source: str, wanted: str) -> None:
    grammar = Grammar.of(kind, source)
    found = {write(tokenizer, grammar, seed) for seed in range(5)}
    assert all(whole and re.fullmatch(wanted, text) for text, whole in found)
    assert len(found) > 1


def test_what_the_limit_cuts_is_not_whole(tokenizer: Tokenizer) -> None:
    text, whole = write(tokenizer, Grammar.of("json", json.dumps(PERSON)), 0, limit=4)
    assert not whole
    with pytest.raises(ValueError):
        json.loads(text)


def test_sequences_of_a_batch_are_apart(tokenizer: Tokenizer) -> None:
    constraint = Constraint(Grammar.of("choices", "ab\nxy"), tokenizer, tokenizer.size, tokenizer.stop_ids)
    a, x = (tokenizer.encode(c)[0] for c in "ax")
    constraint.advance(0, a)
    assert not constraint.mask(0)[x] and constraint.mask(1)[x]
    constraint.advance(0, tokenizer.encode("b")[0])
    assert constraint.complete(0) and constraint.ended(0) and not constraint.complete(1)
    assert set(constraint.mask(0).nonzero().flatten().tolist()) == tokenizer.stop_ids
    with pytest.raises(GrammarError, match="cannot be kept to"):
        constraint.advance(1, tokenizer.encode("q")[0])


@pytest.mark.parametrize(
    ("kind", "source", "error"),
    [
        ("json", "{", "no JSON schema"),
        ("json", "[]", "a schema is a JSON object"),
        ("json", '{"type": "nothing"}', "cannot be kept to"),
        ("json", '{"type": "string", "minLength": 5, "maxLength": 2}', "cannot be kept to"),
        ("regex", "(", "cannot be kept to"),
        ("choices", "", "give some texts"),
        ("choices", "[1]", "give some texts"),
        ("grammar", "start: nowhere", "cannot be kept to"),
    ],
)
def test_broken_forms_are_refused(kind: Kind, source: str, error: str) -> None:
    with pytest.raises(GrammarError, match=error):
        Grammar.of(kind, source)


def test_a_model_without_an_end_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(GrammarError, match="no token that ends"):
        Constraint(Grammar.of("choices", "a"), tokenizer, tokenizer.size, frozenset())
