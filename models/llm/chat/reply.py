"""Parse replies into thinking, answer and tool calls.

Thinking is between ``<think>`` and ``</think>`` at the beginning of a reply, or the prompt has opened it. A closing tag
without an opening one is text, and so is one inside a tool call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .tool_calls import CallSpan, ToolCall, bare_calls, find_calls

_NAMES: Final = "think|thinking|seed:think"
_BEGIN: Final = re.compile(rf"\s*<({_NAMES})>")
_END: Final = re.compile(rf"</({_NAMES})>")
_OWN_LINE: Final = re.compile(rf"^\s*</(?:{_NAMES})>\s*?$", re.M)
_UNENDED: Final = "the reply ends while the model was thinking"


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """A parsed reply."""

    thinking: str
    answer: str
    tool_calls: tuple[ToolCall, ...] = ()
    problems: tuple[str, ...] = ()
    """Unreadable calls (their text stays in the answer), calls of unknown tools, thinking without an end."""


def begins_thinking(prompt: str) -> bool:
    """Whether a prompt ends with an opening thinking tag."""
    return re.search(rf"<(?:{_NAMES})>\s*\Z", prompt) is not None


def parse_reply(text: str, *, thinking: bool = False, tools: Sequence[Mapping[str, Any]] = ()) -> ParsedReply:
    """Parse a reply.

    Args:
        text: The reply.
        thinking: The prompt has opened thinking, so all is thinking if no closing tag comes.
        tools: JSON schemas of functions, bare or as ``{"type": "function", "function": {...}}``, for the types of
            parameters between tags.
    """
    places = find_calls(text, tools)
    called = [p for p in places if p.calls]
    thought, answer, problems = _thinking(text, thinking, called)
    inner, outer = ([p for p in called if part.start <= p.start < part.stop] for part in (thought, answer))
    if inner:
        problems.append("a tool is called inside thinking" + ("; calls after it count" if outer else ""))
    taken = outer or inner
    problems += [text for p in places if p.start >= answer.start or p in taken for text in p.problems]
    answer_text = _without(text, answer, outer)
    bare = bare_calls(answer_text.removeprefix("<|python_tag|>").strip(), tools) if not taken else None
    if bare:
        answer_text, taken = "", [bare]
        problems += bare.problems
    calls = tuple(call for place in taken for call in place.calls)
    return ParsedReply(_without(text, thought, [] if outer else inner), answer_text, calls, tuple(problems))


def split_thinking(text: str, *, inside: bool = False) -> tuple[str, str]:
    """The thinking and the answer of a reply; tool calls stay in the answer.

    Args:
        text: The reply.
        inside: The prompt has opened thinking, so all is thinking if no closing tag comes.
    """
    called = [place for place in find_calls(text, ()) if place.calls]
    thought, answer, _ = _thinking(text, inside, called)
    return text[thought].strip(), text[answer].strip() if thought.stop else text


def _thinking(text: str, inside: bool, called: Sequence[CallSpan]) -> tuple[slice, slice, list[str]]:
    """Ranges of thinking and answer, and problems."""
    begin = _BEGIN.match(text)
    if not (begin or inside):
        lone = [m for m in _OWN_LINE.finditer(text) if not _covered(m.end() - 1, called)]
        hint = "an end of thinking stands alone in the reply and is kept as text: if the prompt began it, say so"
        return slice(0, 0), slice(0, len(text)), [hint] * bool(lone)
    start = begin.end() if begin else 0
    for end in _END.finditer(text, start):
        if not _covered(end.start(), called) and (begin is None or end[1] == begin[1]):
            return slice(start, end.start()), slice(end.end(), len(text)), []
    if first := next((p for p in called if p.start >= start), None):
        return slice(start, first.start), slice(first.start, len(text)), ["thinking has no end before a tool is called"]
    return slice(start, len(text)), slice(len(text), len(text)), [_UNENDED]


def _covered(at: int, places: Sequence[CallSpan]) -> bool:
    return any(p.start <= at < p.end for p in places)


def _without(text: str, part: slice, places: Sequence[CallSpan]) -> str:
    """A part of a text without these tool calls."""
    pieces, at = [], part.start
    for place in places:
        pieces.append(text[at : place.start])
        at = place.end
    return "".join([*pieces, text[at : part.stop]]).strip()
