"""Replies taken apart: thinking, answer, and calls of tools.

Read are the forms that well-known templates ask for:

    <think> ... </think> answer            thinking; its beginning may lie in the prompt
    <tool_call>{"name": ..., "arguments": {...}}</tool_call>       Hermes, Qwen, SmolLM3
    <tool_call><function=NAME><parameter=KEY> ... </parameter></function></tool_call>      Qwen3-Coder
    [TOOL_CALLS][{"name": ..., "arguments": {...}}]                Mistral
    <|python_tag|>{"name": ..., "parameters": {...}}, or only that object                  Llama 3
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_THINK: Final = re.compile(r"\s*<(think|thinking|seed:think)>(.*?)(?:</\1>|\Z)", re.S)
_END: Final = re.compile(r"</(?:think|thinking|seed:think)>")
_CALL: Final = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.S)
_LISTED: Final = re.compile(r"\[TOOL_CALLS\]\s*(.*)\Z", re.S)
_FUNCTION: Final = re.compile(r"<function=([^>\s]+)>(.*?)(?:</function>|\Z)", re.S)
_PARAMETER: Final = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.S)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants to be called."""

    name: str
    arguments: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What a reply says."""

    thinking: str
    answer: str
    tool_calls: tuple[ToolCall, ...] = ()
    problems: tuple[str, ...] = ()
    """Calls that cannot be read; their text stays in the answer. Thinking without an end."""


def parse_reply(text: str, *, thinking: bool = False) -> ParsedReply:
    """Take a reply apart.

    Args:
        text: What the model wrote.
        thinking: The prompt ended inside thinking, so all is thinking if no end of it comes.
    """
    thought, rest, problems = _thinking(text, thinking)
    calls: list[ToolCall] = []

    def take(found: re.Match[str]) -> str:
        read = _calls(found[1])
        if read is None:
            problems.append(f"a call of a tool cannot be read: {found[1].strip()[:200]}")
            return found[0]
        calls.extend(read)
        return ""

    answer = _LISTED.sub(take, _CALL.sub(take, rest))
    bare = answer.strip().removeprefix("<|python_tag|>").strip()
    if not calls and bare.startswith("{") and (read := _calls(bare, bare_object=True)):
        calls, answer = read, ""
    return ParsedReply(thought.strip(), answer.strip(), tuple(calls), tuple(problems))


def _thinking(text: str, inside: bool) -> tuple[str, str, list[str]]:
    """Thinking, what follows, and problems."""
    begun = _THINK.match(text)
    if begun:
        closed = _END.search(begun[0])
        return begun[2], text[begun.end() :], [] if closed else ["the reply ends while the model was thinking"]
    if end := _END.search(text):  # the prompt has opened it
        return text[: end.start()], text[end.end() :], []
    return (text, "", ["the reply ends while the model was thinking"]) if inside else ("", text, [])


def _calls(text: str, bare_object: bool = False) -> list[ToolCall] | None:
    """The calls that a text holds, None if it is no such text."""
    if functions := _FUNCTION.findall(text):
        return [ToolCall(n, {k: _value(v) for k, v in _PARAMETER.findall(body)}) for n, body in functions]
    try:
        value = json.loads(text)
    except ValueError:
        return None
    listed = value if isinstance(value, list) else [value]
    made = [_call(v, bare_object) for v in listed]
    return [c for c in made if c] if made and all(made) else None


def _call(value: Any, bare_object: bool) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    value = value.get("function", value) if value.get("type") == "function" else value
    arguments = value.get("arguments", value.get("parameters", None if bare_object else {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return None
    if not isinstance(value.get("name"), str) or not isinstance(arguments, dict):
        return None
    return ToolCall(value["name"], arguments)


def _value(text: str) -> Any:
    """A parameter as JSON where it is, else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
