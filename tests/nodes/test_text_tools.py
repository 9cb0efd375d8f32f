"""Text tools: format, measure, compare, regular expressions, JSON, numbers and truth."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from pipegraph.nodes.utils import choices, json_values, patterns, text


def test_values_in_a_text() -> None:
    values: Any = {"a": "medium", "b": 1.5, "c": torch.zeros(2, 3)}
    assert text.string_format(values=values, f_string="{a}: {b:.2f} {{{b}}}") == "medium: 1.50 {1.5}"
    assert text.string_format(values=values, f_string="{c}") == '"tensor [2, 3] float32, 0 to 0"'
    assert text.string_format(values={"a": True}) == "True"
    for wrong, said in {
        "{d}": "which is no value; connected are: a, b, c",
        "{a.__class__}": "looks inside a value",
        "{a[0]}": "looks inside a value",
        "{b:99999999d}": "pads to more than 10000",
        "{a:{b}d}": "does not fit",
        "{a:d}": "does not fit",
    }.items():
        with pytest.raises(ValueError, match=said):
            text.string_format(values=values, f_string=wrong)
    assert [name for name, _ in text._check({"f_string": "{a"}, {})] == ["f_string"]
    assert not [*text._check({"f_string": "{{"}, {})] and not [*text._check({}, {"f_string": ("", {})})]


def test_parts_and_cases() -> None:
    assert text.string_substring("abcdef", 1, -1) == "bcde" and text.string_length("猫 ") == 2
    assert [
        text.case_converter("aBC dEF", mode) for mode in ("UPPERCASE", "lowercase", "Capitalize", "Title Case")
    ] == [
        "ABC DEF",
        "abc def",
        "Abc def",
        "Abc Def",
    ]
    assert [text.string_trim(" a\n", mode) for mode in ("Both", "Left", "Right")] == ["a", "a\n", " a"]
    assert text.string_contains("Abc", "B", False) and not text.string_contains("Abc", "B")
    assert text.string_compare("abc", "ab") and text.string_compare("abc", "bc", "Ends With")
    assert text.string_compare("A", "a", "Equal", False) and not text.string_compare("A", "a", "Equal")


def test_regular_expressions() -> None:
    lines = "a1\nb22\nC3"
    assert patterns.regex_match(lines, "c") and not patterns.regex_match(lines, "c", case_insensitive=False)
    assert patterns.regex_match(lines, "^b", multiline=True) and not patterns.regex_match(lines, "^b")
    assert patterns.regex_match(lines, "1.b", dotall=True) and not patterns.regex_match(lines, "1.b")
    extract = patterns.regex_extract
    assert extract(lines, r"\d+") == "1" and extract(lines, r"\d+", "All Matches") == "1\n22\n3"
    assert extract(lines, r"(\w)(\d+)", "All Matches") == "a\nb\nC"
    assert extract(lines, r"(\w)(\d+)", "First Group", group_index=2) == "1"
    assert extract(lines, r"(\w)(\d+)", "All Groups", group_index=2) == "1\n22\n3"
    assert extract(lines, r"(x)?a", "First Group") == "" and extract(lines, "x") == ""
    assert extract(lines, r"(\w)", "First Group", group_index=2) == ""
    found = extract('"lighting": "soft", "medium": "oil"', r'"lighting":\s*"([^"]*)"', "First Group", False)
    assert found == "soft"
    fenced = '```json\n{"a": 1}\n```'
    opened = patterns.regex_replace(fenced, r"^```(?:json)?\s*\n?", "", count=1)
    assert patterns.regex_replace(opened, r"\n?```\s*$", "", count=1) == '{"a": 1}'
    assert patterns.regex_replace("ab ab", r"(a)(b)", r"\2\1", count=1) == "ba ab"


def test_wrong_patterns_are_told_and_endless_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"regular expression '\(' is wrong"):
        patterns.regex_match("a", "(")
    with pytest.raises(ValueError, match="replacement"):
        patterns.regex_replace("a", "a", r"\3")
    assert [name for name, _ in patterns._check({"regex_pattern": "["}, {})] == ["regex_pattern"]
    assert not [*patterns._check({"regex_pattern": "a+"}, {})]
    assert not [*patterns._check({}, {"regex_pattern": ("PrimitiveString", {})})]
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    start = time.monotonic()
    for run in (patterns.regex_match, lambda s, p: patterns.regex_extract(s, p, "All Matches")):
        with pytest.raises(ValueError, match=r"takes longer than 0\.2 s"):
            run("a" * 60 + "!", r"(a|aa)+\w+$")
    assert time.monotonic() - start < 10


def test_json_in_the_answer_of_a_model() -> None:
    extract = json_values.json_extract_string
    answer = (
        'Here {it is}:\n```json\n{"prompt": "a \\"cat\\"", "mu": 0.5, "no": null, "list": [1, "é"], "yes": true}\n```'
    )
    assert extract(answer, "prompt") == 'a "cat"' and extract(answer, "mu") == "0.5"
    assert extract(answer, "no") == "" and extract(answer, "other") == "" and extract("nothing", "a") == ""
    assert extract(answer, "list") == '[1, "é"]' and extract(answer, "yes") == "True"
    assert extract('{"a": ' * 20000, "a") == "", "too deep to be read"


def test_values_as_json() -> None:
    assert json_values.convert_array_to_string([1, "é"], 0) == '[1, "é"]'
    assert json_values.convert_dictionary_to_string({"a": {"b": 1}}) == '{\n  "a": {\n    "b": 1\n  }\n}'
    with pytest.raises(ValueError, match="this is no JSON value"):
        json_values.convert_array_to_string([torch.zeros(1)])


def test_choices_and_seeds() -> None:
    chosen = choices.custom_combo("SFX", 2)
    assert (chosen.STRING, chosen.INDEX) == ("SFX", 2)
    options = {f"option{i}": f"text {i}" for i in range(12, 0, -1)}
    assert choices.custom_combo("text 10", 2, options).INDEX == 9, "the list counts, not the number that was saved"
    assert choices.custom_combo("other", 2, options).INDEX == 2
    spec = choices.custom_combo.node_spec  # type: ignore[attr-defined]
    assert spec.ignores and list(spec.outputs) == ["STRING", "INDEX"]
    assert choices.seed_node(7) == 7 and choices.seed_node.node_spec.inputs["seed"].seed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("value", "number", "whole"),
    [
        (True, 1.0, 1),
        (7, 7.0, 7),
        (-2.7, -2.7, -2),
        (" 1e3 ", 1000.0, 1000),
        ("12345678901234567891", 1.2345678901234567e19, 12345678901234567891),
    ],
)
def test_numbers_of_values(value: Any, number: float, whole: int) -> None:
    made = choices.number_convert(value)
    assert (made.FLOAT, made.INT) == (number, whole) and type(made.FLOAT) is float and type(made.INT) is int


@pytest.mark.parametrize(("value", "said"), [("", "is no number"), ("nan", "is no number"), ("1e999", "no whole")])
def test_what_is_no_number(value: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        choices.number_convert(value)
    with pytest.raises(ValueError, match="too large"):
        choices.number_convert(10**400)


def test_truth() -> None:
    assert choices.not_node("") and not choices.not_node(torch.zeros(2, 2))
    assert choices.and_node(values={"value0": 1, "value1": "a"}) and not choices.and_node(values={"value0": 0})
    assert choices.or_node(values={"value0": 0, "value1": "a"}) and not choices.or_node(values={"value0": []})
    with pytest.raises(ValueError, match="no value is connected"):
        choices.and_node(values={})
    passed = choices.pass_or_none(None, 3)
    assert (passed.output, passed.is_none) == (3, False)
    assert choices.pass_or_none().is_none and choices.pass_or_none(0, 3).output == 0
