"""Tool calls in a reply, in the formats of well-known chat templates.

    <tool_call>{"name": ..., "arguments": {...}}</tool_call>       Hermes, Qwen, SmolLM3
    <tool_call><function=NAME><parameter=KEY> ... </parameter></function></tool_call>      Qwen3-Coder
    [TOOL_CALLS][{"name": ..., "arguments": {...}}]                Mistral
    {"name": ..., "parameters": {...}}, alone or in a list         Llama 3, and Mistral if its token is not shown

JSON arguments are typed. Parameters between tags take their types from the tool's schema; without one they are strings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_BEGIN: Final = re.compile(r"<tool_call>\s*|\[TOOL_CALLS\]\s*")
_END: Final = re.compile(r"\s*(?:</tool_call>|\Z)")
_FUNCTION: Final = re.compile(r"\s*<function=([^>\s]+)>")
_FUNCTION_END: Final = re.compile(
    r"</function>(?=\s*(?:</tool_call>|<function=|\Z))|(?<=</parameter>)\s*(?=</tool_call>)|\Z"
)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>\n?")
_PARAMETER_END: Final = re.compile(r"\n?(?:</parameter>\s*)?\Z")
_DEEPEST: Final = 8
"""Depth to which ``$ref`` is followed."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
"""Python types of JSON types, without strings."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function by the model."""

    name: str
    arguments: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class CallSpan:
    """A range of a text with tool calls."""

    start: int
    end: int
    calls: tuple[ToolCall, ...]
    """Empty if they cannot be read."""
    problems: tuple[str, ...] = ()


