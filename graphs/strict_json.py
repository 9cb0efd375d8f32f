"""Strict JSON: no duplicate keys, no NaN or Infinity, limits on size, depth and numbers; errors have line and column.

The standard library's C scanner counts the faults. Only if there are any, a slow scan looks for their places, in the
first ``SCANNED`` characters and for at most ``PROBLEMS`` faults.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any, Final

from pipegraph.limits import GRAPH_BYTES, GRAPH_DEPTH, NUMBER_DIGITS, PROBLEMS

from .errors import GraphError, Problem

SCANNED: Final = 1 << 20
"""Characters in which places of faults are looked for; it takes about a second."""
_TOKEN: Final = re.compile(
    r'[ \t\r\n]*(?:(?P<string>"(?:[^"\\]++|\\.)*+")|(?P<number>-?\d[\d.eE+-]*)'
    r"|(?P<word>-?[A-Za-z]+)|(?P<mark>[\[\]{},:]))"
)
_LONE_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)
"""An escape in a string; group 1 is half of a surrogate pair alone."""


def decode(data: bytes, source: str = "") -> str:
    """UTF-8 text, with or without byte order mark, of at most ``GRAPH_BYTES``."""
    if len(data) > GRAPH_BYTES:
        message, wanted = "the file is too large for a graph", f"at most {GRAPH_BYTES} bytes"
        raise GraphError([Problem(code="too_large", message=message, place=source, wanted=wanted)])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        place, got = _joined(source, f"byte {e.start}"), f"0x{data[e.start]:02x}"
        problem = Problem(code="bad_text", message="the file is not UTF-8 text", place=place, got=got)
        raise GraphError([problem]) from None


def parse(text: str, source: str = "") -> Any:
    """Parse JSON; ``source`` names the file in errors.

    Raises:
        GraphError: codes ``invalid_json``, ``duplicate_key``, ``not_finite``, ``number_too_large``, ``too_deep``,
            ``bad_text``.
    """
    hooks = _Hooks()
    try:
        value = json.loads(
            text, object_pairs_hook=hooks.object, parse_constant=hooks.constant, parse_float=hooks.number
        )
    except json.JSONDecodeError as e:
        raise GraphError([*faults(text[: e.pos], source), _grammar(text, e, source)]) from None
    except RecursionError:
        message = f"nested deeper than {GRAPH_DEPTH} levels"
        raise GraphError(faults(text, source) or [Problem(code="too_deep", message=message, place=source)]) from None
    except ValueError as e:  # a whole number with too many digits for Python
        problem = Problem(code="number_too_large", message=str(e), place=source)
        raise GraphError(faults(text, source) or [problem]) from None
    if "\\u" in text and re.search(r"\\u[dD][89a-fA-F]", text):
        for _ in (match for match in _ESCAPE.finditer(text) if match[1]):
            hooks.bad("bad_text", "half of a surrogate pair is no character")
    if hooks.count:
        listed = faults(text, source) or [replace(fault, place=source) for fault in hooks.first]
        raise GraphError(listed, hooks.count - len(listed))
    return value


class _Hooks:
    """Counts faults while the standard library parses; the first of them are kept, without their places."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Problem] = []

    def bad(self, code: str, message: str, got: str = "") -> None:
        self.count += 1
        if len(self.first) < PROBLEMS:
            self.first.append(Problem(code=code, message=message, got=got))

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            keys = set[str]()
            for key, _ in pairs:
                if key in keys:
                    self.bad("duplicate_key", f'the key "{key}" is given twice')
                keys.add(key)
        return value

    def constant(self, word: str) -> float:
        self.bad("not_finite", "JSON has no such number", word)
        return 0.0

    def number(self, text: str) -> float:
        value = float(text)
        if math.isinf(value) or len(text) > NUMBER_DIGITS:
            self.bad("number_too_large", "the number is too large", _cut(text))
        return value


