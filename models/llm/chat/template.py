"""Chats as a model's own template writes them.

The template comes with the model and is run in transformers' sandbox. It sees plain JSON values only, and no clock: the
day it may name is given, so that the same chat always gives the same tokens.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from ..tokenizer import Tokenizer, free_mark
from .reply import begins_thinking

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
SWITCHES: Final = ("enable_thinking", "thinking")
"""What templates call the switch for thinking."""
_THOUGHTS: Final = ("reasoning_content", "thinking", "reasoning")
"""What an assistant's thinking is called; templates read one of the first two."""
_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", *_THOUGHTS})
"""What a turn may have in all chats."""
DAY: Final = date(2026, 1, 1)
"""The day that templates are told unless another is given."""

MOST_CHARACTERS: Final = 1 << 24
MOST_SECONDS: Final = 20.0
"""A template that writes more, or for longer, is stopped."""

Message = Mapping[str, Any]


class ChatError(ValueError):
    """A chat that cannot be written; names the turn, counted from 1."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat as the model reads it."""

    text: str
    ids: tuple[int, ...]
    """Not always the ids of ``text``: what users wrote like a control token is none here."""
    remarks: tuple[str, ...] = ()
    """What the user should know."""

    @property
    def begins_thinking(self) -> bool:
        """Whether the reply goes on inside thinking that the template has begun."""
        return begins_thinking(self.text)


def messages_of(text: str, system: str = "", pictures: int = 0) -> list[Message]:
    """Messages from a JSON list of them, or from the plain text of one user turn.

    Args:
        text: Of the user, or the list.
        system: What comes before all.
        pictures: How many places for pictures there are to be. If the list has none, they come first in its last user
            turn.
    """
    found: list[Message] = [{"role": "user", "content": text}]
    if text.lstrip().startswith("[") and isinstance(listed := _json(text), list) and _are_messages(listed):
        found = listed
    if pictures and not any(part.get("type") == "image" for m in found for part in _parts(m.get("content"))):
        last = max((i for i, m in enumerate(found) if m["role"] == "user"), default=-1)
        if last < 0:
            raise ChatError("there is a picture, but no user turn that could show it")
        shown = [{"type": "image"}] * pictures + _parts(found[last].get("content"))
        found = [*found[:last], {**found[last], "content": shown}, *found[last + 1 :]]
    if system:
        if found and found[0].get("role") == "system":
            raise ChatError("turn 1 is a system turn, and another system text is given; keep one of them")
        found = [{"role": "system", "content": system}, *found]
    return found


def _are_messages(value: Sequence[Any]) -> bool:
    return any(isinstance(m, dict) and "role" in m for m in value)


def misread(text: str) -> str:
    """What to say of a text that looks like a list of messages and is sent as the text of one; empty if nothing is."""
    if not (text.lstrip().startswith("[") and '"role"' in text):
        return ""
    try:
        json.loads(text)
    except ValueError as e:
        return f"the message looks like a chat in JSON, and is sent as it is, for it cannot be read as one: {e}"
    return ""


def _parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a turn's content; what is none is left to ``_content``."""
    if isinstance(content, list):
        return [part for part in content if isinstance(part, dict)]
    return [{"type": "text", "text": content}] if isinstance(content, str) else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def write_chat(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    thinking: bool | None = None,
    reply: bool = True,
    day: date = DAY,
    sees: bool = False,
) -> Chat:
    """Write a chat as text and tokens.

    Args:
        tokenizer: With the model's template.
        messages: Turns of ``role`` and ``content`` (a text, or a list of ``{"type": "text", "text": ...}``); an
            assistant's may have ``tool_calls`` and ``reasoning_content``.
        tools: JSON schemas of functions, bare or as ``{"type": "function", "function": {...}}``.
        thinking: Whether the model is to think before it answers; None leaves it to the template.
        reply: End with the beginning of the assistant's turn.
        day: What a template that names the day is told.
        sees: The model reads pictures: a content may have parts ``{"type": "image"}``, and each is one placeholder.

    Raises:
        ChatError: a turn is no turn, the template refuses one, or there is no template.
    """
    template = tokenizer.chat_template
    if not template:
        raise ChatError("this model has no chat template; write the prompt yourself and use Tokenize")
    checked = [_checked(m, n, sees) for n, m in enumerate(messages, 1)]
    if not checked:
        raise ChatError("a chat needs a turn; the list of messages is empty")
    schemas = checked_tools(tools)
    whole = json.dumps([checked, schemas], ensure_ascii=False)
    mark = free_mark([whole])
    guarded = [_guarded(m, tokenizer, mark, special_only=m["role"] == "assistant") for m in checked]
    options = {
        "tools": _guarded(schemas, tokenizer, mark) or None,
        "add_generation_prompt": reply,
        "strftime_now": day.strftime,
        **({} if thinking is None else dict.fromkeys(SWITCHES, thinking)),
        **{f"{name}_token": getattr(tokenizer.fast, f"{name}_token") or "" for name in ("bos", "eos", "unk", "pad")},
    }
    marked = _render(template, guarded, options)
    plain = options | {"tools": schemas or None}
    remarks = _unused(template, thinking, day, checked) + _left_out(template, checked, plain, free_mark([whole, mark]))
    return Chat(marked.replace(mark, ""), tokenizer.encode_marked(marked, mark), tuple(remarks))