def find_calls(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> list[CallSpan]:
    """All tool calls in a text, in order.

    Args:
        text: A reply.
        tools: JSON schemas of functions, bare or as ``{"type": "function", "function": {...}}``.
    """
    reader, places, at = _CallReader(tools), [], 0
    while begin := _BEGIN.search(text, at):
        place = reader.read(text, begin)
        places.append(place)
        at = place.end
    return places


def bare_calls(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> CallSpan | None:
    """The calls of a text that is nothing but JSON tool calls; else None."""
    reader = _CallReader(tools)
    try:
        calls = _calls(_DECODER.decode(text), bare=True)
    except (ValueError, RecursionError):
        return None
    return CallSpan(0, len(text), calls, reader.problems(calls)) if calls else None


class _CallReader:
    """Parses calls of the functions in the schemas; without schemas, of any function."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        functions = [t.get("function", t) for t in tools]
        self.schemas: dict[str, Mapping[str, Any]] = {f["name"]: f.get("parameters") or {} for f in functions}

    def read(self, text: str, begin: re.Match[str]) -> CallSpan:
        """Parse the call that begins at a match."""
        at = begin.end()
        if not begin[0].startswith("[") and _FUNCTION.match(text, at):
            return self._functions(text, begin.start(), at)
        calls: tuple[ToolCall, ...] = ()
        try:
            value, at = _DECODER.raw_decode(text, at)
            calls = _calls(value)
        except (ValueError, RecursionError):
            pass
        end = at if begin[0].startswith("[") else (m.end() if (m := _END.match(text, at)) else 0)
        if not calls or not end:
            return _unreadable(text, begin)
        return CallSpan(begin.start(), end, calls, self.problems(calls))

    def _functions(self, text: str, start: int, at: int) -> CallSpan:
        calls: list[ToolCall] = []
        problems: list[str] = []
        while function := _FUNCTION.match(text, at):
            end = _FUNCTION_END.search(text, function.end())
            assert end is not None  # the end of the text is one
            name, at = function[1], end.end()
            if not end[0] and at == len(text):
                problems.append(f"the reply ends inside a call of {name}; its last argument may be cut")
            arguments, wrong = self._arguments(name, text[function.end() : end.start()])
            calls.append(ToolCall(name, arguments))
            problems += wrong
        close = _END.match(text, at)
        problems += self.problems(calls)
        return CallSpan(start, close.end() if close else at, tuple(calls), tuple(problems))

    def _arguments(self, function: str, body: str) -> tuple[dict[str, Any], list[str]]:
        whole = self.schemas.get(function, {})
        schemas = whole.get("properties") or {}
        marks = [m for m in _PARAMETER.finditer(body) if _begins(body, m, schemas)]
        ends = [*(m.start() for m in marks[1:]), len(body)]
        arguments: dict[str, Any] = {}
        problems = []
        for mark, end in zip(marks, ends, strict=True):
            text = _PARAMETER_END.sub("", body[mark.end() : end], count=1)
            kinds = _kinds(schemas.get(mark[1]), whole)
            fits, value = _typed(text, kinds)
            if not fits:
                wanted = " or ".join(sorted(kinds))
                problems.append(f"{function} wants {wanted} as {mark[1]}, and gets {text[:80]!r}; it stays text")
            arguments[mark[1]] = value
        return arguments, problems

    def problems(self, calls: Iterable[ToolCall]) -> tuple[str, ...]:
        """Problems for calls of unknown functions."""
        known = ", ".join(self.schemas)
        return tuple(
            f"the model calls {c.name!r}, and the tools are {known}"
            for c in calls
            if self.schemas and c.name not in self.schemas
        )


def _unreadable(text: str, begin: re.Match[str]) -> CallSpan:
    """An unreadable call, up to its closing tag or the next call."""
    after = re.compile(r"</tool_call>|(?=<tool_call>)|\Z").search(text, begin.end())
    assert after is not None
    end = len(text) if begin[0].startswith("[") else after.end()
    return CallSpan(
        begin.start(), end, (), (f"a call of a tool cannot be read: {text[begin.end() : end].strip()[:200]}",)
    )


def _begins(body: str, mark: re.Match[str], schemas: Mapping[str, Any]) -> bool:
    """Whether a parameter begins at a match, which may also be part of the value before it.

    It does after the closing tag of another. Without that tag, it does at the beginning of a line, if the function has
    such a parameter or no schema.
    """
    before = body[: mark.start()]
    if not before.strip() or before.rstrip().endswith("</parameter>"):
        return True
    return before.endswith("\n") and (not schemas or mark[1] in schemas)


def _kinds(schema: Any, whole: Mapping[str, Any], deep: int = 0) -> frozenset[str]:
    """JSON types that a schema allows; empty if it names none."""
    if not isinstance(schema, Mapping) or deep > _DEEPEST:
        return frozenset()
    if isinstance(reference := schema.get("$ref"), str):
        return _kinds(_resolved(reference, whole), whole, deep + 1)
    if kinds := schema.get("type"):
        return frozenset([kinds] if isinstance(kinds, str) else kinds)
    values = [schema["const"]] if "const" in schema else schema.get("enum", [])
    parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    return frozenset(_kind(v) for v in values).union(*(_kinds(part, whole, deep + 1) for part in parts))


def _resolved(reference: str, whole: Mapping[str, Any]) -> Any:
    """The schema that ``#/a/b`` refers to."""
    value: Any = whole
    for name in reference.removeprefix("#").split("/")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _kind(value: Any) -> str:
    """JSON type of a value."""
    if isinstance(value, str):
        return "string"
    return "boolean" if isinstance(value, bool) else next(kind for kind, t in _TYPES.items() if isinstance(value, t))


def _typed(text: str, kinds: frozenset[str]) -> tuple[bool, Any]:
    """Whether a parameter has one of these types, and its value; a string without types or if strings are allowed."""
    if not kinds or "string" in kinds:
        return True, None if "null" in kinds and text.strip() == "null" else text
    try:
        value = _DECODER.decode({"True": "true", "False": "false", "None": "null"}.get(text.strip(), text))
    except (ValueError, RecursionError):
        return False, text
    if isinstance(value, float) and value.is_integer() and "number" not in kinds:
        value = int(value)  # 3.0 is an integer of JSON
    kind = _kind(value)
    return (True, value) if kind in kinds or (kind == "integer" and "number" in kinds) else (False, text)


def _calls(value: Any, bare: bool = False) -> tuple[ToolCall, ...]:
    """The calls in a JSON value; empty if any item is not a call."""
    calls = [_call(v, bare) for v in (value if isinstance(value, list) else [value])]
    return tuple(c for c in calls if c) if all(calls) else ()


def _call(value: Any, bare: bool) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    value = value.get("function", value) if value.get("type") == "function" else value
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments", value.get("parameters", None if bare else {}))
    if isinstance(arguments, str):
        try:
            arguments = _DECODER.decode(arguments)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value.get("name"), str) or not isinstance(arguments, dict):
        return None
    return ToolCall(value["name"], arguments)


def _finite(number: str) -> float:
    if not math.isfinite(value := float(number)):
        raise ValueError(f"{number} is no number of JSON that can be held")
    return value


_DECODER: Final = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)
"""Accepts line breaks inside strings, as models write them."""