def faults(text: str, source: str = "") -> list[Problem]:
    """Faults other than syntax errors, in order: at most ``PROBLEMS``.

    Only the first ``SCANNED`` characters are scanned, and nothing after too deep nesting.
    """
    problems: list[Problem] = []
    stack: list[tuple[set[str] | None, list[str]]] = []  # keys of an object (None: an array), its current key
    at, key_next, end = 0, False, min(len(text), SCANNED)
    line, line_start = 1, 0
    while len(problems) < PROBLEMS and at < end and (match := _TOKEN.match(text, at, end)):
        kind, token = match.lastgroup, match[match.lastgroup or 0]
        begin, at = at, match.end()
        fault: tuple[str, str, str] | None = None  # code, message, got
        if token in ("{", "["):
            stack.append((set() if token == "{" else None, [""]))
            key_next = token == "{"
            if len(stack) > GRAPH_DEPTH:
                fault, end = ("too_deep", f"nested deeper than {GRAPH_DEPTH} levels", ""), at
        elif token in ("}", "]"):
            if not stack:
                break
            stack.pop()
            key_next = False
        elif token == ",":
            key_next = bool(stack) and stack[-1][0] is not None
        elif kind == "string":
            if _LONE_SURROGATE.search(value := _string(token)):
                fault = "bad_text", "half of a surrogate pair is no character", token[:40]
            if key_next and stack[-1][0] is not None:
                if value in stack[-1][0]:
                    fault = "duplicate_key", f'the key "{value}" is given twice', ""
                stack[-1][0].add(value)
                stack[-1][1][0] = value
                key_next = False
        elif kind == "number" and (len(token) > NUMBER_DIGITS or math.isinf(_number(token))):
            fault = "number_too_large", "the number is too large", _cut(token)
        elif kind == "word" and token not in ("true", "false", "null"):
            fault = "not_finite", "JSON has no such number", token
        if newlines := text.count("\n", begin, at):  # strings hold none
            line, line_start = line + newlines, text.rfind("\n", begin, at) + 1
        if fault:
            code, message, got = fault
            path = ".".join(key[0] for _, key in stack[:6] if key[0])
            place = f"line {line}, column {at - len(token) - line_start + 1}" + (f" ({path})" if path else "")
            problems.append(Problem(code=code, message=message, place=_joined(source, place), got=got))
    return problems


def _grammar(text: str, error: json.JSONDecodeError, source: str) -> Problem:
    """Explain a syntax error by common causes."""
    place = _joined(source, f"line {error.lineno}, column {error.colno}")
    message, hint = f"not valid JSON: {error.msg}", ""
    before, after = text[max(0, error.pos - 1000) : error.pos].rstrip(), text[error.pos : error.pos + 1000].lstrip()
    start = text[:1000].lstrip().lower()
    if not start:
        place, message = source, "the file is empty"
    elif start.startswith("<"):
        place, message = source, "this is no JSON but an HTML or XML page"
        hint = "Fetch the file itself: a link to the page that shows it was saved."
    elif start.startswith("version https://git-lfs"):
        place, message = source, "this is a Git LFS pointer, not the file it stands for"
        hint = "`git lfs pull` fetches the file."
    elif before.endswith(",") and after[:1] in ("}", "]"):
        message = f'not valid JSON: there is a comma before the closing "{after[0]}"'
    elif after.startswith(("//", "/*", "#")):
        message = "not valid JSON: it has no comments"
    elif after.startswith("'"):
        message = "not valid JSON: texts and keys stand in double quotes"
    elif not after or error.msg.startswith("Unterminated string"):
        hint = "The file may be cut off."
    return Problem(code="invalid_json", message=message, place=place, hint=hint)


def _joined(source: str, place: str) -> str:
    return f"{source}, {place}" if source else place


def _cut(text: str) -> str:
    return text[:20] + ("…" if len(text) > 20 else "")


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
