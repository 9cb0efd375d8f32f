"""Evaluate arithmetic expressions; they are parsed, never run as Python.

Numbers, the inputs' names, ``+ - * / // % **``, ``& | ^ ~ << >>``, comparisons, ``and or not``, ``x if c else y`` and
the functions below; ``values`` is a list of all inputs. Integers stay integers. Numbers with more bits than a FLOAT can
hold are an error.
"""

from __future__ import annotations

import ast
import math
import operator
import string
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

from pipegraph.runtime.node import Grows, Linked, Multiline, node, outputs

from ..wire import Numbers

_LONGEST: Final = 2000
"""Longest expression in characters."""
_BITS: Final = 1023
"""Bits of the largest integer that a FLOAT can hold."""
_NAMES: Final = tuple(string.ascii_lowercase)


def _sum(*numbers: Any) -> Any:
    return sum(numbers[0]) if len(numbers) == 1 and isinstance(numbers[0], list) else sum(numbers)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > 2 * _BITS:
        raise OverflowError
    return operator.pow(base, exponent)


def _shift(number: Any, bits: Any) -> Any:
    if isinstance(number, int) and isinstance(bits, int) and bits > 2 * _BITS:
        raise OverflowError
    return operator.lshift(number, bits)


_OPERATORS: Final[dict[type, Callable[..., Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power, ast.USub: operator.neg,
    ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.Invert: operator.invert, ast.LShift: _shift, ast.RShift: operator.rshift,
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": _sum, "min": min, "max": max, "abs": abs, "round": round, "pow": _power, "sqrt": math.sqrt,
    "ceil": math.ceil, "floor": math.floor, "log": math.log, "log2": math.log2, "log10": math.log10, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "int": int, "float": float,
}  # fmt: skip


@outputs
class Result:
    """One number in three types."""

    FLOAT: float
    INT: int
    BOOL: bool


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Check the expression against the connected values."""
    if "expression" in linked:
        return
    available = {n for n in _NAMES if f"values.{n}" in linked or values.get(f"values.{n}") is not None}
    try:
        tree = parse(values["expression"])
        if missing := names(tree) - available - {"values"}:
            listed = ", ".join(sorted(available)) or "none"
            raise ValueError(f"{', '.join(sorted(missing))} is not among the values; these are: {listed}")
    except ValueError as e:
        yield "expression", str(e)


@node("ComfyMathExpression", category="math", title="Math Expression", check=_check)
def math_expression(
    expression: Annotated[str, Multiline()] = "a + b", *, values: Annotated[Numbers, Grows(_NAMES)]
) -> Result:
    """Compute an expression, e.g. `a * 16 + 1` or `min(a, b) if c else 0`.

    Args:
        expression: Numbers, names of the values, + - * / // % **, comparisons, and, or, not, x if c else y; sum, min,
            max, abs, round, pow, sqrt, ceil, floor, log, log2, log10, sin, cos, tan, int, float; `values` is a list
            of all.
        values: Values of the names; true is 1, false 0.
    """
    result = evaluate(parse(expression), values)
    return Result(float(result), int(result), bool(result))


def parse(expression: str) -> ast.expr:
    """Parse an expression; ValueError if it holds anything but arithmetic."""
    if len(expression) > _LONGEST:
        raise ValueError(f"an expression has at most {_LONGEST} characters, this one {len(expression)}")
    if not expression.strip():
        raise ValueError("the expression is empty")
    try:
        tree = ast.parse(" ".join(expression.split()), mode="eval").body
        names(tree)
    except (SyntaxError, RecursionError, MemoryError) as e:
        raise ValueError(f"the expression cannot be read: {e.args[0] if e.args else type(e).__name__}") from None
    return tree


def names(tree: ast.expr) -> set[str]:
    """Names of values in an expression; ValueError at anything but arithmetic."""
    match tree:
        case ast.Constant(value=bool() | int() | float()):
            return set()
        case ast.Name(id=name):
            if name in _FUNCTIONS:
                raise ValueError(f"{name} is a function: write {name}(...)")
            return {name}
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _OPERATORS:
            return names(a) | names(b)
        case ast.UnaryOp(op=op, operand=a) if type(op) in _OPERATORS:
            return names(a)
        case ast.BoolOp(values=parts):
            return set().union(*map(names, parts))
        case ast.Compare(left=a, ops=ops, comparators=parts) if all(type(op) in _OPERATORS for op in ops):
            return names(a).union(*map(names, parts))
        case ast.IfExp(test=c, body=a, orelse=b):
            return names(c) | names(a) | names(b)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            if name not in _FUNCTIONS:
                raise ValueError(f"there is no function {name}; there are: {', '.join(_FUNCTIONS)}")
            return set().union(*map(names, parts))
    raise ValueError(f"`{ast.unparse(tree)}` is no arithmetic")


def evaluate(tree: ast.expr, values: Mapping[str, Any]) -> int | float:
    """The value of a parsed expression; ValueError if it has none that is a finite number."""
    try:
        result = _value(tree, {**values, "values": list(values.values())})
        if isinstance(result, int | float) and math.isfinite(result):
            return result
        fault = f"is {result}"
    except KeyError as e:
        fault = f"needs a value {e.args[0]}"
    except ZeroDivisionError:
        fault = "divides by 0"
    except (OverflowError, RecursionError):
        fault = "is too large"
    except (ValueError, TypeError) as e:
        fault = f"has no value: {e}"
    listed = ", ".join(f"{k} = {v}" for k, v in values.items())
    raise ValueError(f"`{ast.unparse(tree)}` {fault}" + (f", with {listed}" if listed else ""))


def _value(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.BinOp(left=a, op=op, right=b):
            return _small(_OPERATORS[type(op)](_number(a, values), _number(b, values)))
        case ast.UnaryOp(op=op, operand=a):
            return _OPERATORS[type(op)](_number(a, values))
        case ast.BoolOp(op=op, values=parts):
            stops = isinstance(op, ast.Or)
            for part in parts:
                if bool(value := _value(part, values)) == stops:
                    break
            return value
        case ast.Compare(left=a, ops=ops, comparators=parts):
            operands = [_number(p, values) for p in (a, *parts)]
            return all(_OPERATORS[type(op)](x, y) for op, x, y in zip(ops, operands, operands[1:], strict=False))
        case ast.IfExp(test=c, body=a, orelse=b):
            return _value(a if _value(c, values) else b, values)
        case ast.Call(func=ast.Name(id=name), args=parts):
            return _small(_FUNCTIONS[name](*(_value(p, values) for p in parts)))
    raise AssertionError(tree)


def _number(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an operand; lists are for functions only."""
    if isinstance(value := _value(tree, values), list):
        raise TypeError(f"`{ast.unparse(tree)}` is a list: give it to sum, min or max")
    return value


def _small(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise OverflowError
    return value
