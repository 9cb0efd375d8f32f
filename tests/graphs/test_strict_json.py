"""JSON is read strictly, and each fault is told with its place."""

from __future__ import annotations

import re

import pytest
from tests.support.cost import within

from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.strict_json import decode, parse
from pipegraph.limits import GRAPH_DEPTH, PROBLEMS


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(GraphError) as caught:
        parse(text)
    return [(p.code, p.place) for p in caught.value.problems]


def test_sound_text_is_read() -> None:
    text = '{"a": [1, -2.5e3, "\\ud83d\\ude00 猫", null, true, 18446744073709551615], "b": {"a": {}}}'
    assert parse(text) == {"a": [1, -2500.0, "\U0001f600 猫", None, True, 2**64 - 1], "b": {"a": {}}}


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('{"a": 1,\n "a": 2}', "duplicate_key", "line 2, column 2 (a)"),
        ('{"x": {"b": 1, "b": 1}}', "duplicate_key", "line 1, column 16 (x.b)"),
        ('{"a": NaN}', "not_finite", "line 1, column 7 (a)"),
        ('{"a": [-Infinity]}', "not_finite", "line 1, column 8 (a)"),
        ('{"a": 1e400}', "number_too_large", "line 1, column 7 (a)"),
        ('{"a": ' + "9" * 5000 + "}", "number_too_large", "line 1, column 7 (a)"),
        ('{"a": "\\udc00"}', "bad_text", "line 1, column 7 (a)"),
        ('{"a": 1,}', "invalid_json", "line 1, column 9"),
        ("[" * 100_000, "too_deep", f"line 1, column {GRAPH_DEPTH + 1}"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "too_deep", f"line 1, column {5 * GRAPH_DEPTH + 1} (a.a.a.a.a.a)"),
    ],
)
def test_each_fault_has_its_code_and_place(text: str, code: str, place: str) -> None:
    assert problems(text) == [(code, place)]


def test_all_faults_are_told_at_once() -> None:
    text = '{"a": 1, "a": NaN, "c": [1e999, {"k": 0, "k": Infinity}]}'
    codes = [code for code, _ in problems(text)]
    assert codes == ["duplicate_key", "not_finite", "number_too_large", "duplicate_key", "not_finite"]


def test_strings_that_look_like_faults_are_none() -> None:
    assert parse('{"a": "NaN 1e999 \\" { [", "b": "\\\\ud800"}') == {"a": 'NaN 1e999 " { [', "b": "\\ud800"}


def test_bytes_that_are_no_text() -> None:
    assert decode("\ufeff{}".encode()) == "{}"
    with pytest.raises(GraphError, match="byte 2"):
        decode(b'{"\xff"}')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "graph.json: the file is empty"),
        (" \n", "graph.json: the file is empty"),
        ("<!DOCTYPE html>\n<html>", "graph.json: this is no JSON but an HTML or XML page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0", "graph.json: this is a Git LFS pointer"),
        ('{"a": 1,}', 'graph.json, line 1, column 9: not valid JSON: there is a comma before the closing "}"'),
        ("[1,\n]", 'graph.json, line 2, column 1: not valid JSON: there is a comma before the closing "]"'),
        ('{"a": 1, // one\n}', "line 1, column 10: not valid JSON: it has no comments"),
        ("{'a': 1}", "line 1, column 2: not valid JSON: texts and keys stand in double quotes"),
        ('{"a": [1, 2', "The file may be cut off"),
        ('{"a": "tex', "The file may be cut off"),
    ],
)
def test_common_causes_have_their_own_words(text: str, words: str) -> None:
    with pytest.raises(GraphError, match=re.escape(words)):
        parse(text, "graph.json")


def test_faults_before_one_of_grammar_are_told_too() -> None:
    assert problems('{"a": NaN, "b": [1,]}') == [
        ("not_finite", "line 1, column 7 (a)"),
        ("invalid_json", "line 1, column 20"),
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("[" + "NaN," * 300_000 + "1]", 300_000),
        ("{" + '"a":0,' * 300_000 + '"a":0}', 300_000),
        ("[" + "1e999," * 200_000 + "1]", 200_000),
        ('["' + "\\ud800" * 300_000 + '"]', 300_000),
        ('["' + "\\ud800" * 500_000 + '"]', 500_000),
        ("[" * 5_000_000, 1),
        ("[" + "0," * 2_000_000 + "NaN]", 1),
    ],
    ids=["nan", "keys", "numbers", "surrogates", "surrogates far on", "deep", "the last value"],
)
def test_very_many_faults_are_counted_in_little_time(text: str, count: int) -> None:
    with within(40):
        with pytest.raises(GraphError) as caught:
            parse(text)
        listed = len(caught.value.problems)
    assert listed <= PROBLEMS and listed + caught.value.unlisted == count
    assert (f"... and {count - listed:,} more problems" in str(caught.value)) is (count > listed)
