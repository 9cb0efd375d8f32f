"""Expressions are computed, and nothing else is: no names, calls or sizes but those that are meant."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pipegraph.cli.nodes import page
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.nodes.utils.math_expression import evaluate, math_expression, parse
from pipegraph.nodes.utils.primitives import primitive_int
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Runner


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b", 7),
        ("(a - 1) * 4 + 1", 9),
        ("a / 2", 1.5),
        ("a // 2", 1),
        ("-a % 4", 1),
        ("a ** 2", 9),
        ("2 ** -1", 0.5),
        ("a if b > 3 else 0", 3),
        ("a == 3 and b < 4", 0),
        ("0 or b", 4),
        ("0 and a", 0),
        ("not a", 0),
        ("1 < a <= 3", 1),
        ("sum(values)", 7),
        ("sum(a, b, 1)", 8),
        ("max(values) - min(a, b)", 1),
        ("round(10 / 4 + 0.1)", 3),
        ("ceil(a / 2) + floor(2.9)", 4),
        ("sqrt(b) + log2(8)", 5),
        ("int(2.9)", 2),
        ("a\n+\nb", 7),
        ("pow(a, 2)", 9),
        ("float(a)", 3),
        ("True + a", 4),
    ],
)
def test_values(expression: str, expected: float) -> None:
    assert evaluate(parse(expression), {"a": 3, "b": 4}) == expected


def test_three_types() -> None:
    found = math_expression("a * 2", values={"a": 1.75})
    assert (found.FLOAT, found.INT, found.BOOL) == (3.5, 3, True)
    assert type(math_expression("a", values={"a": True}).INT) is int


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "a.real",
        "values[0]",
        "[a] * 9",
        "(lambda: a)()",
        "'x'",
        "a := 3",
        "open(a)",
        "x for x in a",
        "a @ b",
        "sum(values=1)",
        "a b",
        "",
        "  ",
        "(" * 500 + "a" + ")" * 500,
        "-" * 1990 + "a",
        "1" * 3000,
        "a) + (b",
        "sum",
        "1j",
        "None",
    ],
)
def test_what_is_no_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"expression|arithmetic|function"):
        parse(expression)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("9 ** 9 ** 9", "too large"),
        ("pow(pow(9, 300), 9)", "too large"),
        ("10.0 ** 400", "too large"),
        ("a / (a - 3)", r"divides by 0, with a = 3"),
        ("sqrt(-a)", "has no value"),
        ("values * 3", "is a list"),
        ("(-a) ** 0.5", "is "),
        ("c", "needs a value c"),
        ("log(0)", "has no value"),
        ("max()", "has no value"),
        ("values", "is "),
    ],
)
def test_what_has_no_value_says_why(expression: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        evaluate(parse(expression), {"a": 3})
    assert math.isfinite(evaluate(parse("2 ** 1022"), {}))


CATALOG = Catalog.of(math_expression, primitive_int)


def run(**inputs: Any) -> Any:
    nodes = {
        "1": {"class_type": "PrimitiveInt", "inputs": {"value": 5}},
        "2": {"class_type": "ComfyMathExpression", "inputs": inputs},
    }
    document = {"pipegraph": 1, "nodes": nodes, "outputs": {"whole": ["2", 1], "yes": ["2", "BOOL"]}}
    return Runner().run(plan(check(load(document), CATALOG)))


def test_in_a_graph() -> None:
    result = run(expression="a * 16 + b", **{"values.a": ["1", 0], "values.b": 1})
    assert (result["whole"], result["yes"]) == (81, True)
    assert run(expression="2.6 * 2")["whole"] == 5


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"expression": "a + c", "values.a": ["1", 0]}, r"c is not among the values; these are: a"),
        ({"expression": "a +", "values.a": 1}, "cannot be read"),
        ({"expression": "a", "values.a": "x"}, "a whole number or a number or true or false"),
        ({"expression": "a", "values.aa": 1}, 'no input "values.aa"'),
    ],
)
def test_is_told_before_anything_runs(inputs: dict[str, Any], told: str) -> None:
    with pytest.raises(GraphError, match=told):
        run(**inputs)


def test_many_inputs_are_listed_as_one() -> None:
    assert page(CATALOG).count("| `values.a ... z` |") == 1
