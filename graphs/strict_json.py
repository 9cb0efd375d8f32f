"""JSON read strictly: no duplicate keys, no NaN or Infinity, limits on size, depth and numbers, each with its place.

The text goes through the standard library's C scanner. Only if that meets something wrong, a slow scan finds the
places of all faults of this kind.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from pipegraph.limits import GRAPH_BYTES, GRAPH_DEPTH, NUMBER_DIGITS

from .errors import GraphError, Problem

_TOKEN = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)'
    r"|(?P<word>-?[A-Za-z]+)|(?P<mark>[\[\]{},:]))"
)
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")


class _Wrong(ValueError):
    """Something that the slow scan is to find."""


def decode(data: bytes, source: str = "") -> str:
    """UTF-8 text, with or without byte order mark, of at most ``GRAPH_BYTES``."""
    if len(data) > GRAPH_BYTES:
        message = "the file is too large for a graph"
        raise GraphError([_problem("too_large", message, source, f"{len(data)} bytes", f"at most {GRAPH_BYTES}")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        problem = _problem("bad_text", "the file is not UTF-8 text", f"byte {e.start}", f"0x{data[e.start]:02x}")
        raise GraphError([problem]) from None


def parse(text: str) -> Any:
    """The value that ``text`` stands for.

    Raises:
        GraphError: codes ``invalid_json``, ``duplicate_key``, ``not_finite``, ``number_too_large``, ``too_deep``,
            ``bad_text``.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
        if "\\u" in text and re.search(r"\\u[dD][89a-fA-F]", text) and (problems := faults(text)):
            raise GraphError(problems)
        return value
    except json.JSONDecodeError as e:
        problem = _problem("invalid_json", f"not valid JSON: {e.msg}", f"line {e.lineno}, column {e.colno}")
        raise GraphError([problem]) from None
    except RecursionError:
        problems = faults(text)
    except ValueError as e:
        problems = faults(text) or [_problem("invalid_json", f"not valid JSON: {e}")]
    raise GraphError(problems or [_problem("too_deep", f"nested deeper than {GRAPH_DEPTH} levels")])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Wrong("duplicate key")
    return made


def _refuse(word: str) -> float:
    raise _Wrong(word)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Wrong(text)
    return value


def faults(text: str) -> list[Problem]:
    """Everything in ``text`` that ``parse`` refuses, apart from faults of grammar, in the order of the text."""
    found: list[Problem] = []
    stack: list[tuple[set[str] | None, list[str]]] = []  # keys of an object (None: an array), its current key
    at, key_next = 0, False
    while match := _TOKEN.match(text, at):
        at = match.end()
        kind, token = match.lastgroup, match[match.lastgroup or 0]

        def add(code: str, message: str, got: str = "", *, start: int = at - len(token)) -> None:
            found.append(_problem(code, message, _place(text, start, stack), got))

        if token in ("{", "["):
            stack.append((set() if token == "{" else None, [""]))
            if len(stack) == GRAPH_DEPTH + 1:
                add("too_deep", f"nested deeper than {GRAPH_DEPTH} levels")
            key_next = token == "{"
        elif token in ("}", "]"):
            if not stack:
                break
            stack.pop()
            key_next = False
        elif token == ",":
            key_next = bool(stack) and stack[-1][0] is not None
        elif kind == "string":
            if _LONE_SURROGATE.search(value := _string(token)):
                add("bad_text", "half of a surrogate pair is no character", token[:40])
            if key_next and stack[-1][0] is not None:
                if value in stack[-1][0]:
                    add("duplicate_key", f'the key "{value}" is given twice')
                stack[-1][0].add(value)
                stack[-1][1][0] = value
                key_next = False
        elif kind == "number" and (len(token) > NUMBER_DIGITS or math.isinf(_number(token))):
            add("number_too_large", "the number is too large", token[:20] + ("…" if len(token) > 20 else ""))
        elif kind == "word" and token not in ("true", "false", "null"):
            add("not_finite", "JSON has no such number", token)
    return found


def _string(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _number(token: str) -> float:
    try:
        return float(token)
    except ValueError:
        return 0.0


def _place(text: str, start: int, stack: list[tuple[set[str] | None, list[str]]]) -> str:
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    path = ".".join(key[0] for _, key in stack[:6] if key[0])
    return f"line {line}, column {column}" + (f" ({path})" if path else "")


def _problem(code: str, message: str, place: str = "", got: str = "", wanted: str = "") -> Problem:
    return Problem(code=code, message=message, place=place, got=got, wanted=wanted)