def _render(template: str, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> str:
    """The text; where the template fails, the error names the first turn with which it does."""
    from jinja2 import TemplateError

    write = _compiled(template)
    try:
        return write(messages=messages, **options)
    except ChatError:
        raise
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as e:
        turn, why = len(messages), str(e) or type(e).__name__
        for count in range(1, len(messages)):
            try:
                write(messages=messages[:count], **options)
            except Exception as first:
                if str(first) == str(e):
                    turn = count
                    break
        role = messages[turn - 1]["role"]
        raise ChatError(f"the model's chat template refuses turn {turn} ({role}): {why}") from e


def _compiled(template: str) -> Callable[..., str]:
    from jinja2 import TemplateSyntaxError
    from transformers.utils import chat_template_utils

    try:
        made = chat_template_utils._compile_jinja_template(template)
    except TemplateSyntaxError as e:
        raise ChatError(f"the model's chat template is broken at line {e.lineno}: {e.message}") from e

    def write(**values: Any) -> str:
        pieces, size, end = [], 0, time.monotonic() + MOST_SECONDS
        for piece in made.generate(**values):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_CHARACTERS or time.monotonic() > end:
                raise ChatError(f"the model's chat template does not end: it has written {size} characters")
        return "".join(pieces)

    return write


def _checked(message: Any, turn: int, sees: bool) -> dict[str, Any]:
    """A turn as plain JSON values, with what templates ask for."""
    if not isinstance(message, Mapping):
        raise ChatError(f'turn {turn} is no object with "role" and "content": {str(message)[:60]!r}')
    role = message.get("role")
    if role not in ROLES:
        raise ChatError(f"turn {turn} has the role {role!r}; roles are {', '.join(ROLES)}")
    try:
        made: dict[str, Any] = json.loads(json.dumps(dict(message)))
    except (TypeError, ValueError) as e:
        raise ChatError(f"turn {turn} ({role}) holds what is no JSON: {e}") from e
    made["content"] = _content(made.get("content"), turn, role, bool(made.get("tool_calls")), sees)
    if thought := next((v for name in _THOUGHTS if (v := made.get(name))), None):
        made |= dict.fromkeys(_THOUGHTS[:2], thought)
    if calls := made.get("tool_calls"):
        made["tool_calls"] = [_call(call, turn) for call in calls]
    return made


def _content(content: Any, turn: int, role: str, calls: bool, sees: bool) -> str | list[dict[str, Any]]:
    """A text; for a model that sees a list of parts, which is what all templates of such models take."""
    if content is None and calls:
        content = ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if sees else content
    if isinstance(content, list) and all(isinstance(p, dict) for p in content):
        known = ("text", "image") if sees else ("text",)
        if other := [p.get("type") for p in content if p.get("type") not in known]:
            reads = "texts and pictures" if sees else "text only"
            raise ChatError(f"turn {turn} ({role}) holds a part of type {other[0]!r}; this model reads {reads}")
        if empty := [p for p in content if p["type"] == "text" and not isinstance(p.get("text"), str)]:
            raise ChatError(f'turn {turn} ({role}) holds a part without a "text": {str(empty[0])[:60]}')
        if sees:
            return [{"type": "image"} if p["type"] == "image" else p for p in content]
        return "".join(p["text"] for p in content)
    raise ChatError(f"turn {turn} ({role}) has no text as its content, but {str(content)[:60]!r}")


def _call(call: Any, turn: int) -> dict[str, Any]:
    """A tool call with its arguments as an object, which is what templates expect."""
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise ChatError(f'turn {turn} (assistant) has a tool call without a "name": {str(call)[:60]!r}')
    arguments = inner.get("arguments", {})
    if isinstance(arguments, str) and isinstance(read := _json(arguments), dict):
        arguments = read
    rest = {"id": call["id"]} if "id" in call else {}
    return {"type": "function", "function": {"name": inner["name"], "arguments": arguments}, **rest}


def checked_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools as ``{"type": "function", "function": {"name", "description", "parameters"}}``.

    Raises:
        ChatError: one is no schema of a function.
    """
    return [_tool(t, n) for n, t in enumerate(tools, 1)]


def _tool(tool: Any, number: int) -> dict[str, Any]:
    """A tool in the form {"type": "function", "function": {...}}."""
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ChatError(f'tool {number} is no JSON schema of a function: it needs a "name"')
    whole = {"description": "", "parameters": {"type": "object", "properties": {}}, **inner}
    takes = whole["parameters"]
    if not isinstance(takes, Mapping) or not isinstance(takes.get("properties", {}), Mapping):
        raise ChatError(f'tool {number} ({inner["name"]}): "parameters" is no JSON schema of an object')
    made: dict[str, Any] = json.loads(json.dumps({"type": "function", "function": whole}))
    return made


def can_switch_thinking(template: str | None) -> bool:
    """Whether a template lets thinking be switched on and off."""
    return any(re.search(rf"\b{name}\b", template or "") for name in SWITCHES)


def _unused(template: str, thinking: bool | None, day: date, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Settings and fields of turns that a template does not name."""
    found = []
    if thinking is not None and not can_switch_thinking(template):
        found.append("the chat template of this model has no switch for thinking; it is left as it is")
    if day != DAY and "strftime_now" not in template:
        found.append(f"the chat template of this model names no day; {day} is left out")
    for n, m in enumerate(messages, 1):
        other = [k for k, v in m.items() if v and k not in _FIELDS and not re.search(rf"\b{re.escape(k)}\b", template)]
        found += [f"the chat template of this model does not read {key!r} of turn {n} ({m['role']})" for key in other]
    return found


def _left_out(template: str, messages: list[dict[str, Any]], options: Mapping[str, Any], sign: str) -> list[str]:
    """What of a chat the template does not write: it is run on the same chat with signs in it, and signs are missed.

    A template that fails on those says nothing.
    """
    signs: dict[str, str] = {}

    def signed(value: Any, what: str) -> Any:
        return _with_sign(value, signs.setdefault(what, f"{sign}{len(signs)}{sign}"))

    tools = options["tools"] and signed(options["tools"], "the tools")
    turns = []
    for n, m in enumerate(messages, 1):
        parts = {"content": f"the text of turn {n} ({m['role']})", "tool_calls": f"the tool calls of turn {n}"}
        turns.append({**m, **{key: signed(m[key], what) for key, what in parts.items() if m.get(key)}})
    try:
        text = _compiled(template)(messages=turns, **{**options, "tools": tools})
    except Exception:
        return []
    missed = [what for what, s in signs.items() if s not in text and json.dumps(s)[1:-1] not in text]
    return [f"the chat template of this model leaves out {what}" for what in missed]


def _with_sign(value: Any, sign: str) -> Any:
    """A content with a sign at its end; calls or tools with one in their names."""
    if isinstance(value, str):
        return value + sign
    if "function" in value[0]:
        return [{**v, "function": {**v["function"], "name": v["function"]["name"] + sign}} for v in value]
    return [*value, {"type": "text", "text": sign}]


def _guarded(value: Any, tokenizer: Tokenizer, mark: str, special_only: bool = False) -> Any:
    """A value with marks in the control tokens that its texts spell. Names of fields stay as they are."""
    if isinstance(value, str):
        return tokenizer.guard(value, mark, special_only)
    if isinstance(value, dict):
        return {k: v if k in ("role", "type") else _guarded(v, tokenizer, mark, special_only) for k, v in value.items()}
    if isinstance(value, list):
        return [_guarded(v, tokenizer, mark, special_only) for v in value]
    return value
